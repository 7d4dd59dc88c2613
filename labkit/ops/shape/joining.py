"""Tensors joined along a dimension, old or new.

Source   aten/src/ATen/native/TensorShape.cpp
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core import promotion
from labkit.core.dtype import DType
from labkit.core.formats import convert
from labkit.core.memory_format import MemoryFormat, strides_for, suggest_memory_format
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_raw
from labkit.ops.registration import kernel

Tensors = Sequence[TensorImpl]


def _raws(tensors: Tensors, dtype: DType) -> list[Array]:
    return [convert(each.raw(), each.dtype, dtype) for each in tensors]


def layout(tensors: Tensors) -> MemoryFormat:
    """The format all tensors suggest; contiguous when they differ."""
    formats = {suggest_memory_format(each.sizes, each.strides) for each in tensors}
    return formats.pop() if len(formats) == 1 else MemoryFormat.contiguous_format


@kernel("cat(Tensor[] tensors, int dim=0) -> Tensor", variants="function")
def cat(tensors: Tensors, dim: int = 0) -> TensorImpl:
    """The tensors one after the other along a dimension, in the promoted element type.

    An empty tensor of one dimension takes part in the type alone.

    Raises   ValueError     no tensors
             RuntimeError   a 0-dim tensor, or sizes that differ elsewhere than along `dim`
    """
    operands, axis, dtype = checked(tensors, dim)
    if not operands:
        return new_raw(np.empty(0, dtype.raw), dtype)
    raw = np.concatenate(_raws(operands, dtype), axis)
    return new_raw(raw, dtype, strides_for(raw.shape, layout(operands)))


def checked(tensors: Tensors, dim: int) -> tuple[list[TensorImpl], int, DType]:
    """The tensors that `cat` joins, along which dimension, and the element type of the result.

    Raises   as `cat`
    """
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for position, each in enumerate(tensors):
        if not each.sizes:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {position}) cannot be concatenated"
            )
    dtype = promotion.result_type(*tensors)
    joined = [(i, each) for i, each in enumerate(tensors) if each.sizes != (0,)]
    if not joined:
        return [], maybe_wrap_dim(dim, 1), dtype
    _, first = joined[0]
    axis = maybe_wrap_dim(dim, first.dim())
    for number, each in joined:
        if each.dim() != first.dim():
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.dim()} and {each.dim()}"
            )
        for place, (size, wanted) in enumerate(zip(each.sizes, first.sizes, strict=True)):
            if place != axis and size != wanted:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size "
                    f"{wanted} but got size {size} for tensor number {number} in the list."
                )
    return [each for _, each in joined], axis, dtype


@kernel("stack(Tensor[] tensors, int dim=0) -> Tensor", variants="function")
def stack(tensors: Tensors, dim: int = 0) -> TensorImpl:
    """The tensors side by side along a new dimension.

    Raises   RuntimeError   no tensors, or of several sizes
    """
    axis = checked_stack(tensors, dim)
    dtype = promotion.result_type(*tensors)
    return new_raw(np.stack(_raws(tensors, dtype), axis), dtype)


def checked_stack(tensors: Tensors, dim: int) -> int:
    """The new dimension, counted from the front.

    Raises   as `stack`
    """
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    axis = maybe_wrap_dim(dim, first.dim() + 1)
    for number, each in enumerate(tensors):
        if each.sizes != first.sizes:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.sizes)} at entry "
                f"0 and {list(each.sizes)} at entry {number}"
            )
    return axis
