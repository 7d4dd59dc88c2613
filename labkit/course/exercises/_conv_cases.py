"""Random convolutions, simpler ones, and the picture of a plane that is not right."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.exercise import Case, Rng
from labkit.cuda.shelf.conv_sizes import Conv

ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"


def a_convolution(rng: Rng, size: int, groups: int) -> Conv:
    """Sizes that grow with `size`; up to 1 the steps are single."""

    def pair(low: int, high: int) -> tuple[int, int]:
        return rng.randint(low, high), rng.randint(low, high)

    hard = size > 1
    channels, outputs = (groups * rng.randint(1, 1 + size // 3) for _ in range(2))
    taps, stride = pair(1, 3 if hard else 2), pair(1, 3 if hard else 1)
    dilation, padding = pair(1, 1 + size // 3), pair(0, 2 if hard else 1)
    height, width = (
        max(1, dilation[i] * (taps[i] - 1) + 1 - 2 * padding[i]) + rng.randint(0, 2 + size)
        for i in (0, 1)
    )
    return Conv(
        (rng.choice((1, 1, 2, 3)), channels, height, width), (outputs, channels // groups, *taps),
        stride, padding, dilation, groups,
    )  # fmt: skip


def simpler(conv: Conv) -> Iterator[Conv]:
    """The same convolution with one thing less."""
    batch, channels, height, width = conv.x
    if batch > 1:
        yield conv._replace(x=(1, channels, height, width))
    if conv.stride != (1, 1):
        yield conv._replace(stride=(1, 1))
    if conv.dilation != (1, 1):
        yield conv._replace(dilation=(1, 1))
    if conv.padding != (0, 0) and min(conv._replace(padding=(0, 0)).out_size) > 0:
        yield conv._replace(padding=(0, 0))
    if conv.groups > 1:
        less = (batch, conv.w[1], height, width), (conv.w[0] // conv.groups, *conv.w[1:])
        yield conv._replace(x=less[0], w=less[1], groups=1)
    if conv.groups == 1 and channels > 1:
        yield conv._replace(x=(batch, 1, height, width), w=(conv.w[0], 1, *conv.w[2:]))
    for image in ((height - 1, width), (height, width - 1)):
        smaller = conv._replace(x=(batch, channels, *image))
        if min(image) > 0 and min(smaller.out_size) > 0:
            yield smaller


def plane_drawn(name: str, case: Case, got: Any, wanted: Any) -> Any:
    """The first plane of `got.result` with an element that is wrong or was never written."""
    from labkit.widgets.cuda.tile_view import TileView

    result = np.atleast_2d(got.result)
    wanted = np.reshape(wanted, result.shape)
    fine = np.isclose(result, wanted, rtol=1e-4, atol=1e-4)
    if fine.all():
        return kernel_bench.drawn(case, got, None)
    status = np.where(fine, "right", np.where(np.isnan(result), "missing", "wrong"))
    at = tuple(np.argwhere(~fine)[0][:-2])
    plane = {
        "name": f"{name}{list(map(int, at)) or ''}",
        "values": result[at],
        "status": status[at],
    }
    return TileView([plane], title="your result")
