"""Every module that defines operators: importing this one makes them all callable.

A new module adds its line.
"""

from labkit.ops import (  # noqa: F401
    adaptive_pooling,
    advanced_indexing,
    arithmetic,
    attention,
    avg_pooling,
    batch_norm,
    blas,
    contraction,
    conv_layers,
    convolution,
    cpu_fallback,
    im2col,
    layer_norm,
    matmul,
    max_pooling,
    moving,
    padding,
    pixel_shuffle,
    reinterpret,
    shape,
    softmax,
    split,
    upsampling,
    view,
)
