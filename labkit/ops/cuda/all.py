"""Every module with kernels for the CUDA key: importing this one registers them."""

from labkit.ops.cuda import (  # noqa: F401
    amp_kernels,
    blas,
    composed,
    convolution,
    dropout,
    indexed,
    joining,
    normalization,
    pooling,
    reduction,
    softmax,
    triangles,
)
