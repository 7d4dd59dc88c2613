"""The order in which an element-wise loop walks its operands, and the strides of what it makes.

Source   aten/src/ATen/TensorIterator.cpp  reorder_dimensions, compute_fast_setup_type
Differs  the order and the layouts only: `labkit.ops.iterator.tensor_iterator` is the whole builder.
"""

from collections.abc import Sequence

from labkit.core.memory_format import (
    Ints,
    channels_last_strides,
    contiguous_strides,
    is_channels_last_contiguous,
    is_contiguous,
)
from labkit.core.strides import is_non_overlapping_and_dense

Geometry = tuple[Ints, Ints]
"""Sizes and strides of one operand, in elements."""


def broadcast_strides(sizes: Ints, strides: Ints, shape: Ints) -> Ints:
    """The strides with which an operand is read in a loop over `shape`: 0 where it is repeated."""
    missing = len(shape) - len(sizes)
    return (0,) * missing + tuple(
        [
            0 if size == 1 and wanted != 1 else stride
            for size, stride, wanted in zip(sizes, strides, shape[missing:], strict=True)
        ]
    )


def iteration_order(
    shape: Ints, strides: Sequence[Sequence[int]], reduced_outputs: int = 0
) -> list[int]:
    """The dimensions from the fastest-varying of the loop to the slowest.

    strides          of each operand that exists before the loop, already broadcast to `shape`
    reduced_outputs  so many of the first operands are written by a reduction: the dimensions they
                     do not have (stride 0) go first

    The first operand that has an opinion on a pair of dimensions decides; an insertion sort,
    because the opinions need not be transitive.
    """
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        moving = i
        for other in range(i - 1, -1, -1):
            compared = _compare(order[other], order[moving], shape, strides, reduced_outputs)
            if compared > 0:
                order[other], order[moving] = order[moving], order[other]
                moving = other
            elif compared < 0:
                break
    return order


def _compare(
    a: int, b: int, shape: Ints, strides: Sequence[Sequence[int]], reduced_outputs: int
) -> int:
    """Positive when `a` must come after `b`, negative when before, 0 when no operand can say."""
    for place, operand in enumerate(strides):
        if place < reduced_outputs and (operand[a] == 0) != (operand[b] == 0):
            return 1 if operand[b] == 0 else -1
        if operand[a] == 0 or operand[b] == 0:
            continue
        if operand[a] != operand[b]:
            return -1 if operand[a] < operand[b] else 1
        if shape[a] > shape[b]:
            return 1
    return 0


def shared_strides(shape: Ints, operands: Sequence[Geometry], linear: bool = False) -> Ints | None:
    """The layout that all operands of this shape share, or None; contiguous where there are none.

    linear  True when the loop must keep the order of the dimensions
    """
    if all(is_contiguous(*operand) for operand in operands):
        return contiguous_strides(shape)
    if linear:
        return None
    if len(shape) == 4 and all(is_channels_last_contiguous(*operand) for operand in operands):
        return channels_last_strides(shape)
    alike = len({strides for _, strides in operands}) == 1
    dense = alike and all(is_non_overlapping_and_dense(*operand) for operand in operands)
    return operands[0][1] if dense else None


def packed_strides(shape: Ints, order: Sequence[int]) -> Ints:
    """The strides, in elements, of a new tensor whose dimensions lie in this order, fastest first.

    The plain order gives contiguous strides, which differ where a size is 0.
    """
    if list(order) == list(range(len(shape) - 1, -1, -1)):
        return contiguous_strides(shape)
    strides = [0] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def output_strides(shape: Ints, operands: Sequence[Geometry]) -> Ints:
    """The strides, in elements, of a new result of an element-wise operator.

    shape     the broadcast shape
    operands  the inputs as they are, not broadcast
    """
    if all(sizes == shape for sizes, _ in operands):
        shared = shared_strides(shape, operands)
        if shared is not None:
            return shared
    broadcast = [broadcast_strides(*operand, shape) for operand in operands]
    return packed_strides(shape, iteration_order(shape, broadcast))
