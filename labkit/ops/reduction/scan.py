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
from labkit.ops.aten import aten
from labkit.ops.reduction.reduction import in_dtype, refuse_float8, refuse_unordered
from labkit.ops.registration import composite, kernel
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


@kernel("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)")
def cummax(self: TensorImpl, dim: int) -> tuple[TensorImpl, TensorImpl]:
    """The largest element up to each place along a dimension, and where it is."""
    return _running("cummax_cpu", np.greater_equal, self, dim)


@kernel("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)")
def cummin(self: TensorImpl, dim: int) -> tuple[TensorImpl, TensorImpl]:
    """The smallest element up to each place along a dimension, and where it is."""
    return _running("cummin_cpu", np.less_equal, self, dim)


@kernel("logcumsumexp(Tensor self, int dim) -> Tensor")
def logcumsumexp(self: TensorImpl, dim: int) -> TensorImpl:
    """The logarithm of the sum of exponentials up to each place along a dimension."""
    dim = maybe_wrap_dim(dim, self.dim())
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        raise NotImplementedError(f"'logcumsumexp_out_cpu' not implemented for {self.dtype.name}")
    refuse_float8("logcumsumexp_out_cpu", self.dtype)
    if not self.sizes:
        return new_tensor(copy.values(self), self.dtype)
    values = copy.values(self)
    with np.errstate(all="ignore"):
        if self.dtype.is_complex:
            found = _complex_logcumsumexp(values.astype(np.complex128), dim)
        else:
            found = np.logaddexp.accumulate(values.astype(np.float64), axis=dim)
    return new_tensor(found, self.dtype)


def _complex_logcumsumexp(values: Array, dim: int) -> Array:
    rows = np.moveaxis(values, dim, -1).copy()
    for place in range(1, rows.shape[-1]):
        before, here = rows[..., place - 1], rows[..., place]
        smaller = np.where(here.real < before.real, here, before)
        larger = np.where(here.real < before.real, before, here)
        found = np.log1p(np.exp(smaller - larger)) + larger  # the phase is not wrapped
        rows[..., place] = np.where(np.isinf(larger.real), larger, found)
    return np.moveaxis(rows, -1, dim)


@composite(
    "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"
)
def diff(
    self: TensorImpl,
    n: int = 1,
    dim: int = -1,
    prepend: TensorImpl | None = None,
    append: TensorImpl | None = None,
) -> Any:
    """The n-th differences of neighbours along a dimension.

    Source   aten/src/ATen/native/ReduceOps.cpp  diff
    """
    if not self.sizes:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    wrapped = maybe_wrap_dim(dim, self.dim())
    for name, other in (("prepend", prepend), ("append", append)):
        if other is not None:
            _check_beside(name, self, other, wrapped)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return aten.copy_.default(aten.zeros_like.default(self), self)
    parts = [each for each in (prepend, self, append) if each is not None]
    joined = aten.cat.default(parts, wrapped) if len(parts) > 1 else self
    n = min(n, joined.sizes[wrapped])
    for _ in range(n):
        length = joined.sizes[wrapped]
        if length == 0:
            break
        earlier = aten.narrow.default(joined, wrapped, 0, length - 1)
        later = aten.narrow.default(joined, wrapped, 1, length - 1)
        if joined.dtype.kind == "bool":
            joined = aten.logical_xor.default(later, earlier)
        else:
            joined = aten.sub.Tensor(later, earlier)
    return joined


def _check_beside(name: str, self: TensorImpl, other: TensorImpl, dim: int) -> None:
    if other.dim() != self.dim():
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for each in range(self.dim()):
        if each != dim and other.sizes[each] != self.sizes[each]:
            raise RuntimeError(
                f"diff expects the shape of tensor to {name} to match that of input except along "
                f"the differencing dimension; input.size({each}) = {self.sizes[each]}, but got "
                f"{other.sizes[each]}"
            )
