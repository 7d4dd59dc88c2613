"""Slices along a dimension fetched and added to, by their numbers.

Source   aten/src/ATen/native/TensorAdvancedIndexing.cpp  index_select, index_add
"""

# mypy: disable-error-code="no-any-return"

from typing import Any

import numpy as np

from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import (
    Array,
    in_place,
    new_raw,
    new_tensor,
    wide,
)
from labkit.ops.indexing.scatter import INDEX_TYPES
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy

EXPLICIT = "CompositeExplicitAutograd"


def _entries(
    name: str, self: TensorImpl, dim: int, index: TensorImpl, outside: type[Exception]
) -> tuple[int, Array]:
    """The axis, and the slice numbers in a vector.

    Raises   IndexError     an index of two or more dimensions
             RuntimeError   another type of index
             `outside`      a number outside the dimension
    """
    axis = maybe_wrap_dim(dim, self.dim())
    if index.dim() > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, got {list(index.sizes)}")
    if index.dtype not in INDEX_TYPES:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}")
    entries = copy.values(index).reshape(-1)
    size = self.sizes[axis] if self.sizes else 1
    wrong = (entries < 0) | (entries >= size)
    if wrong.any():
        raise outside(
            f"{name}(): index {entries[wrong][0]} is out of range in self: dimension {axis} has "
            f"size {size}"
        )
    return axis, entries


def _slices(axis: int, entries: Array) -> Any:
    return (*[slice(None)] * axis, entries)


@kernel("index_select(Tensor self, int dim, Tensor index) -> Tensor")
def index_select(self: TensorImpl, dim: int, index: TensorImpl) -> TensorImpl:
    """The slices with these numbers, in their order.

    Raises   IndexError     an index of two or more dimensions, or a number out of range
             RuntimeError   another type of index
    """
    axis, entries = _entries("index_select", self, dim, index, IndexError)
    if not self.sizes:
        if entries.size != 1:
            raise RuntimeError(
                "index_select(): Index to scalar can have only 1 value, got "
                f"{entries.size} value(s)"
            )
        return copy.clone(self)
    return new_raw(np.take(self.raw(), entries, axis), self.dtype)


def _check_source(
    name: str, self: TensorImpl, axis: int, entries: Array, source: TensorImpl
) -> Array:
    """The source as an array that fits into the slices."""
    if source.dim() > 1 and self.dim() != source.dim():
        raise RuntimeError(
            f"{name}(): self and source need one rank, got {self.dim()} and {source.dim()}"
        )
    if self.dtype is not source.dtype:
        raise RuntimeError(
            f"{name}(): self ({self.dtype}) and source ({source.dtype}) must have the same scalar "
            "type"
        )
    count = source.sizes[axis] if source.sizes else 1
    if count != entries.size:
        raise RuntimeError(
            f"{name}(): Number of indices ({entries.size}) should be equal to source.size(dim): "
            f"({count}), for dim: {axis}"
        )
    own = [size for place, size in enumerate(self.sizes) if place != axis]
    given = [size for place, size in enumerate(source.sizes) if place != axis]
    if self.sizes and own != given:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(self.sizes)} source.shape = {list(source.sizes)}"
        )
    return source.raw().reshape(source.sizes or (1,))


@kernel("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor")
def index_add(
    self: TensorImpl, dim: int, index: TensorImpl, source: TensorImpl, *, alpha: Any = 1
) -> TensorImpl:
    """`self` with `alpha` times each slice of `source` added to the slice with its number.

    Raises   as `index_select`, out of range with RuntimeError; and sizes that do not fit
    """
    axis, entries = _entries("index_add_", self, dim, index, RuntimeError)
    _check_source("index_add_", self, axis, entries, source)
    added = wide(source).reshape(source.sizes or (1,))
    result = np.array(wide(self).reshape(self.sizes or (1,)))
    factor = int(alpha) if self.dtype.is_integral else alpha
    with np.errstate(all="ignore"):
        if factor != 1:
            added = added * np.asarray(factor).astype(added.dtype)
        np.add.at(result, _slices(axis, entries), added)
    return new_tensor(result.reshape(self.sizes), self.dtype)


kernel(
    "index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> "
    "Tensor(a!)",
    variants="method",
)(in_place(index_add))
