"""Elements filled under a mask, and indexing with index lists that leaves its argument alone.

Source   aten/src/ATen/native/TensorAdvancedIndexing.cpp  masked_fill, index_put
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence
from typing import Any

from labkit.core import dtype as dtypes
from labkit.core.memory_format import MemoryFormat
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array
from labkit.ops.indexing import advanced_indexing
from labkit.ops.registration import kernel
from labkit.ops.shape import view
from labkit.ops.tensors import copy


def _mask(name: str, mask: TensorImpl) -> Array:
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"{name} only supports boolean masks, but got {mask.dtype}")
    return copy.values(mask)


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
