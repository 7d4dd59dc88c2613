"""One broken line in a convolution, told by the picture of its output."""

import math
from typing import Any

import numpy as np

from labkit.course.benches import conv_bench, kernel_bench
from labkit.course.exercise import Case, Exercise, Hint, Rng, handed_out
from labkit.course.exercises._never_right import CONSTANT, FIRST, READS
from labkit.cuda.shelf.conv_sizes import Conv

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


def _first_missed(evidence: Any) -> tuple[Any, str]:
    """The bug that was named at the first wrong pair, and the one that it is."""
    for number, right in enumerate(evidence.right):
        given = _given(evidence.value, number)
        if given != tuple(right):
            return (given[0], right[0]) if given else (None, "")
    return None, ""


def _looks(number: int) -> Any:
    """True when the bug of that name is the first that was taken for another."""
    bug = list(BROKEN)[number]

    def missed(evidence: Any) -> bool:
        named, right = _first_missed(evidence)
        return right == bug and named != right

    return missed


def _wrong_line(evidence: Any) -> bool:
    """True when the first wrong pair has the right bug."""
    named, right = _first_missed(evidence)
    return bool(named == right)


@handed_out
def drawn_pictures(pictures: Any) -> Any:
    """The six output planes as grids, one a step."""
    from labkit.widgets.cuda.tile_view import TileView

    words = np.array(["missing", "right", "wrong"])
    grids = {f"picture {n}": words[one] for n, one in enumerate(pictures, start=1)}
    layers = [
        {"name": name, "values": np.full(one.shape, ""), "status": one}
        for name, one in grids.items()
    ]
    return TileView(layers, [{"text": name, "show": [name]} for name in grids])


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The pictures, open at the first one that was taken for another bug."""
    missed = next((n for n, one in enumerate(right) if _given(got, n) != tuple(one)), 0)
    return drawn_pictures(case.inputs[0]).open_at(missed + 1)


def _given(got: Any, number: int) -> Any:
    try:
        return tuple(got[number])
    except (TypeError, IndexError, KeyError):
        return None


bug_by_picture = Exercise(
    id="convolution_repair.bug_by_picture",
    picture=_drawn,
    case=_six_pictures,
    banned=("labkit.*",),
    show=_show_pictures,
    cases=24,
    minutes=15,
    hints=(
        Hint(
            "A bug is named right, and its line is another one: the line that makes the mistake, "
            "not the one where it shows. Some lines test where to write y, others what is read "
            "from x.",
            when=_wrong_line,
        ),
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
        "Look at four outputs: [0, Q - 1], [P - 1, 0], [P // 2, 0] and [0, Q // 2].",
    ),
    must_fail=(
        "always out of bounds",
        "takes the test of y's column for that of x's",
        "line from the compiler message",
        "same class twice",
        CONSTANT,
        READS,
        FIRST,
        "catches every exception and returns a default",
    ),
)
