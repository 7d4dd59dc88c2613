"""Convolution repaired: any configuration, a tile with its halo, bugs told by their pictures."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.course import conv_bench, kernel_bench
from labkit.course.conv_bench import off
from labkit.course.exercise import Case, Exercise, Hint, Rng, handed_out
from labkit.cuda.shelf.conv_sizes import Conv

NOTEBOOK = "4_vision_low_level/4_convolution_repair"

FIRST = "remembers the answer of the first random case and returns it for all later cases"
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
) -> dict[str, Any]:
    x, w, y = conv_bench.data(conv, seed, infinite)
    done = conv_bench.run(
        answer(), "conv2d", conv, math.ceil(y.size / block), block, (x, w, y), order
    )
    if done.report is None:
        return {"the launch": done.failure}
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
    return {key: REPAIRED[key] if value == "" else value for key, value in found.items()}


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


repair_the_conv = Exercise(
    id="convolution_repair.repair_the_conv",
    statement=(
        'Return CUDA C++ text with extern "C" __global__ void conv2d(const float* x, const '
        "float* w, float* y, Conv conv): the convolution of x [N, C, H, W] with w [K, C / groups, "
        "R, S] into y [N, K, P, Q], all contiguous, for any stride, padding (zeros), dilation and "
        "groups. The launch has one dimension, ceil(N K P Q / block) blocks: one thread per "
        "output. struct Conv stands before your text. Example: x of ones [1, 1, 2, 2], w of ones "
        "[1, 1, 3, 3], padding 1 gives y of fours [1, 1, 2, 2]."
    ),
    rules=(
        "each output is written once, by one thread; neighbouring lanes write neighbours",
        "nothing outside x, w and y is read or written, and no shared memory is needed",
    ),
    case=_a_convolution,
    expected=_expected_repaired,
    drive=_drive_repaired,
    smaller=_simpler_convolution,
    show=_show_convolution,
    cases=300,
    seconds=60.0,
    processes=True,
    minutes=20,
    difficulty=3,
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


def _drive_tiled(
    answer: Any, conv: Conv, tile: tuple[int, int], order: Any, seed: int
) -> dict[str, Any]:
    x, w, y = conv_bench.data(conv, seed)
    height, width = conv.out_size
    grid = math.ceil(width / tile[0]), math.ceil(height / tile[1]), conv.x[0] * conv.w[0]
    patch = (tile[0] + conv.w[3] - 1) * (tile[1] + conv.w[2] - 1)
    done = conv_bench.run(answer(), "conv2d_tile", conv, grid, tile, (x, w, y), order, 4 * patch)
    if done.report is None:
        return {"the launch": done.failure}
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
    return {key: TILED[key] if value == "" else value for key, value in found.items()}


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
    statement=(
        'Return CUDA C++ text with extern "C" __global__ void conv2d_tile(const float* x, const '
        "float* w, float* y, Conv conv) for stride 1, dilation 1 and one group, any R, S and "
        "padding. Launch: block (tw, th), grid (ceil(Q / tw), ceil(P / th), N K), where "
        "blockIdx.z is n * K + k, and th + R - 1 rows of tw + S - 1 floats of dynamic shared "
        "memory. A block computes the tw x th outputs of its tile, and takes each x under them "
        "from global memory once. Example: tile 16 x 8, 3 x 3 taps: 10 x 18 elements per channel, "
        "1.4 per output instead of 9."
    ),
    rules=(
        "per channel, a block reads an element of x at most once from global memory",
        "no race in any order; every barrier is reached by all threads",
        "at most 2 wavefronts per request of shared memory",
    ),
    case=_a_tile,
    expected=_expected_tiled,
    drive=_drive_tiled,
    smaller=_simpler_tile,
    show=_show_tile,
    cases=60,
    seconds=60.0,
    processes=True,
    minutes=25,
    difficulty=4,
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


# --- bug_by_picture

NEVER, RIGHT, WRONG = 0, 1, 2
KERNEL = {
    "signature": 'extern "C" __global__ void conv2d(const float* x, const float* w, float* y, '
    "Conv conv) {",
    "tile count": "    const int tiles = (conv.Q + blockDim.x - 1) / blockDim.x;",
    "tile index": "    const int tile_p = blockIdx.x / tiles, tile_q = blockIdx.x % tiles;",
    "row": "    const int p = tile_p * blockDim.y + threadIdx.y;",
    "column": "    const int q = tile_q * blockDim.x + threadIdx.x;",
    "guard": "    if (p >= conv.P || q >= conv.Q) return;",
    "start": "    float sum = 0;",
    "channels": "    for (int c = 0; c < conv.C; ++c)",
    "rows": "    for (int r = 0; r < conv.R; ++r)",
    "columns": "    for (int s = 0; s < conv.S; ++s) {",
    "stride": "        int h = p * conv.stride_h - conv.pad_h + r;",
    "across": "        const int v = q * conv.stride_w - conv.pad_w + s;",
    "padding": "        if (h < 0 || h >= conv.H) continue;",
    "bounds": "        if (v < 0 || v >= conv.W) continue;",
    "load": "        const float value = x[(c * conv.H + h) * conv.W + v];",
    "weight layout": "        sum += value * w[(c * conv.R + r) * conv.S + s];",
    "end": "    }",
    "pitch": "    y[p * conv.Q + q] = sum;",
    "close": "}",
}
"""A right kernel, line by line."""
BROKEN = {
    "tile count": "    const int tiles = conv.Q / blockDim.x;",
    "tile index": "    const int tile_p = blockIdx.x % tiles, tile_q = blockIdx.x % tiles;",
    "stride": "        int h = p - conv.pad_h + r;",
    "padding": "        h = min(max(h, 0), conv.H - 1);",
    "bounds": "",
    "weight layout": "        sum += value * w[(r * conv.S + s) * conv.C + c];",
    "pitch": "    y[p * conv.P + q] = sum;",
}
"""Bug -> what stands in its line instead."""
SHOWN = {NEVER: " ", RIGHT: ".", WRONG: "x"}


def _picture(bug: str, conv: Conv, tile: tuple[int, int], seed: int) -> Any:
    """What the kernel with that bug makes of one output plane: NEVER, RIGHT or WRONG per output.

    In double: in float, one wrong sum in some ten thousand is right within its rounding.
    """
    x, w, y = conv_bench.data(conv, seed, dtype=np.float64)
    code = "\n".join([conv_bench.CONV, *(KERNEL | {bug: BROKEN[bug]}).values()])
    code = code.replace("float", "double")
    grid = math.prod(math.ceil(conv.out_size[1 - axis] / tile[axis]) for axis in (0, 1))
    done = kernel_bench.launch(code, "conv2d", grid, tile, (x, w, y, conv.sizes()))
    if done.failure:
        raise AssertionError(f"the kernel with bug {bug!r}: {done.failure}")
    got = done.arrays[2][0, 0]
    right = np.isclose(got, conv_bench.right(conv, x, w)[0, 0], rtol=1e-10, atol=1e-10)
    return np.where(np.isnan(got), NEVER, np.where(right, RIGHT, WRONG)).astype(np.int8)


def _listing(rng: Rng) -> list[str]:
    """The right kernel's lines in an order and with empty comments that mean nothing."""
    names = list(KERNEL)
    for one, other in (("row", "column"), ("padding", "bounds"), ("stride", "across")):
        if rng.chance(0.5):
            i, j = names.index(one), names.index(other)
            names[i], names[j] = names[j], names[i]
    lines = [KERNEL[name] for name in names]
    for _ in range(rng.randint(1, 6)):
        lines.insert(rng.randint(0, len(lines)), "    //")
    return lines


def _six_pictures(rng: Rng, size: int) -> Case:
    tile = rng.choice((4, 8)), rng.choice((4, 8))
    taps, pad = (rng.choice((3, 5)), rng.choice((3, 5))), rng.randint(1, 2)
    stride_w = rng.randint(1, 2)
    height = tile[1] + rng.randint(1, 2 + size)
    width = max(height + 2, tile[0] + 1) + rng.randint(0, size)
    width += width % tile[0] == 0
    image = 2 * (height - 1) + taps[0] - 2 * pad, stride_w * (width - 1) + taps[1] - 2 * pad
    conv = Conv((1, 2, *image), (1, 2, *taps), (2, stride_w), (pad, pad))
    seed, source = rng.getrandbits(30), _listing(rng)
    bugs = rng.sample(list(BROKEN), 6)
    pictures = [_picture(bug, conv, tile, seed) for bug in bugs]
    truth = [(bug, source.index(KERNEL[bug]) + 1) for bug in bugs]
    return Case((pictures, source), truth=truth)


def _show_pictures(pictures: Any, source: list[str]) -> str:
    drawn = []
    for number, picture in enumerate(pictures):
        rows = ["".join(SHOWN[int(cell)] for cell in row) for row in picture]
        drawn.append(f"picture {number}: " + "|".join(rows))
    return "; ".join(drawn) + f"; a source of {len(source)} lines"


def _looks(number: int) -> Any:
    """True when the bug of that name is the first that was missed."""
    bug = list(BROKEN)[number]

    def missed(evidence: Any) -> bool:
        for k, right in enumerate(evidence.right):
            try:
                given = evidence.value[k]
            except (TypeError, IndexError, KeyError):
                return False
            if tuple(given) != tuple(right):
                return bool(right[0] == bug)
        return False

    return missed


bug_by_picture = Exercise(
    id="convolution_repair.bug_by_picture",
    statement=(
        "pictures are six arrays [P, Q] of one output plane each: 0 where an output was never "
        "written, 1 where it is right, 2 where it is wrong. Each comes from the kernel in `source` "
        "(a list of lines) with one line broken. Return six pairs (bug, line), in order: the line "
        "counts from 1, the bug is one of 'tile index' (row and column from one block index), "
        "'tile count' (rounded down), 'stride' (of the rows, left out), 'padding' (rows outside "
        "are clamped to the edge), 'bounds' (no test of the column), 'weight layout' (channels "
        "last), 'pitch' (rows of y stored P apart). No bug comes twice. In every case padding is "
        "at least 1, the stride of the rows 2, Q at least P + 2, and there are at least 2 x 2 "
        "tiles, the last ones cut. Example: all wrong, and w[ in line 17: ('weight layout', 17)."
    ),
    rules=("no kernel is run: you look at the pictures and at the source",),
    case=_six_pictures,
    banned=("labkit.*",),
    show=_show_pictures,
    cases=40,
    minutes=20,
    difficulty=3,
    hints=(
        Hint(
            "A picture has holes at its right side only. What differs in the last columns? The "
            "width is not a multiple of the block.",
            when=_looks(0),
        ),
        Hint(
            "A picture is written on its diagonal only: which blocks would have written the rest, "
            "and which tile do they think is theirs?",
            when=_looks(1),
        ),
        Hint(
            "A picture is right in its first row and nowhere else: which product is 0 there?",
            when=_looks(2),
        ),
        Hint(
            "A picture is wrong in the first row. In which lines is a row outside the image seen?",
            when=_looks(3),
        ),
        Hint(
            "A picture is wrong in the first column, and what it read there was the end of the row "
            "above.",
            when=_looks(4),
        ),
        Hint(
            "A picture is wrong everywhere, though every output is written: the positions in x and "
            "y are fine, so what else is read?",
            when=_looks(5),
        ),
        Hint(
            "A picture has a hole at its end, in the last row: where did those outputs go, if rows "
            "lie closer than they should?",
            when=_looks(6),
        ),
        "First ask where nothing was written, then which border is wrong.",
        "The line is the one that makes the mistake, not the one where it shows.",
        "Look at four outputs: [0, Q - 1], [P - 1, 0], [P // 2, 0] and [0, Q // 2].",
    ),
    must_fail=(
        "always out of bounds",
        "line from the compiler message",
        "same class twice",
        "returns the literal answer of the example in the statement",
        "reads the expected value out of the checker (module globals, frames or closure)",
        FIRST,
        "catches every exception and returns a default",
    ),
)

EXERCISES = (repair_the_conv, halo_tile, bug_by_picture)
