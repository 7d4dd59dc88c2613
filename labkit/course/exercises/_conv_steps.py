"""Three lines of a convolution kernel as arithmetic: which tile, which weight, which row."""

from typing import Any

import numpy as np

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng
from labkit.course.exercises._never_right import CONSTANT, FIRST

# --- tile_of


def _tiles(rng: Rng, size: int) -> tuple[int, int]:
    return rng.randint(1, 2 + size), rng.randint(2, 3 + size)


def _drive_tiles(answer: Any, rows: int, columns: int) -> list[Any]:
    return [answer(z, columns) for z in range(rows * columns)]


def _all_tiles(rows: int, columns: int) -> list[tuple[int, int]]:
    return [(row, column) for row in range(rows) for column in range(columns)]


def _coverage(case: Case, got: Any, right: Any) -> Any:
    """Which tiles are taken by one block, by several, or by none."""
    from labkit.widgets.cuda.tile_view import TileView

    counts = np.zeros(case.inputs, int)
    for row, column in got:
        if 0 <= row < counts.shape[0] and 0 <= column < counts.shape[1]:
            counts[row, column] += 1
    status = np.array(["missing", "right", "twice"])[counts.clip(0, 2)]
    return TileView([{"name": "blocks per tile", "values": counts, "status": status}])


tile_of = Exercise(
    id="convolution_repair.tile_of",
    rung="warm-up",
    case=_tiles,
    expected=_all_tiles,
    drive=_drive_tiles,
    picture=_coverage,
    cases=40,
    minutes=3,
    hints=(
        Hint(
            "Your row and your column both count up with z. The column has to begin again at 0 "
            "in each row of tiles.",
            when=lambda e: bool(e.value) and all(one[0] == one[1] for one in e.value),
        ),
        "With 3 tiles in a row, block 3 is the first one of the second row.",
        "How many whole rows of tiles lie before block z, and how many tiles are left?",
        "z // columns, z % columns",
    ),
    must_fail=(
        "both from z",
        "row and column swapped",
        "divides by one less",
        CONSTANT,
    ),
)

# --- weight_place

SHAPE = ("K", "C", "R", "S")


def _a_weight(rng: Rng, size: int) -> tuple[Any, ...]:
    shape = tuple(rng.randint(1, 3 + size) for _ in SHAPE)
    return tuple(rng.randrange(extent) for extent in shape), shape


def _place(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index(index, shape))


weight_place = Exercise(
    id="convolution_repair.weight_place",
    rung="warm-up",
    case=_a_weight,
    expected=_place,
    cases=80,
    minutes=4,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "That is the kernel's own place: it has the channel as the fastest index.",
            when=lambda e: e.value == _channels_fastest(e),
        ),
        "One step of s is one place. How many places is one step of r?",
        "From the left: begin with k, then three times: multiply by the next extent, add the next "
        "index.",
        "((k * C + c) * R + r) * S + s",
    ),
    must_fail=(
        "channels fastest",
        "forgets the channels",
        "rows and columns swapped",
        FIRST,
        CONSTANT,
    ),
)


def _channels_fastest(evidence: Evidence) -> int:
    (k, c, r, s), (_, channels, rows, columns) = evidence.inputs
    return int((k * rows * columns + r * columns + s) * channels + c)


# --- tap_row


def _a_tap(rng: Rng, size: int) -> tuple[int, ...]:
    stride, pad, dilation = rng.randint(1, 3), rng.randint(0, 3), rng.randint(1, 3)
    return rng.randint(0, 2 + size), rng.randint(0, 4), stride, pad, dilation, rng.randint(3, 12)


def _row(p: int, r: int, stride: int, pad: int, dilation: int, height: int) -> int | None:
    row = p * stride - pad + r * dilation
    return row if 0 <= row < height else None


tap_row = Exercise(
    id="convolution_repair.tap_row",
    rung="warm-up",
    case=_a_tap,
    expected=_row,
    cases=120,
    minutes=3,
    hints=(
        Hint(
            "This tap lies outside the image, above it or below it.",
            when=lambda e: e.right is None and e.value is not None,
        ),
        Hint(
            "This tap lies inside: the rows of the image count from 0.",
            when=lambda e: e.right is not None and e.value is None,
        ),
        "Output p begins stride rows further than output p - 1. The padding lies above row 0.",
        "p * stride - pad + r * dilation, and a test of both ends",
    ),
    must_fail=(
        "forgets the stride",
        "forgets the dilation",
        "tests one end only",
        "adds the padding",
        FIRST,
        CONSTANT,
    ),
)
