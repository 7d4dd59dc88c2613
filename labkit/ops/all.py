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
    bucketization,
    contraction,
    conv_layers,
    convolution,
    cpu_fallback,
    distributions,
    im2col,
    layer_norm,
    matmul,
    max_pooling,
    moving,
    padding,
    pixel_shuffle,
    reduction,
    reinterpret,
    scan,
    shape,
    softmax,
    sorting,
    split,
    statistics,
    upsampling,
    view,
)
