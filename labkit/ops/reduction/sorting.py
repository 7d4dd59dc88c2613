"""Order: sorting, the k largest, the k-th smallest, distinct elements.

NaN is larger than every number. Among equals `sort` keeps the order they came in.

Source   aten/src/ATen/native/Sorting.cpp
         aten/src/ATen/native/Unique.cpp
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import strides as stride_rules
from labkit.core.dtype import DType
from labkit.core.memory_format import contiguous_strides
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor
from labkit.ops.aten import aten
from labkit.ops.reduction.cpp_algorithms import Moves
from labkit.ops.reduction.reduction import refuse_unordered
from labkit.ops.reduction.statistics import nan_last_order
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

Array = NDArray[Any]
Pair = tuple[TensorImpl, TensorImpl]
Triple = tuple[TensorImpl, TensorImpl, TensorImpl]


def order_of(rows: Array, descending: bool) -> Array:
    """Positions along the last dimension in the order of the values, ties as they came."""
    if not descending:
        return nan_last_order(rows)
    backwards: Array = rows.shape[-1] - 1 - nan_last_order(rows[..., ::-1])[..., ::-1]
    return backwards


@kernel(
    "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> "
    "(Tensor values, Tensor indices)"
)
def sort_stable(
    self: TensorImpl, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> Pair:
    """The elements in order along a dimension, and where each was.

    stable  no difference here

    Differs  always stable; PyTorch, not asked for it, sorts long rows with vector instructions
             that leave equals in another order
    """
    dim = maybe_wrap_dim(dim, self.dim())
    if self.dtype.is_complex:
        raise RuntimeError(
            f"Sort currently does not support complex dtypes on CPU, got {self.dtype.name}"
        )
    strides = self.strides
    if not self.is_non_overlapping_and_dense:
        strides = stride_rules.infer_dense_strides(self.sizes, self.strides)
    if not self.sizes or not self.numel():
        places = np.zeros(self.sizes, np.int64)
        return (
            new_tensor(copy.values(self), self.dtype, strides),
            new_tensor(places, dtypes.int64, strides),
        )
    if self.dtype.is_float8:
        raise NotImplementedError(f"'sort_stable' not implemented for {self.dtype.name}")
    rows = np.moveaxis(copy.values(self), dim, -1)
    places = order_of(rows, descending)
    if not stable and rows.shape[-1] > 16:  # up to 16 C++'s sort is stable too
        places = _with_ties(rows, places, lambda moves: moves.sort(len(moves.order)))
    values = np.moveaxis(np.take_along_axis(rows, places, -1), -1, dim)
    return (
        new_tensor(values, self.dtype, strides),
        new_tensor(np.moveaxis(places, -1, dim), dtypes.int64, strides),
    )


@kernel("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)")
def sort(self: TensorImpl, dim: int = -1, descending: bool = False) -> Pair:
    """The elements in order along a dimension, and where each was."""
    return sort_stable(self, stable=False, dim=dim, descending=descending)


@composite("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor")
def argsort(self: TensorImpl, dim: int = -1, descending: bool = False) -> Any:
    """Where the elements would come from if they were sorted."""
    return aten.sort.default(self, dim, descending)[1]


@composite(
    "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"
)
def argsort_stable(
    self: TensorImpl, *, stable: bool, dim: int = -1, descending: bool = False
) -> Any:
    """Where the elements would come from if they were sorted."""
    return aten.sort.stable(self, stable=stable, dim=dim, descending=descending)[1]


def _with_ties(rows: Array, stable: Array, move: Callable[[Moves], None]) -> Array:
    """The stable order; in rows with equal elements, the order that PyTorch's moves lead to."""
    if rows.size == 0 or rows.shape[-1] < 2:
        return stable
    places = stable.copy().reshape(-1, rows.shape[-1])
    values = np.take_along_axis(rows, stable, -1).reshape(places.shape)
    same = values[:, 1:] == values[:, :-1]
    if values.dtype.kind == "f":
        same |= np.isnan(values[:, 1:]) & np.isnan(values[:, :-1])
    for row in np.flatnonzero(same.any(axis=1)):
        ranks = np.empty(places.shape[-1], np.int64)
        ranks[places[row]] = np.concatenate([[0], np.cumsum(~same[row])])
        moves = Moves(ranks.tolist())
        move(moves)
        places[row] = moves.order
    return places.reshape(stable.shape)


def _top(moves: Moves, k: int, in_order: bool) -> None:
    if k == 0:
        return
    if k * 64 <= len(moves.order):
        moves.partial_sort(k)
        return
    moves.nth_element(k - 1)
    if in_order:
        moves.sort(k - 1)


@kernel(
    "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> "
    "(Tensor values, Tensor indices)"
)
def topk(
    self: TensorImpl,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002
) -> Pair:
    """The k largest or smallest elements along a dimension, best first, and where they are.

    Source   aten/src/ATen/native/TopKImpl.h  topk_impl_loop
    Differs  sorted even when not asked for, unless elements are equal
    """
    dim = maybe_wrap_dim(dim, self.dim())
    length = self.sizes[dim] if self.sizes else 1
    if not 0 <= k <= length:
        raise RuntimeError(f"selected index k out of range: k={k}, size {length} along dim {dim}")
    if self.dtype.is_complex or self.dtype.kind == "bool":
        raise RuntimeError(f"topk does not support {self.dtype.name} on CPU")
    values = copy.values(self)
    if not self.sizes:
        places = np.zeros((), np.int64)
        return new_tensor(values, self.dtype), new_tensor(places, dtypes.int64)
    rows = np.moveaxis(values, dim, -1)
    refuse_unordered("topk_cpu", self.dtype)
    places = _with_ties(rows, order_of(rows, largest), lambda moves: _top(moves, k, sorted))[
        ..., :k
    ]
    best = np.take_along_axis(rows, places, -1)
    return (
        new_tensor(np.moveaxis(best, -1, dim), self.dtype),
        new_tensor(np.moveaxis(places, -1, dim), dtypes.int64),
    )


def _distinct(values: Array) -> tuple[Array, Array, Array]:
    """Sorted distinct values, where each element is among them, and how often each occurs."""
    found, inverse, counts = np.unique(
        values, return_inverse=True, return_counts=True, equal_nan=False
    )
    return found, inverse.reshape(values.shape), counts


@kernel(
    "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) "
    "-> (Tensor, Tensor, Tensor)",
    variants="function",
)
def unique2(
    self: TensorImpl,
    sorted: bool = True,  # noqa: A002
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Triple:
    """The distinct elements in ascending order; every NaN is distinct.

    Also, when asked for, where each element is among them, and how often each occurs.
    """
    if self.dtype.is_complex or self.dtype.is_float8:
        raise NotImplementedError(f"'unique' not implemented for {self.dtype.name}")
    found, inverse, counts = _distinct(copy.values(self))
    return (
        new_tensor(found, self.dtype),
        _if_asked(return_inverse, inverse),
        _if_asked(return_counts, counts),
    )


def _if_asked(asked: bool, places: Array) -> TensorImpl:
    return new_tensor(places if asked else np.empty(0, np.int64), dtypes.int64)


@kernel(
    "_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
    variants="function",
)
def unique(
    self: TensorImpl,
    sorted: bool = True,  # noqa: A002
    return_inverse: bool = False,
) -> Pair:
    """The distinct elements in ascending order, and where each element is among them."""
    found, inverse, _ = unique2(self, sorted, return_inverse)
    return found, inverse


def _moved(slices: Array, dim: int, dtype: DType) -> TensorImpl:
    """Slices that lie one after the other in memory, shown along a dimension."""
    if not slices.size:
        return new_tensor(np.moveaxis(slices, 0, dim), dtype)
    strides = list(contiguous_strides(slices.shape))
    strides.insert(dim, strides.pop(0))
    return new_tensor(np.moveaxis(slices, 0, dim), dtype, tuple(strides))
