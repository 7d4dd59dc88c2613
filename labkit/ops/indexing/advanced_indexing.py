"""Reading and writing through index tensors and masks: `index`, `index_put_`, `masked_fill_`.

An index list has one entry per dimension, None for a dimension taken whole; a mask stands for as
many entries as it has dimensions. When the entries that are not None stand side by side, the
result has their broadcast shape in that place; when they are separated, in front.

Source   aten/src/ATen/native/TensorAdvancedIndexing.cpp
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import strides as stride_rules
from labkit.core import tensor_impl
from labkit.core.formats import decode, encode
from labkit.core.memory_format import Ints
from labkit.core.memory_overlap import assert_no_overlap
from labkit.core.strides import is_expandable_to, maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops import fallback
from labkit.ops.cuda import elementwise
from labkit.ops.iterator.iteration_order import broadcast_strides, iteration_order, output_strides
from labkit.ops.iterator.iterator_operand import AS_THEY_ARE
from labkit.ops.iterator.tensor_iterator import build
from labkit.ops.registration import kernel
from labkit.ops.shape import view
from labkit.ops.tensors import copy

Index = TensorImpl | None
MASKS = (dtypes.bool_, dtypes.uint8)


@kernel(
    "nonzero(Tensor self) -> Tensor",
    "CompositeExplicitAutograd",
)
def nonzero(self: TensorImpl) -> TensorImpl:
    """The positions of the elements that are not zero, as [count, dim] int64, column by column.

    Source   aten/src/ATen/native/TensorAdvancedIndexing.cpp  nonzero_out_cpu
    """
    fallback.note_if_on_device("nonzero", self)
    positions = np.argwhere(copy.values(self))
    count, ndim = positions.shape
    strides = (1, max(count, 1))
    result = tensor_impl.empty_strided((count, ndim), strides, dtypes.int64, self.device)
    copy.store(result, positions)
    return result


def _expand_masks(self: TensorImpl, indices: Sequence[Index]) -> list[Index]:
    """The list with each mask as the int64 positions it selects, one entry per dimension.

    Source   aten/src/ATen/native/IndexingUtils.h  expandTensors
    """
    result: list[Index] = []
    for index in indices:
        if index is None:
            result.append(None)
        elif index.dtype in MASKS:
            _check_mask(self, index, len(result))
            positions = nonzero(index)
            result += [view.select(positions, 1, dim) for dim in range(index.dim())]
        elif index.dtype in (dtypes.int64, dtypes.int32):
            result.append(copy.to_copy(index, dtypes.int64, index.device))
        else:
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors, "
                f"got {index.dtype}"
            )
    return result


def _check_mask(self: TensorImpl, mask: TensorImpl, first_dim: int) -> None:
    for dim, size in enumerate(mask.sizes):
        if first_dim + dim >= self.dim() or self.sizes[first_dim + dim] != size:
            raise IndexError(
                f"The shape of the mask {list(mask.sizes)} at index {dim} does not match the "
                f"shape of the indexed tensor {list(self.sizes)} at index {first_dim + dim}"
            )


@dataclass(frozen=True)
class AdvancedIndex:
    """An indexing expression laid out as one element-wise loop.

    src      the indexed tensor with its indexed dimensions replaced by the broadcast shape of the
             indices, at stride 0: an index value moves the address instead
    indices  the index tensors, shaped to broadcast against `src`
    sizes    of the indexed dimensions, in the order of `indices`
    strides  of the indexed dimensions, elements

    Source   aten/src/ATen/native/IndexingUtils.h  AdvancedIndex
    """

    src: TensorImpl
    indices: list[TensorImpl]
    sizes: Ints
    strides: Ints

    def offsets(self) -> NDArray[np.int64]:
        """The element offset in the storage of every element, in the shape of `src`.

        Raises   IndexError   an index outside its dimension
        """
        shape = self.src.sizes
        total = np.full(shape, self.src.storage_offset(), np.int64)
        for dim, (size, stride) in enumerate(zip(shape, self.src.strides, strict=True)):
            steps = np.arange(size, dtype=np.int64) * stride
            total += steps.reshape(-1, *[1] * (len(shape) - 1 - dim))
        for index, size, stride in zip(self.indices, self.sizes, self.strides, strict=True):
            total += _wrapped(index, size) * stride if total.size else 0
        return total


def _wrapped(index: TensorImpl, size: int) -> NDArray[np.int64]:
    """Index values counted from the front."""
    values = copy.values(index)
    outside = (values < -size) | (values >= size)
    if outside.any():
        raise IndexError(
            f"index {values[outside].flat[0]} is out of bounds for dimension 0 with size {size}"
        )
    return np.where(values < 0, values + size, values)


def make_info(self: TensorImpl, indices: Sequence[Index]) -> AdvancedIndex:
    """The expression as one loop.

    Raises   IndexError   too many indices, an index type that is none, a mask of another shape,
                          index shapes that do not broadcast, or any index into size 0

    Source   aten/src/ATen/native/TensorAdvancedIndexing.cpp  make_info
    """
    if len(indices) > self.dim():
        raise IndexError(
            f"too many indices for tensor of dimension {self.dim()} (got {len(indices)})"
        )
    expanded = _expand_masks(self, indices)
    present = [index for index in expanded if index is not None]
    try:
        shape = stride_rules.broadcast_shapes(*[index.sizes for index in present])
    except RuntimeError:
        shapes = ", ".join(str(list(index.sizes)) for index in present)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    expanded = [None if index is None else view.expand(index, shape) for index in expanded]
    expanded += [None] * (self.dim() - len(expanded))
    order = list(range(self.dim()))
    places = [dim for dim, index in enumerate(expanded) if index is not None]
    if places and places[-1] - places[0] >= len(places):  # separated: indexed dimensions first
        # A list of lists of bools counts as one item but uses several dimensions, so an index
        # behind it can stand beyond the last one. PyTorch drops it here, and refuses it below.
        places = [dim for dim in places if dim < self.dim()]
        order = places + [dim for dim in order if dim not in places]
    elif places and places[-1] >= self.dim():
        maybe_wrap_dim(places[-1], self.dim())
    source = view.permute(self, tuple(order))
    return _advanced_index(source, [expanded[dim] for dim in order], shape)


def _advanced_index(source: TensorImpl, indices: list[Index], shape: Ints) -> AdvancedIndex:
    places = [dim for dim, index in enumerate(indices) if index is not None]
    first, last = (places[0], places[-1] + 1) if places else (source.dim(), source.dim())
    sizes, strides = source.sizes[first:last], source.strides[first:last]
    if 0 in sizes and 0 not in shape:
        raise IndexError("index is out of bounds for dimension with size 0")
    laid_out = source.alias(
        source.sizes[:first] + shape + source.sizes[last:],
        source.strides[:first] + (0,) * len(shape) + source.strides[last:],
        source.storage_offset(),
    )
    around = (1,) * first, (1,) * (source.dim() - last)
    shaped = [
        view.reshape(index, around[0] + index.sizes + around[1])
        for index in indices
        if index is not None
    ]
    return AdvancedIndex(laid_out, shaped, sizes, strides)


def _geometry(impl: TensorImpl) -> tuple[Ints, Ints]:
    return impl.sizes, impl.strides


@kernel(
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "CompositeExplicitAutograd",
    variants="",
)
def index(self: TensorImpl, indices: Sequence[Index]) -> TensorImpl:
    """The elements at the broadcast index positions, gathered into a new tensor.

    Raises   IndexError   as `make_info`, and for an index outside its dimension
    """
    fallback.note_if_on_device("index", self)
    host = copy.on_host(self)
    info = make_info(host, indices)
    shape = stride_rules.broadcast_shapes(info.src.sizes, *[each.sizes for each in info.indices])
    operands = [_geometry(each) for each in (info.src, *info.indices)]
    result = tensor_impl.empty_strided(shape, output_strides(shape, operands), self.dtype)
    if result.numel():
        copy.store(result, _elements(host, writable=False)[info.offsets()])
    if self.device != result.device:
        return copy.to_copy(result, result.dtype, self.device)
    return result


def _elements(self: TensorImpl, writable: bool) -> NDArray[Any]:
    """All elements of the storage, whatever the tensor shows of it."""
    whole = self.storage().nbytes // self.itemsize * self.itemsize
    return self.storage().bytes(writable)[:whole].view(self.dtype.raw)


@kernel(
    "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool "
    "accumulate=False) -> Tensor(a!)",
    "CompositeExplicitAutograd",
)
def index_put_(
    self: TensorImpl, indices: Sequence[Index], values: TensorImpl, accumulate: bool = False
) -> TensorImpl:
    """The elements at the index positions become `values`, or grow by them.

    A position named more than once keeps the last value in PyTorch's order of iteration, or with
    `accumulate` gets every one added.

    Raises   IndexError     as `index`
             RuntimeError   another element type, values that do not broadcast to the positions,
                            or values or indices that share memory with `self`

    Source   aten/src/ATen/native/TensorAdvancedIndexing.cpp  _index_put_impl_
    """
    if len(indices) > self.dim():
        raise IndexError(
            f"too many indices for tensor of dimension {self.dim()} (got {len(indices)})"
        )
    mask = None if accumulate else _as_one_mask(self, indices, values)
    if mask is not None:
        return masked_fill_(self, mask, copy.item(values))
    for read in (values, *[each for each in indices if each is not None]):
        assert_no_overlap(self, read)
    fallback.note_if_on_device("index_put_", self)
    host = copy.on_host(self)
    info = make_info(host, indices)
    if not is_expandable_to(values.sizes, info.src.sizes):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.sizes)} cannot be broadcast to "
            f"indexing result of shape {list(info.src.sizes)}"
        )
    if values.dtype is not self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{self.dtype.name} for the destination and {values.dtype.name} for the source."
        )
    if info.src.numel():
        _put(host, info, values, accumulate)
        if host is not self:
            copy.store(self, host.raw())
    self.bump_version()
    return self


def _put(self: TensorImpl, info: AdvancedIndex, values: TensorImpl, accumulate: bool) -> None:
    shape = info.src.sizes
    operands = [_geometry(each) for each in (info.src, values, *info.indices)]
    order = iteration_order(shape, [broadcast_strides(*each, shape) for each in operands])
    slowest_first = order[::-1]
    offsets = info.offsets().transpose(slowest_first).ravel()
    raw = np.broadcast_to(copy.on_host(values).raw(), shape).transpose(slowest_first).ravel()
    elements = _elements(self, writable=True)
    if not accumulate:
        elements[offsets] = raw  # NumPy writes in order, so the last of several wins
        return
    while len(offsets):  # one addition per position and round: each one is rounded, in order
        positions, first = np.unique(offsets, return_index=True)
        old = decode(elements[positions], self.dtype)
        with np.errstate(all="ignore"):
            total = np.add(old, decode(raw[first], self.dtype))
        elements[positions] = encode(total, self.dtype)
        rest = np.ones(len(offsets), bool)
        rest[first] = False
        offsets, raw = offsets[rest], raw[rest]


def _as_one_mask(
    self: TensorImpl, indices: Sequence[Index], values: TensorImpl
) -> TensorImpl | None:
    """The mask, broadcastable against `self`, when the call is really a `masked_fill_`.

    Source   aten/src/ATen/native/TensorAdvancedIndexingUtils.h  canDispatchToMaskedFill
    """
    if values.numel() != 1:
        return None
    mask = None
    dims = 0
    for each in indices:
        if each is None:
            dims += 1
        elif each.dtype not in MASKS or mask is not None:
            return None
        else:
            mask = each
            _check_mask(self, each, dims)
            dims += each.dim()
    if mask is None:
        return None
    return view.view(mask, mask.sizes + (1,) * (self.dim() - dims))


def _filled_on_device(self: TensorImpl, mask: TensorImpl, value: complex | bool) -> bool:
    if self.device.type == "cpu":
        return False
    if mask.sizes and mask.device != self.device:
        fallback.note("masked_fill_", f"its mask is on {mask.device}")
        return False
    arguments = [("mask", mask), ("self", self), ("value", value)]
    it = build([mask, self], [self], AS_THEY_ARE)
    return elementwise.launch("masked_fill_", it, self.dtype, self.dtype, arguments)


@kernel(
    "masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!)",
    "CompositeExplicitAutograd",
)
def masked_fill_(self: TensorImpl, mask: TensorImpl, value: complex | bool) -> TensorImpl:
    """The elements where the broadcast mask is true become `value`.

    Raises   RuntimeError   not a mask, one that does not broadcast to `self`, or a value that
                            does not fit the element type
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got {mask.dtype}")
    raw = copy.scalar_raw(value, self.dtype, check_small_floats=False)
    if not is_expandable_to(mask.sizes, self.sizes):
        raise RuntimeError(
            f"The mask {list(mask.sizes)} does not broadcast to the tensor {list(self.sizes)}"
        )
    if self.numel() and not _filled_on_device(self, mask, value):
        host = copy.on_host(self)
        chosen = np.broadcast_to(copy.values(mask) != 0, self.sizes)
        host.raw(writable=True)[chosen] = raw
        if host is not self:
            copy.store(self, host.raw())
    self.bump_version()
    return self
