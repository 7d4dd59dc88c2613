"""Elements fetched from, and written or added to, places named along one dimension.

Source   aten/src/ATen/native/TensorAdvancedIndexing.cpp  gather, scatter, scatter_add
         aten/src/ATen/native/ScatterGatherChecks.h
"""

# mypy: disable-error-code="no-any-return"

from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.memory_format import Ints
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, in_place, new_raw, new_tensor, wide
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy

INDEX_TYPES = (dtypes.int32, dtypes.int64)


def _check_index(name: str, self: TensorImpl, dim: int, index: TensorImpl) -> int:
    axis = maybe_wrap_dim(dim, self.dim())
    if not index.numel():
        return axis
    if index.dtype not in INDEX_TYPES:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}")
    if max(index.dim(), 1) != max(self.dim(), 1):
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as input tensor, got "
            f"{index.dim()} and {self.dim()}"
        )
    for place in range(self.dim()):
        if index.dim() and place != axis and index.sizes[place] > self.sizes[place]:
            raise RuntimeError(
                f"Size does not match at dimension {place} expected index {list(index.sizes)} to "
                f"be no larger than self {list(self.sizes)} apart from dimension {axis}"
            )
    return axis


def _places(shape: tuple[int, ...], axis: int, index: TensorImpl) -> Any:
    """An index into an array of that shape: for every entry of `index`, its element.

    Raises   RuntimeError   an entry outside the dimension
    """
    entries = copy.values(index)
    entries = entries.reshape(entries.shape or (1,))
    size = shape[axis]
    outside = (entries < 0) | (entries >= size)
    if outside.any():
        raise RuntimeError(
            f"index {entries[outside].flat[0]} is out of bounds for dimension {axis} with size "
            f"{size}"
        )
    counts: Ints = entries.shape
    grid: list[Any] = list(np.ix_(*[np.arange(count) for count in counts]))
    grid[axis] = entries
    return tuple(grid)


def _shape(self: TensorImpl) -> tuple[int, ...]:
    return self.sizes or (1,)


@kernel("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor")
def gather(
    self: TensorImpl, dim: int, index: TensorImpl, *, sparse_grad: bool = False
) -> TensorImpl:
    """The element each entry names along the dimension; shaped as `index`.

    Raises   RuntimeError   an index of another rank or type, larger than `self` elsewhere than
                            along `dim`, or out of range
    """
    axis = _check_index("gather", self, dim, index)
    if not index.numel():
        return new_raw(np.empty(index.sizes, self.dtype.raw), self.dtype)
    source = self.raw().reshape(_shape(self))
    found = source[_places(source.shape, axis, index)]
    return new_raw(found.reshape(index.sizes), self.dtype)


def _check_source(name: str, self: TensorImpl, dim: int, index: TensorImpl, src: TensorImpl) -> int:
    if src.dtype is not self.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, got {self.dtype} and "
            f"{src.dtype}"
        )
    axis = _check_index(name, self, dim, index)
    if index.numel():
        if max(src.dim(), 1) != max(index.dim(), 1):
            raise RuntimeError(
                "Index tensor must have the same number of dimensions as src tensor, got "
                f"{index.dim()} and {src.dim()}"
            )
        pairs = zip(index.sizes or (1,), _shape(src), strict=True)
        if any(wanted > there for wanted, there in pairs):
            raise RuntimeError(
                f"Expected index {list(index.sizes)} to be no larger than self {list(self.sizes)} "
                f"apart from dimension {axis} and to be no larger size than src {list(src.sizes)}"
            )
    return axis


def _used(src: TensorImpl, index: TensorImpl, found: Array) -> Array:
    """The part of the source that the index speaks of."""
    extent: Ints = index.sizes or (1,)
    return found.reshape(_shape(src))[tuple([slice(size) for size in extent])]


def _written(self: TensorImpl, axis: int, index: TensorImpl, entries: Array) -> TensorImpl:
    """A copy of `self` with raw entries in the named places; the last of several stays."""
    result = np.array(self.raw().reshape(_shape(self)))
    if index.numel():
        result[_places(result.shape, axis, index)] = entries
    return new_raw(result.reshape(self.sizes), self.dtype)


@kernel("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")
def scatter_src(self: TensorImpl, dim: int, index: TensorImpl, src: TensorImpl) -> TensorImpl:
    """`self` with the elements of `src` in the places that `index` names along the dimension."""
    axis = _check_source("scatter", self, dim, index, src)
    return _written(self, axis, index, _used(src, index, src.raw()) if index.numel() else src.raw())


@kernel("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor")
def scatter_value(self: TensorImpl, dim: int, index: TensorImpl, value: Any) -> TensorImpl:
    """`self` with one value in the places that `index` names along the dimension."""
    axis = _check_index("scatter", self, dim, index)
    return _written(self, axis, index, copy.scalar_raw(value, self.dtype))


@kernel("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")
def scatter_add(self: TensorImpl, dim: int, index: TensorImpl, src: TensorImpl) -> TensorImpl:
    """`self` with the elements of `src` added in the places that `index` names."""
    axis = _check_source("scatter_add", self, dim, index, src)
    result = np.array(wide(self).reshape(_shape(self)))
    if index.numel():
        with np.errstate(all="ignore"):
            np.add.at(result, _places(result.shape, axis, index), _used(src, index, wide(src)))
    return new_tensor(result.reshape(self.sizes), self.dtype)


scatter_add_ = kernel(
    "scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",
    variants="method",
)(in_place(scatter_add))
