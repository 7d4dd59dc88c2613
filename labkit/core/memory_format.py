"""Named orders of the dimensions in memory: contiguous and channels-last."""

import functools
from enum import Enum

Ints = tuple[int, ...]

# From the fastest-varying dimension to the slowest: the channel (dimension 1) comes first.
_CHANNELS_LAST = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}


class MemoryFormat(Enum):
    """How a new tensor's dimensions are ordered in memory.

    Source   torch/headeronly/core/MemoryFormat.h  MemoryFormat
    """

    contiguous_format = 0
    preserve_format = 1
    channels_last = 2
    channels_last_3d = 3

    def __repr__(self) -> str:
        return f"labkit.{self.name}"


_RANK = {MemoryFormat.channels_last: 4, MemoryFormat.channels_last_3d: 5}


def contiguous_strides(sizes: Ints) -> Ints:
    """Row-major strides, in elements; an empty dimension counts as one element wide.

    Source   c10/core/TensorImpl.h  TensorImpl::empty_tensor_restride
    """
    return _contiguous_strides(tuple(sizes))


@functools.lru_cache(maxsize=4096)
def _contiguous_strides(sizes: Ints) -> Ints:
    strides = []
    step = 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def channels_last_strides(sizes: Ints) -> Ints:
    """Strides, in elements, of [N, C, H, W] or [N, C, D, H, W] with the channel innermost.

    Raises   RuntimeError   neither four nor five dimensions

    Source   c10/core/MemoryFormat.h  get_channels_last_strides_2d
    """
    if len(sizes) not in _CHANNELS_LAST:
        raise RuntimeError(f"channels last needs 4 or 5 dimensions, got sizes {list(sizes)}")
    strides = [0] * len(sizes)
    step = 1
    for dim in _CHANNELS_LAST[len(sizes)]:
        strides[dim] = step
        step *= sizes[dim]  # a size of 0 gives strides of 0, as in PyTorch
    return tuple(strides)


def strides_for(sizes: Ints, memory_format: MemoryFormat) -> Ints:
    """Strides, in elements, of a new tensor in a stated format.

    Raises   RuntimeError   the format needs another number of dimensions, or is no stated order
    """
    if memory_format is MemoryFormat.contiguous_format:
        return contiguous_strides(sizes)
    if memory_format is MemoryFormat.preserve_format:
        raise RuntimeError("preserve_format needs a tensor to preserve the format of")
    if len(sizes) != _RANK[memory_format]:
        raise RuntimeError(
            f"required rank {_RANK[memory_format]} tensor to use {memory_format.name} format, "
            f"got sizes {list(sizes)}"
        )
    return channels_last_strides(sizes)


def is_contiguous(sizes: Ints, strides: Ints) -> bool:
    """True when walking the elements in row-major order walks the memory element by element.

    Dimensions of size 1 may have any stride, and an empty tensor is contiguous.

    Source   c10/core/Contiguity.h  _compute_contiguous
    """
    if 0 in sizes:
        return True
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def is_channels_last_contiguous(sizes: Ints, strides: Ints) -> bool:
    """True when the channel is innermost and no memory is skipped; 4 and 5 dimensions only.

    Source   c10/core/Contiguity.h  _compute_channels_last_contiguous_2d
    """
    expected = 1
    for dim in _CHANNELS_LAST.get(len(sizes), ()):
        if sizes[dim] != 1:
            if strides[dim] != expected:
                return False
            expected *= sizes[dim]
    return len(sizes) in _CHANNELS_LAST


def is_channels_last(sizes: Ints, strides: Ints) -> bool:
    """True when the strides only look like channels-last: order matters, gaps do not.

    Source   c10/core/MemoryFormat.h  is_channels_last_strides_2d_s4
    """
    if len(sizes) not in _CHANNELS_LAST or strides[1] == 0:
        return False
    least = 0
    for dim in _CHANNELS_LAST[len(sizes)]:
        if sizes[dim] == 0 or strides[dim] < least:
            return False
        # [N, 1, H, 1] fits both orders; a batch stride equal to the channel's is the plain one.
        if dim == 0 and least == strides[1]:
            return False
        least = strides[dim] * max(sizes[dim], 1)
    return True


def suggest_memory_format(sizes: Ints, strides: Ints) -> MemoryFormat:
    """The format an operator should answer in, read off the strides.

    Source   c10/core/TensorImpl.h  TensorImpl::is_strides_like_channels_last
    """
    if is_channels_last(sizes, strides):
        four = len(sizes) == 4
        return MemoryFormat.channels_last if four else MemoryFormat.channels_last_3d
    return MemoryFormat.contiguous_format
