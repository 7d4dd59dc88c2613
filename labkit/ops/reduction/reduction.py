"""Sums, products and extremes over some or all dimensions.

Two-byte floats are added up as float32 and rounded once; float32 is added up as float64, so that
no order of additions is better than another.

Source   aten/src/ATen/native/ReduceOps.cpp
         aten/src/ATen/native/ReduceOpsUtils.h
Differs  PyTorch adds float32 in float32, in cascades: last bits of long sums differ
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.memory_format import Ints
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl, from_array
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy

Array = NDArray[Any]
Dims = int | Sequence[int] | None
UFunc = Any  # NumPy's annotations cannot say that `keepdims` is a variable


def reduce(ufunc: UFunc, values: Array, dims: Ints, keepdim: bool, dtype: Any = None) -> Array:
    """The values folded over some dimensions with a binary function."""
    with np.errstate(all="ignore"):
        return np.asarray(ufunc.reduce(values, axis=dims, keepdims=keepdim, dtype=dtype))


def reduced_dims(self: TensorImpl, dim: Dims) -> Ints:
    """The dimensions that disappear, from the front; all of them for None and for an empty list.

    Raises   IndexError     no such dimension
             RuntimeError   one named twice

    Source   aten/src/ATen/native/ReduceOpsUtils.h  make_dim_mask
    """
    if dim is None or is_empty_list(dim):
        return tuple(range(self.dim()))
    found: list[int] = []
    for each in (dim,) if isinstance(dim, int) else dim:
        wrapped = maybe_wrap_dim(each, self.dim())
        if wrapped in found:
            raise RuntimeError(f"dim {each} appears multiple times in the list of dims {dim}")
        found.append(wrapped)
    return tuple(sorted(found)) if self.sizes else ()


def is_empty_list(dim: Dims) -> bool:
    """Whether it names no dimension at all, which is not the same as None."""
    return dim is not None and not isinstance(dim, int) and not dim


def in_dtype(self: TensorImpl, dtype: DType | None) -> TensorImpl:
    """The tensor, or a copy in another element type."""
    if dtype is None or dtype is self.dtype:
        return self
    return copy.to_copy(self, dtype, self.device)


def accumulator(dtype: DType) -> Any:
    """The NumPy type sums and products of an element type are kept in."""
    if dtype.is_complex:
        return np.complex128
    return np.float64 if dtype.is_floating_point else np.int64


def refuse_barebones(name: str, dtype: DType) -> None:
    """Pass for types with arithmetic."""
    if dtype in (dtypes.uint16, dtypes.uint32, dtypes.uint64):
        raise NotImplementedError(f"{name!r} not implemented for {dtype.name}")


def widened(self: TensorImpl, dtype: DType | None) -> tuple[TensorImpl, DType]:
    """The summands and the type of a sum: whole numbers become int64."""
    if dtype is None:
        whole = self.dtype.is_integral or self.dtype.kind == "bool"
        dtype = dtypes.int64 if whole else self.dtype
    return in_dtype(self, dtype), dtype


def _fold(ufunc: UFunc, values: Array, dims: Ints, keepdim: bool, dtype: DType) -> TensorImpl:
    return _rounded(reduce(ufunc, values, dims, keepdim, accumulator(dtype)), dtype)


def _rounded(total: Array, dtype: DType) -> TensorImpl:
    """The accumulated numbers in the type of the result, without a storage of their own yet."""
    if dtype.numpy is None or dtype.kind in ("bool", "unsigned"):
        return new_tensor(total, dtype)
    with np.errstate(over="ignore"):
        array = total.astype(dtype.raw, order="C")
    return from_array(array, dtype, array.shape)


@kernel(
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) "
    "-> Tensor"
)
def sum_dim(
    self: TensorImpl, dim: Dims, keepdim: bool = False, *, dtype: DType | None = None
) -> TensorImpl:
    """The sum over some dimensions."""
    dims = reduced_dims(self, dim)
    source, dtype = widened(self, dtype)
    refuse_barebones("sum_cpu", dtype)
    return _fold(np.add, wide(source), dims, keepdim, dtype)


@kernel("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor")
def sum_all(self: TensorImpl, *, dtype: DType | None = None) -> TensorImpl:
    """The sum of all elements."""
    return sum_dim(self, None, dtype=dtype)


@kernel(
    "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"
)
def mean_dim(
    self: TensorImpl, dim: Dims, keepdim: bool = False, *, dtype: DType | None = None
) -> TensorImpl:
    """The mean over some dimensions; NaN where there is nothing.

    Raises   RuntimeError   the type is neither floating nor complex
    """
    chosen = dtype or self.dtype
    if not chosen.is_inexact:
        if dtype is None:
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating "
                f"point or complex dtype. Got: {chosen.name}"
            )
        raise RuntimeError(
            "mean(): Optional dtype must be either a floating point or complex dtype. "
            f"Got: {chosen.name}"
        )
    dims = reduced_dims(self, dim)
    refuse_barebones("sum_cpu", chosen)
    values = wide(in_dtype(self, chosen))
    count = int(np.prod([self.sizes[each] for each in dims]))
    total = reduce(np.add, values, dims, keepdim, accumulator(chosen))
    with np.errstate(all="ignore"):
        return _rounded(np.asarray(np.true_divide(total, count)), chosen)


@kernel("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor")
def mean_all(self: TensorImpl, *, dtype: DType | None = None) -> TensorImpl:
    """The mean of all elements."""
    return mean_dim(self, None, dtype=dtype)


def nothing_to_choose_from(name: str) -> str:
    """The words of an error."""
    return (
        f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
        "reduction dim with the 'dim' argument."
    )


def refuse_nothing(name: str, self: TensorImpl, dims: Sequence[int]) -> None:
    """Pass when there is at least one element to choose from along each of the dimensions.

    Source   aten/src/ATen/native/ReduceOpsUtils.h  zero_numel_check_dims
    """
    for dim in dims:
        if self.sizes and self.sizes[maybe_wrap_dim(dim, self.dim())] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def refuse_unordered(name: str, dtype: DType) -> None:
    """Pass for types whose numbers have an order and loops."""
    refuse_barebones(name, dtype)
    if dtype.is_complex:
        raise NotImplementedError(f"{name!r} not implemented for {dtype.name}")


def _extreme(name: str, self: TensorImpl, dim: Dims, keepdim: bool) -> TensorImpl:
    listed = (dim,) if isinstance(dim, int) else tuple(dim or ())
    if not listed and not self.numel():
        raise RuntimeError(nothing_to_choose_from(name))
    refuse_nothing(name, self, listed)
    dims = reduced_dims(self, dim)
    if self.dtype.is_complex and self.numel():
        raise RuntimeError(f"{name}(): does not support complex input, got {self.dtype.name}")
    refuse_barebones(f"{name}_values_cpu", self.dtype)
    ufunc = np.maximum if name == "amax" else np.minimum
    found = reduce(ufunc, copy.values(self), dims, keepdim)
    return new_tensor(found, self.dtype)


@kernel("amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor")
def amax(self: TensorImpl, dim: Dims = (), keepdim: bool = False) -> TensorImpl:
    """The largest element over some dimensions; NaN if there is one."""
    return _extreme("amax", self, dim, keepdim)


@kernel("amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor")
def amin(self: TensorImpl, dim: Dims = (), keepdim: bool = False) -> TensorImpl:
    """The smallest element over some dimensions; NaN if there is one."""
    return _extreme("amin", self, dim, keepdim)


@kernel("max(Tensor self) -> Tensor")
def max_all(self: TensorImpl) -> TensorImpl:
    """The largest element."""
    return _extreme_of_all("max", self)


@kernel("min(Tensor self) -> Tensor")
def min_all(self: TensorImpl) -> TensorImpl:
    """The smallest element."""
    return _extreme_of_all("min", self)


def _extreme_of_all(name: str, self: TensorImpl) -> TensorImpl:
    refuse_unordered(f"{name}_all", self.dtype)
    if not self.numel():
        raise RuntimeError(nothing_to_choose_from(name))
    ufunc = np.maximum if name == "max" else np.minimum
    return new_tensor(ufunc.reduce(copy.values(self), axis=None), self.dtype)


def _first_extreme(name: str, self: TensorImpl, dim: int) -> tuple[Array, Array, int]:
    """The values, the index of the first largest or smallest along a dimension, the dimension."""
    (dim,) = reduced_dims(self, dim) or (0,)
    refuse_nothing(name, self, (dim,))
    refuse_unordered(f"{name}_cpu", self.dtype)
    values = copy.values(self)
    values = values if self.sizes else values.reshape(1)
    find = np.argmax if name.endswith("max") else np.argmin
    if not values.size:
        return values, np.empty((*values.shape[:dim], *values.shape[dim + 1 :]), np.int64), dim
    return values, find(values, axis=dim), dim


def _with_indices(
    name: str, self: TensorImpl, dim: int, keepdim: bool
) -> tuple[TensorImpl, TensorImpl]:
    values, found, dim = _first_extreme(name, self, dim)
    indices = np.expand_dims(found, dim)
    best = np.take_along_axis(values, indices, dim)
    if not keepdim or not self.sizes:
        best, indices = best.squeeze(dim), indices.squeeze(dim)
    return new_tensor(best, self.dtype), new_tensor(indices, dtypes.int64)


@kernel("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
def max_dim(self: TensorImpl, dim: int, keepdim: bool = False) -> tuple[TensorImpl, TensorImpl]:
    """The largest element along a dimension, and where it is first; a NaN is larger than all."""
    return _with_indices("max", self, dim, keepdim)


@kernel("min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
def min_dim(self: TensorImpl, dim: int, keepdim: bool = False) -> tuple[TensorImpl, TensorImpl]:
    """The smallest element along a dimension, and where it is first; a NaN is smaller than all."""
    return _with_indices("min", self, dim, keepdim)


@kernel("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor")
def argmax(self: TensorImpl, dim: int | None = None, keepdim: bool = False) -> TensorImpl:
    """Where the largest element is first, in row-major order or along a dimension."""
    if self.dtype.is_complex or self.dtype.kind == "bool":
        raise RuntimeError(f"argmax(): does not support {self.dtype.name} input")
    if dim is not None:
        _, found, dim = _first_extreme("argmax", self, dim)
        kept = np.expand_dims(found, dim) if keepdim and self.sizes else found
        return new_tensor(kept, dtypes.int64)
    if not self.numel():
        raise IndexError(nothing_to_choose_from("argmax"))
    refuse_barebones("argmax_cpu", self.dtype)
    index = copy.values(self).ravel().argmax()
    return new_tensor(np.full((1,) * self.dim() if keepdim else (), index), dtypes.int64)
