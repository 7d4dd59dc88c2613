"""Tensors joined along a dimension, old or new.

Source   aten/src/ATen/native/TensorShape.cpp
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core import promotion
from labkit.core.dtype import DType
from labkit.core.memory_format import MemoryFormat, strides_for, suggest_memory_format
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_raw
from labkit.ops.aten import aten
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

Tensors = Sequence[TensorImpl]


def _raws(tensors: Tensors, dtype: DType) -> list[Array]:
    return [copy.convert(each.raw(), each.dtype, dtype) for each in tensors]


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


@kernel("block_diag(Tensor[] tensors) -> Tensor", variants="function")
def block_diag(tensors: Tensors) -> TensorImpl:
    """A matrix with the tensors along its diagonal and zeros elsewhere.

    Raises   RuntimeError   a tensor of more than two dimensions
    """
    for position, each in enumerate(tensors):
        if each.dim() > 2:
            raise RuntimeError(
                "block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{position} has {each.dim()} dimensions"
            )
    if not tensors:
        return new_raw(np.empty((1, 0), np.float32), promotion.get_default_dtype())
    dtype = promotion.result_type(*tensors)
    blocks = [np.atleast_2d(raw) for raw in _raws(tensors, dtype)]
    shape = sum(block.shape[0] for block in blocks), sum(block.shape[1] for block in blocks)
    result = np.zeros(shape, dtype.raw)
    row = column = 0
    for block in blocks:
        result[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return new_raw(result, dtype)


@composite("concat(Tensor[] tensors, int dim=0) -> Tensor", variants="function")
@composite("concatenate(Tensor[] tensors, int dim=0) -> Tensor", variants="function")
def concat(tensors: Tensors, dim: int = 0) -> TensorImpl:
    """`cat` under its other names."""
    return aten.cat.default(tensors, dim)


@composite("hstack(Tensor[] tensors) -> Tensor", variants="function")
def hstack(tensors: Tensors) -> TensorImpl:
    """The tensors side by side: along the second dimension, or the only one."""
    if not tensors:
        raise RuntimeError("hstack expects a non-empty TensorList")
    rows = [aten.atleast_1d.default(each) for each in tensors]
    return aten.cat.default(rows, 0 if rows[0].dim() == 1 else 1)


@composite("vstack(Tensor[] tensors) -> Tensor", variants="function")
@composite("row_stack(Tensor[] tensors) -> Tensor", variants="function")
def vstack(tensors: Tensors) -> TensorImpl:
    """The tensors one below the other; a vector is a row."""
    if not tensors:
        raise RuntimeError("vstack expects a non-empty TensorList")
    return aten.cat.default([aten.atleast_2d.default(each) for each in tensors], 0)


@composite("dstack(Tensor[] tensors) -> Tensor", variants="function")
def dstack(tensors: Tensors) -> TensorImpl:
    """The tensors one behind the other, along the third dimension."""
    if not tensors:
        raise RuntimeError("dstack expects a non-empty TensorList")
    return aten.cat.default([aten.atleast_3d.default(each) for each in tensors], 2)


@composite("column_stack(Tensor[] tensors) -> Tensor", variants="function")
def column_stack(tensors: Tensors) -> TensorImpl:
    """The tensors side by side; a vector is a column."""
    if not tensors:
        raise RuntimeError("column_stack expects a non-empty TensorList")
    columns = [
        aten.reshape.default(each, (each.numel(), 1)) if each.dim() <= 1 else each
        for each in tensors
    ]
    return hstack(columns)


@composite("meshgrid(Tensor[] tensors) -> Tensor[]", variants="")
def meshgrid(tensors: Tensors) -> list[TensorImpl]:
    """One tensor per vector, each constant along the dimensions of the others."""
    for each in tensors:
        if each.dim() > 1:
            raise RuntimeError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: "
                f"{list(each.sizes)}"
            )
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if len({each.dtype for each in tensors}) > 1:
        raise RuntimeError(
            "torch.meshgrid expects all tensors to have the same dtype, got "
            f"{[each.dtype.name for each in tensors]}"
        )
    shape = [each.numel() for each in tensors]
    grids = []
    for place, each in enumerate(tensors):
        own = [1] * len(tensors)
        own[place] = -1
        grids.append(aten.expand.default(aten.view.default(each, own), shape))
    return grids


@composite("meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", variants="")
def meshgrid_indexing(tensors: Tensors, *, indexing: str) -> list[TensorImpl]:
    """`meshgrid`, with the first two dimensions exchanged for "xy"."""
    if indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    if indexing == "ij" or len(tensors) < 2:
        return meshgrid(tensors)
    swapped = [tensors[1], tensors[0], *tensors[2:]]
    grids = meshgrid(swapped)
    return [grids[1], grids[0], *grids[2:]]


@composite("cartesian_prod(Tensor[] tensors) -> Tensor", variants="function")
def cartesian_prod(tensors: Tensors) -> TensorImpl:
    """All combinations of one element of each vector, as rows."""
    for each in tensors:
        if each.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(each.sizes)}")
    if len(tensors) == 1:
        return tensors[0]
    grids = [aten.flatten.using_ints(each) for each in meshgrid(tensors)]
    return aten.stack.default(grids, 1)
