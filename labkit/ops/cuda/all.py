"""Every module with kernels for the CUDA key: importing this one registers them."""

from labkit.ops.cuda import (  # noqa: F401
    blas,
    convolution,
    dropout,
    indexed,
    normalization,
    pooling,
    reduction,
    softmax,
)
