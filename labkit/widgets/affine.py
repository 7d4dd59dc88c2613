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
