"""What the poolings share: how many windows fit, where they lie, what may be asked.

Source   aten/src/ATen/native/Pool.h  pooling_output_shape, pool2d_shape_check
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from labkit.core.memory_format import (
    Ints,
    MemoryFormat,
    channels_last_strides,
    suggest_memory_format,
)
from labkit.core.tensor_impl import TensorImpl


class Tap(NamedTuple):
    """One element of the window, for all windows at once.

    places   an index into the input: where the element lies, for every window
    windows  an index into the output: the windows for which that is inside the input
    """

    places: Any
    windows: Any


class Windows(NamedTuple):
    """How windows walk over the last dimensions of an input."""

    size: Ints
    stride: Ints
    padding: Ints
    dilation: Ints
    sizes_in: Ints
    sizes_out: Ints

    def taps(self) -> Iterator[Tap]:
        """The elements of a window, last dimension fastest."""
        for offsets in np.ndindex(*self.size):
            places, windows = [], []
            for dim, offset in enumerate(offsets):
                window = np.arange(self.sizes_out[dim])
                place = window * self.stride[dim] - self.padding[dim]
                place = place + offset * self.dilation[dim]
                inside = (place >= 0) & (place < self.sizes_in[dim])
                places.append(place[inside])
                windows.append(window[inside])
            yield Tap((..., *np.ix_(*places)), (..., *np.ix_(*windows)))


def spread_out(name: str, numbers: Sequence[int]) -> tuple[int, int]:
    """One number per spatial dimension; one alone counts for both.

    Raises   RuntimeError   another count
    """
    if len(numbers) not in (1, 2):
        raise RuntimeError(
            f"{name} must either be a single int, or a tuple of 2 ints, got {list(numbers)}"
        )
    return numbers[0], numbers[-1]


def _count(size: int, window: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    reach = dilation * (window - 1) + 1
    count = (size + 2 * padding - reach + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (count - 1) * stride >= size + padding:
        count -= 1  # a window that would start in the padding behind the input
    return count


def windows_over(
    input_: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Windows:
    """The windows of a pooling, checked.

    stride  empty for that of the window itself

    Raises   RuntimeError   numbers out of range, or an input they do not fit
    """
    size = spread_out("kernel_size", kernel_size)
    step = spread_out("stride", stride) if len(stride) else size
    pad = spread_out("padding", padding)
    dilate = spread_out("dilation", dilation)
    for name, numbers, least in (
        ("stride", step, 1), ("kernel_size", size, 1), ("dilation", dilate, 1), ("pad", pad, 0),
    ):  # fmt: skip
        if any(number < least for number in numbers):
            raise RuntimeError(f"{name} should be at least {least}, got {list(numbers)}")
    for dim in range(2):
        if 2 * pad[dim] > dilate[dim] * (size[dim] - 1) + 1:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={pad[dim]}, kernel_size={size[dim]} and dilation={dilate[dim]}"
            )
    check_input(input_)
    sizes_in = input_.sizes[-2:]
    out = tuple(
        _count(*each, ceil_mode) for each in zip(sizes_in, size, step, pad, dilate, strict=True)
    )
    if any(count < 1 for count in out):
        raise RuntimeError(
            f"Given input size: {list(input_.sizes[-3:])}. Calculated output size: "
            f"{[input_.sizes[-3], *out]}. Output size is too small"
        )
    return Windows(size, step, pad, dilate, sizes_in, out)


def check_input(input_: TensorImpl) -> None:
    """Pass for [C, H, W] and [N, C, H, W], where only N may be 0.

    Raises   RuntimeError   anything else
    """
    if input_.dim() not in (3, 4) or 0 in input_.sizes[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch "
            f"size for input, but got: {list(input_.sizes)}"
        )


def strides_after(sizes: Ints, *decisive: TensorImpl) -> Ints | None:
    """Channels-last strides when an operand is laid out so; None for contiguous."""
    formats = {suggest_memory_format(each.sizes, each.strides) for each in decisive}
    if formats & {MemoryFormat.channels_last, MemoryFormat.channels_last_3d}:
        return channels_last_strides(sizes)
    return None
