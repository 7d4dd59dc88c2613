"""Running sums, products and extremes along a dimension.

Source   aten/src/ATen/native/ReduceOps.cpp
         aten/src/ATen/native/cpu/ReduceOpsKernel.cpp  cumsum_cpu_kernel
Differs  running sums of float32 are kept in float64 and rounded at every place
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.reduction.reduction import in_dtype, refuse_float8, refuse_unordered
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy

Array = NDArray[Any]


def _accumulated(
    name: str, accumulate: Callable[..., Array], self: TensorImpl, dim: int, dtype: DType | None
) -> TensorImpl:
    dim = maybe_wrap_dim(dim, self.dim())
    if dtype is None:
        whole = self.dtype.is_integral or self.dtype.kind == "bool"
        dtype = dtypes.int64 if whole else self.dtype
    refuse_float8(name, dtype)
    if dtype.kind == "bool" and self.numel() and self.sizes:
        raise NotImplementedError(f"{name!r} not implemented for bool")
    values = wide(in_dtype(self, dtype))
    if not self.sizes:
        return new_tensor(values, dtype)
    wider = values.dtype
    if dtype.is_complex or dtype.is_floating_point:
        wider = np.dtype(np.complex128 if dtype.is_complex else np.float64)
    with np.errstate(all="ignore"):
        return new_tensor(accumulate(values, axis=dim, dtype=wider), dtype)


@kernel("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor")
def cumsum(self: TensorImpl, dim: int, *, dtype: DType | None = None) -> TensorImpl:
    """The sum of everything up to each place along a dimension."""
    return _accumulated("cumsum_out_cpu", np.cumsum, self, dim, dtype)


@kernel("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor")
def cumprod(self: TensorImpl, dim: int, *, dtype: DType | None = None) -> TensorImpl:
    """The product of everything up to each place along a dimension."""
    return _accumulated("cumprod_out_cpu", np.cumprod, self, dim, dtype)


def _running(
    name: str, better: Callable[[Array, Array], Array], self: TensorImpl, dim: int
) -> tuple[TensorImpl, TensorImpl]:
    """The best element up to each place, the last of equals, and where it is; NaN is the best.

    Source   aten/src/ATen/native/ReduceOps.cpp  cummax_cummin_helper
    """
    values = copy.values(self)
    if not self.sizes:
        maybe_wrap_dim(dim, 0)
    if not self.sizes or not self.numel():  # of no elements PyTorch does not even look at `dim`
        nothing = np.zeros(self.sizes, np.int64)
        return new_tensor(values, self.dtype), new_tensor(nothing, dtypes.int64)
    dim = maybe_wrap_dim(dim, self.dim())
    refuse_unordered(name, self.dtype)
    rows = np.moveaxis(values, dim, -1)
    places = np.zeros(rows.shape, np.int64)
    best, found = rows[..., 0], np.zeros(rows.shape[:-1], np.int64)
    for place in range(1, rows.shape[-1]):
        candidate = rows[..., place]
        takes = better(candidate, best) & (best == best) | (candidate != candidate)
        best, found = np.where(takes, candidate, best), np.where(takes, place, found)
        places[..., place] = found
    chosen = np.take_along_axis(rows, places, -1)
    return (
        new_tensor(np.moveaxis(chosen, -1, dim), self.dtype),
        new_tensor(np.moveaxis(places, -1, dim), dtypes.int64),
    )
