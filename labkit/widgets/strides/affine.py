"""Address arithmetic of strided layouts, for the pictures; `affine.js` is the browser's."""

import math
from collections.abc import Iterator, Sequence
from itertools import product


def address(index: Sequence[int], strides: Sequence[int], offset: int) -> int:
    """Elements from the start of the storage to the element at `index`."""
    return offset + sum(i * stride for i, stride in zip(index, strides, strict=True))


def reach(sizes: Sequence[int], strides: Sequence[int], offset: int) -> tuple[int, int] | None:
    """Lowest and highest address in elements; None when there is no element."""
    if math.prod(sizes) == 0:
        return None
    spans = [(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)]
    return offset + sum(min(0, span) for span in spans), offset + sum(max(0, s) for s in spans)


def addresses(sizes: Sequence[int], strides: Sequence[int], offset: int) -> Iterator[int]:
    """The address of every element, last dimension fastest."""
    for index in product(*map(range, sizes)):
        yield address(index, strides, offset)


def touches(sizes: Sequence[int], strides: Sequence[int], offset: int, at: int) -> bool:
    """Whether any element lies at that address: few steps, however large the layout is."""
    if math.prod(sizes) == 0:
        return False
    moving = [(stride, size) for stride, size in zip(strides, sizes, strict=True) if stride]
    moving.sort(key=lambda pair: -abs(pair[0]))  # then the address left over bounds each index
    return _reaches(moving, at - offset)


def _reaches(moving: Sequence[tuple[int, int]], left: int) -> bool:
    if not moving:
        return left == 0
    (stride, size), rest = moving[0], moving[1:]
    spans = [(other - 1) * step for step, other in rest]
    bounds = sorted(
        ((left - sum(max(0, span) for span in spans)) / stride,
         (left - sum(min(0, span) for span in spans)) / stride)
    )  # fmt: skip
    first, last = max(0, math.ceil(bounds[0])), min(size - 1, math.floor(bounds[1]))
    return any(_reaches(rest, left - i * stride) for i in range(first, last + 1))
