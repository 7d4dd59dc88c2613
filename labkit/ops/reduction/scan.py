"""Running sums along a dimension.

Source   aten/src/ATen/native/ReduceOps.cpp
         aten/src/ATen/native/cpu/ReduceOpsKernel.cpp  cumsum_cpu_kernel
Differs  running sums of float32 are kept in float64 and rounded at every place
"""

import numpy as np

from labkit.core.dtype import DType
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.reduction.reduction import accumulator, refuse_barebones, widened
from labkit.ops.registration import kernel


@kernel("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor")
def cumsum(self: TensorImpl, dim: int, *, dtype: DType | None = None) -> TensorImpl:
    """The sum of everything up to each place along a dimension."""
    dim = maybe_wrap_dim(dim, self.dim())
    source, dtype = widened(self, dtype)
    refuse_barebones("cumsum_out_cpu", dtype)
    if dtype.kind == "bool" and self.numel() and self.sizes:
        raise NotImplementedError("'cumsum_out_cpu' not implemented for bool")
    values = wide(source)
    if not self.sizes:
        return new_tensor(values, dtype)
    wider = accumulator(dtype) if dtype.is_inexact else values.dtype
    with np.errstate(all="ignore"):
        return new_tensor(np.cumsum(values, axis=dim, dtype=wider), dtype)
