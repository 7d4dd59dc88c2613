"""Convolution repaired: any configuration, a tile with its halo, bugs told by their pictures."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.course.benches import conv_bench, kernel_bench
from labkit.course.benches.conv_bench import off
from labkit.course.benches.kernel_bench import Found
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._broken_pictures import bug_by_picture
from labkit.course.exercises._conv_steps import tap_row, tile_of, weight_place
from labkit.course.exercises._never_right import FIRST
from labkit.cuda.shelf.conv_sizes import Conv

NOTEBOOK = "4_vision_low_level/4_convolution_repair"

ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"


# --- repair_the_conv


def _a_convolution(rng: Rng, size: int) -> tuple[Any, ...]:
    def pair(low: int, high: int) -> tuple[int, int]:
        return rng.randint(low, high), rng.randint(low, high)

    hard = size > 1
    groups = rng.choice((1, 1, 2, 3)) if hard else 1
    channels, outputs = (groups * rng.randint(1, 1 + size // 3) for _ in range(2))
    taps, stride = pair(1, 3 if hard else 2), pair(1, 3 if hard else 1)
    dilation, padding = pair(1, 1 + size // 3), pair(0, 2 if hard else 1)
    height, width = (
        max(1, dilation[i] * (taps[i] - 1) + 1 - 2 * padding[i]) + rng.randint(0, 2 + size)
        for i in (0, 1)
    )
    batch = rng.choice((1, 1, 2, 3))
    conv = Conv(
        (batch, channels, height, width), (outputs, channels // groups, *taps), stride, padding,
        dilation, groups,
    )  # fmt: skip
    block, order = rng.choice((32, 64, 96)), rng.choice(("forward", "reverse", rng.randint(1, 999)))
    return conv, block, order, rng.getrandbits(30), rng.chance(0.15)


REPAIRED = {
    "the launch": "runs",
    "y": "right everywhere",
    "findings": [],
    "bytes around the arrays": "untouched",
    "times an element of y is written": 1.0,
    "sectors per store": "as few as neighbours need",
    "lanes": kernel_bench.ALL_LANES,
}


def _expected_repaired(*inputs: Any) -> dict[str, Any]:
    return REPAIRED


def _drive_repaired(
    answer: Any, conv: Conv, block: int, order: Any, seed: int, infinite: bool
) -> Found:
    x, w, y = conv_bench.data(conv, seed, infinite)
    done = conv_bench.run(
        answer(), "conv2d", conv, math.ceil(y.size / block), block, (x, w, y), order
    )
    if done.report is None:
        return Found({"the launch": done.failure})
    each = {("read", 0): conv.depth, ("read", 1): conv.depth, ("write", 2): 1}
    stores = [*done.report.select(access="write", array=done.names[2])]
    wasted = sum(one.sectors - one.ideal_sectors for one in stores)
    found = {
        "the launch": done.failure,
        "y": conv_bench.first_wrong(done.arrays[2], conv_bench.right(conv, x, w), conv.depth),
        "findings": done.findings[:2],
        "bytes around the arrays": done.outside,
        "times an element of y is written": sum(one.lanes for one in stores) / y.size,
        "sectors per store": f"{wasted} more than neighbours need"
        if wasted > sum(one.requests for one in stores)
        else "",
        "lanes": conv_bench.lanes(done, each),
    }
    said = Found({key: REPAIRED[key] if value == "" else value for key, value in found.items()})
    return said.seen_in(done.report, done.arrays[2])


def _simpler_convolution(
    conv: Conv, block: int, order: Any, seed: int, infinite: bool
) -> Iterator[tuple[Any, ...]]:
    rest = block, order, seed, infinite
    batch, channels, height, width = conv.x
    if infinite:
        yield conv, block, order, seed, False
    if batch > 1:
        yield conv._replace(x=(1, channels, height, width)), *rest
    if conv.stride != (1, 1):
        yield conv._replace(stride=(1, 1)), *rest
    if conv.dilation != (1, 1):
        yield conv._replace(dilation=(1, 1)), *rest
    if conv.padding != (0, 0) and min(conv._replace(padding=(0, 0)).out_size) > 0:
        yield conv._replace(padding=(0, 0)), *rest
    if conv.groups > 1:
        one_w = (conv.w[0] // conv.groups, *conv.w[1:])
        yield conv._replace(x=(batch, conv.w[1], height, width), w=one_w, groups=1), *rest
    if conv.groups == 1 and channels > 1:
        yield conv._replace(x=(batch, 1, height, width), w=(conv.w[0], 1, *conv.w[2:])), *rest
    for image in ((height - 1, width), (height, width - 1)):
        smaller = conv._replace(x=(batch, channels, *image))
        if min(image) > 0 and min(smaller.out_size) > 0:
            yield smaller, *rest


def _show_convolution(conv: Conv, block: int, order: Any, seed: int, infinite: bool) -> str:
    return (
        conv_bench.in_words(conv, order) + f"; blocks of {block}{'; one x is infinite' * infinite}"
    )


_values = off("y")


def _with(*options: str) -> Any:
    """Convolutions that use no other options than these."""

    def made(rng: Rng, size: int) -> tuple[Any, ...]:
        conv, block, order, seed, _ = _a_convolution(rng, max(size, 2))
        plain = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
        conv = conv._replace(**{name: one for name, one in plain.items() if name not in options})
        if "groups" not in options:
            conv = conv._replace(w=(conv.w[0], conv.x[1], *conv.w[2:]), groups=1)
        image = (conv.x[2 + i] + conv.dilation[i] * conv.w[2 + i] for i in (0, 1))
        return conv._replace(x=(*conv.x[:2], *image)), block, order, seed, False

    return made


def _plane_drawn(case: Case, got: Any, right: Any) -> Any:
    """The first plane that is not right: which outputs are right, wrong, or never written."""
    from labkit.widgets.cuda.tile_view import TileView

    conv, _, _, seed = case.inputs[:4]
    x, w, _ = conv_bench.data(conv, seed, case.inputs[-1] is True)
    wanted = conv_bench.right(conv, x, w)
    fine = np.isclose(got.result, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
    status = np.where(fine, "right", np.where(np.isnan(got.result), "missing", "wrong"))
    if fine.all():
        return kernel_bench.drawn(case, got, right)
    n, k = np.argwhere(~fine)[0][:2]
    plane = {"name": f"y[{n}, {k}]", "values": got.result[n, k], "status": status[n, k]}
    return TileView([plane], title="your output")


repair_the_conv = Exercise(
    id="convolution_repair.repair_the_conv",
    stages=(
        Stage("plain", case=_with(), cases=6),
        Stage("stride", case=_with("stride"), cases=6),
        Stage("padding", case=_with("padding"), cases=6),
        Stage("dilation", case=_with("dilation"), cases=6),
        Stage("groups", case=_with("groups"), cases=6),
        Stage("together"),
    ),
    returns=(Found,),
    picture=_plane_drawn,
    case=_a_convolution,
    expected=_expected_repaired,
    drive=_drive_repaired,
    smaller=_simpler_convolution,
    show=_show_convolution,
    cases=150,
    seconds=60.0,
    processes=True,
    minutes=15,
    hints=(
        Hint(
            "It is right when groups is 1. Which channels does output k read, and which channel "
            "of w belongs to the first of them?",
            when=lambda e: _values(e) and e.inputs[0].groups > 1,
        ),
        Hint(
            "The taps are not neighbours here: dilation is how far apart they lie in x.",
            when=lambda e: _values(e) and e.inputs[0].dilation != (1, 1),
        ),
        Hint(
            "Stride 1 is right. At which row and column of x does output (p, q) begin, and which "
            "of stride_h and stride_w counts rows?",
            when=lambda e: _values(e) and e.inputs[0].stride != (1, 1),
        ),
        Hint(
            "Two threads are at odds: what does one read that another has yet to write?",
            when=off("findings", "race"),
        ),
        Hint(
            "The trace saw an access outside its array: who made that address? A value that is "
            "multiplied by zero afterwards was read all the same.",
            when=off("findings", "out of bounds"),
        ),
        Hint(
            "One output is a number where it should be infinite, or the other way round: a tap in "
            "the padding is worth 0, so it may not be multiplied with anything that lies in x.",
            when=lambda e: _values(e) and e.inputs[4],
        ),
        Hint(
            "Only the padding can be wrong here. What does a tap outside the image count, and "
            "which two tests say that it is outside?",
            when=lambda e: _values(e) and e.inputs[0].padding != (0, 0),
        ),
        "i = ((n * K + k) * P + p) * Q + q: take it apart from the right.",
        "Output k is in group k / (K / groups) and reads channels from group * C / groups on.",
        "h = p * stride_h - pad_h + r * dilation_h; the tap counts only for 0 <= h < H, and w "
        "likewise. w is indexed ((k * (C / groups) + c) * R + r) * S + s.",
    ),
    must_fail=(
        "groups ignored",
        "dilation ignored",
        "right for square kernels only",
        "padding by clamped edge",
        "reads outside but multiplies by zero",
        "only for sizes that divide the block",
        ORDERS,
        FIRST,
    ),
)


# --- halo_tile


def _a_tile(rng: Rng, size: int) -> tuple[Any, ...]:
    small = size < 2
    taps = (rng.randint(1, 2), rng.randint(1, 3)) if small else rng.choice(
        ((3, 3), (1, 1), (5, 3), (2, 5), (7, 7), (rng.randint(1, 4), rng.randint(1, 6)))
    )  # fmt: skip
    padding = (rng.randint(0, taps[0] - 1), rng.randint(0, taps[1] - 1))
    height, width = (
        max(1, taps[i] - 2 * padding[i]) + rng.randint(0, (4, 9)[i] * (1 + size)) for i in (0, 1)
    )
    channels = rng.randint(1, 1 + min(size, 2))
    conv = Conv(
        (rng.choice((1, 1, 2)), channels, height, width), (rng.randint(1, 2), channels, *taps),
        padding=padding,
    )  # fmt: skip
    order = rng.choice(("forward", "reverse", rng.randint(1, 999)))
    return conv, rng.choice(((32, 8), (32, 4), (16, 8))), order, rng.getrandbits(30)


TILED = {
    "the launch": "runs",
    "y": "right everywhere",
    "findings": [],
    "bytes around the arrays": "untouched",
    "elements of x read": "each once per block that needs it",
    "wavefronts per shared request": "at most 2",
    "lanes": kernel_bench.ALL_LANES,
}


def _expected_tiled(*inputs: Any) -> dict[str, Any]:
    return TILED


@handed_out
def reads_needed(conv: Conv, tile: tuple[int, int]) -> int:
    """Elements of x that blocks with tiles of (width, height) outputs need, per block each once."""
    cells = 1
    for axis, extent in ((0, tile[1]), (1, tile[0])):
        within = 0
        for first in range(0, conv.out_size[axis], extent):
            low = first - conv.padding[axis]
            high = low + extent + conv.w[2 + axis] - 1
            within += max(0, min(high, conv.x[2 + axis]) - max(low, 0))
        cells *= within
    return cells * conv.x[0] * conv.x[1] * conv.w[0]


def _drive_tiled(answer: Any, conv: Conv, tile: tuple[int, int], order: Any, seed: int) -> Found:
    x, w, y = conv_bench.data(conv, seed)
    height, width = conv.out_size
    grid = math.ceil(width / tile[0]), math.ceil(height / tile[1]), conv.x[0] * conv.w[0]
    patch = (tile[0] + conv.w[3] - 1) * (tile[1] + conv.w[2] - 1)
    done = conv_bench.run(answer(), "conv2d_tile", conv, grid, tile, (x, w, y), order, 4 * patch)
    if done.report is None:
        return Found({"the launch": done.failure})
    read, needed = (
        done.report.total("lanes", access="read", array=done.names[0]),
        reads_needed(conv, tile),
    )
    loads = conv.x[1] * math.prod(
        math.ceil((tile[i] + conv.w[3 - i] - 1) / tile[i]) for i in (0, 1)
    )
    each = {
        ("read", 0): loads, ("read", 1): conv.depth, ("write", 2): 1,
        ("read", "shared"): 2 * conv.depth, ("write", "shared"): loads,
    }  # fmt: skip
    shared = [one for one in done.report.select(space="shared") if one.wavefronts_per_request > 2]
    worst = max(shared, key=lambda one: one.wavefronts_per_request, default=None)
    found = {
        "the launch": done.failure,
        "y": conv_bench.first_wrong(done.arrays[2], conv_bench.right(conv, x, w), conv.depth),
        "findings": done.findings[:2],
        "bytes around the arrays": done.outside,
        "elements of x read": f"{read}, where {needed} would do" if read > needed else "",
        "wavefronts per shared request": f"{worst.wavefronts_per_request:.1f} in line {worst.line}"
        if worst
        else "",
        "lanes": conv_bench.lanes(done, each),
    }
    said = Found({key: TILED[key] if value == "" else value for key, value in found.items()})
    return said.seen_in(done.report, done.arrays[2])


def _simpler_tile(
    conv: Conv, tile: tuple[int, int], order: Any, seed: int
) -> Iterator[tuple[Any, ...]]:
    batch, channels, height, width = conv.x
    if batch > 1:
        yield conv._replace(x=(1, channels, height, width)), tile, order, seed
    if channels > 1:
        fewer = conv._replace(x=(batch, 1, height, width), w=(conv.w[0], 1, *conv.w[2:]))
        yield fewer, tile, order, seed
    for image in ((height // 2, width), (height - 1, width), (height, width // 2)):
        smaller = conv._replace(x=(batch, channels, *image))
        if min(image) > 0 and min(smaller.out_size) > 0:
            yield smaller, tile, order, seed


def _show_tile(conv: Conv, tile: tuple[int, int], order: Any, seed: int) -> str:
    return conv_bench.in_words(conv, order) + f"; blocks of {tile}"


halo_tile = Exercise(
    id="convolution_repair.halo_tile",
    rung="boss",
    stages=(
        Stage("one channel", only=lambda conv, *_: conv.x[1] == 1, cases=8),
        Stage("many channels"),
    ),
    returns=(Found,),
    picture=_plane_drawn,
    case=_a_tile,
    expected=_expected_tiled,
    drive=_drive_tiled,
    smaller=_simpler_tile,
    show=_show_tile,
    cases=60,
    seconds=60.0,
    processes=True,
    minutes=25,
    hints=(
        Hint(
            "A race. Which of its two accesses belongs to the next channel? Who may still be "
            "reading when the next load starts?",
            when=off("findings", "race"),
        ),
        Hint(
            "Some threads never reach that barrier: what lies before it that not all of them "
            "take? A thread without an output still has loading to do.",
            when=off("findings", "barrier", "deadlock"),
        ),
        Hint(
            "Too many reads of x. Count for one block: what is read more than once, or read though "
            "it lies under no output of the tile?",
            when=off("elements of x read"),
        ),
        Hint(
            "Outputs are wrong or missing. Which cells of the tile did nobody load, its corners "
            "included, and which number in your text is a size of another case?",
            when=lambda e: _values(e) and e.inputs[0].w[2:] != (3, 3),
        ),
        Hint(
            "The lanes of a warp read one column of your tile, or rows that start at the same "
            "bank: let threadIdx.x run along a row of it.",
            when=off("wavefronts per shared request"),
        ),
        "The patch is larger than the block: (th + R - 1) x (tw + S - 1) cells for th x tw "
        "threads. A thread takes cell t, then t + tw * th, and so on.",
        "A cell in the padding is stored as 0: every cell that is read was written before.",
        "Per channel: load, barrier, compute, barrier. Only the store of y stands in the guard.",
    ),
    must_fail=(
        "each thread loads its own cell (no reuse)",
        "halo corners missing",
        "barrier inside the guard",
        "second barrier missing",
        "tile sized to the test",
        ORDERS,
        "returns NaN or an uninitialised buffer where a value is expected",
    ),
)


EXERCISES = (tile_of, weight_place, tap_row, repair_the_conv, bug_by_picture, halo_tile)
