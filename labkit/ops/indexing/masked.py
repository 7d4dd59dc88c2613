"""Elements chosen by a mask, and indexing with index lists that leaves its argument alone.

Source   aten/src/ATen/native/TensorAdvancedIndexing.cpp  masked_select, masked_fill,
         masked_scatter, index_put, take
"""

# mypy: disable-error-code="no-any-return"

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.memory_format import MemoryFormat
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_raw, overwrite
from labkit.ops.aten import aten
from labkit.ops.indexing import advanced_indexing
from labkit.ops.registration import composite, kernel
from labkit.ops.shape import view
from labkit.ops.tensors import copy

EXPLICIT = "CompositeExplicitAutograd"


def _mask(name: str, mask: TensorImpl) -> Array:
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"{name} only supports boolean masks, but got {mask.dtype}")
    return copy.values(mask)


@kernel("masked_select(Tensor self, Tensor mask) -> Tensor")
def masked_select(self: TensorImpl, mask: TensorImpl) -> TensorImpl:
    """The elements where the mask is true, both broadcast, in a vector.

    Raises   RuntimeError   a mask of another type, or shapes that do not broadcast
    """
    chosen = _mask("masked_select", mask)
    shape = broadcast_shapes(self.sizes, mask.sizes)
    raw = np.broadcast_to(self.raw(), shape)[np.broadcast_to(chosen, shape)]
    return new_raw(raw, self.dtype)


def _expanded(self: TensorImpl, mask: TensorImpl) -> TensorImpl:
    """A contiguous copy in the broadcast shape."""
    shape = broadcast_shapes(self.sizes, mask.sizes)
    return copy.clone(view.expand(self, shape), MemoryFormat.contiguous_format)


@kernel("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor")
def masked_fill_tensor(self: TensorImpl, mask: TensorImpl, value: TensorImpl) -> TensorImpl:
    """`self` with the value of a 0-dim tensor where the mask is true.

    The overload comes first, so that a 0-dim tensor is not taken for a number.
    """
    return masked_fill(self, mask, _only_item(value))


@kernel("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor")
def masked_fill(self: TensorImpl, mask: TensorImpl, value: Any) -> TensorImpl:
    """`self` with one value where the mask is true, both broadcast."""
    result = _expanded(self, mask)
    advanced_indexing.masked_fill_(result, mask, value)
    return result.shallow_copy_and_detach()  # a new tensor has not been written to


def _only_item(value: TensorImpl) -> Any:
    if value.dim():
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.dim()} dimension(s)."
        )
    return copy.item(value)


@kernel(
    "masked_fill_.Tensor(Tensor(a!) self, Tensor mask, Tensor value) -> Tensor(a!)",
    variants="method",
)
def masked_fill_tensor_(self: TensorImpl, mask: TensorImpl, value: TensorImpl) -> TensorImpl:
    """The elements where the mask is true become the value of a 0-dim tensor."""
    return advanced_indexing.masked_fill_(self, mask, _only_item(value))


def _scattered(self: TensorImpl, mask: TensorImpl, source: TensorImpl) -> Array:
    if self.dtype is not source.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{self.dtype} and {source.dtype}"
        )
    chosen = np.broadcast_to(_mask("masked_scatter_", mask), self.sizes)
    count = int(chosen.sum())
    if source.numel() < count:
        raise RuntimeError(
            f"Number of elements of source < number of ones in mask: {source.numel()} < {count}"
        )
    raw = np.array(self.raw())
    raw[chosen] = source.raw().reshape(-1)[:count]
    return raw


@kernel("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor")
def masked_scatter(self: TensorImpl, mask: TensorImpl, source: TensorImpl) -> TensorImpl:
    """`self` with the first elements of `source`, one after the other, where the mask is true."""
    expanded = view.expand(self, broadcast_shapes(self.sizes, mask.sizes))
    return new_raw(_scattered(expanded, mask, source), self.dtype)


@kernel(
    "masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> Tensor(a!)",
    variants="method",
)
def masked_scatter_(self: TensorImpl, mask: TensorImpl, source: TensorImpl) -> TensorImpl:
    """`masked_scatter`, written into `self`."""
    return overwrite(self, new_raw(_scattered(self, mask, source), self.dtype))


@kernel(
    "masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
    variants="",
)
def masked_scatter_backward(
    grad_output: TensorImpl, mask: TensorImpl, sizes: Sequence[int]
) -> TensorImpl:
    """The gradient of the source: what was under the mask, then zeros."""
    found = masked_select(grad_output, mask).raw()
    result = np.zeros(math.prod(sizes), grad_output.dtype.raw)
    result[: found.size] = found
    return new_raw(result.reshape(tuple(sizes)), grad_output.dtype)


@kernel("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor")
def index_put(
    self: TensorImpl,
    indices: Sequence[TensorImpl | None],
    values: TensorImpl,
    accumulate: bool = False,
) -> TensorImpl:
    """`self` with `values` at the index positions, or added there."""
    result = copy.clone(self)
    advanced_indexing.index_put_(result, indices, values, accumulate)
    return result.shallow_copy_and_detach()


@kernel(
    "_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False, "
    "bool unsafe=False) -> Tensor(a!)",
    variants="",
)
def _index_put_impl_(
    self: TensorImpl,
    indices: Sequence[TensorImpl | None],
    values: TensorImpl,
    accumulate: bool = False,
    unsafe: bool = False,
) -> TensorImpl:
    """`index_put_` as derivatives call it."""
    return advanced_indexing.index_put_(self, indices, values, accumulate)


@composite("nonzero_numpy(Tensor self) -> Tensor[]", variants="method")
def nonzero_numpy(self: TensorImpl) -> list[TensorImpl]:
    """The positions of the elements that are not zero, one vector per dimension."""
    tensor = self if self.sizes else aten.unsqueeze.default(self, 0)
    return list(aten.unbind.int(aten.nonzero.default(tensor), 1))
