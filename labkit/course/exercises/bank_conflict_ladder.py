"""Banks: a place in a tile that never collides, the passes of an index, and a sum down columns."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Found, off
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._column_sums import regression_test
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST
from labkit.widgets.cuda.warp_request import passes

NOTEBOOK = "6_capstones/4_bank_conflict_ladder"

SIDE = 32

# --- place


def _drive_place(answer: Any, line: int, reads: str) -> dict[str, Any]:
    """Where the 32 elements of a row, or of a column, lie; asked twice, in two orders."""
    cells = [(line, n) if reads == "row" else (n, line) for n in range(SIDE)]
    places = [answer(row, column) for row, column in cells]
    again = [answer(row, column) for row, column in reversed(cells)]
    return {"places": places, "again": again[::-1]}


def _judge_place(case: Case, got: Any) -> str | None:
    line, reads = case.inputs
    places = got["places"] if isinstance(got, dict) else []
    if not (len(places) == SIDE and all(isinstance(one, int) for one in places)):
        return "place(row, column) returns a whole number"
    if min(places) < 0 or max(places) >= SIDE:
        return f"every place is one of 0 to 31, and row 0 to 31 has no more: got {max(places)}"
    if len(set(places)) < SIDE:
        what = "two elements of a row lie in one place" if reads == "row" else "two lanes meet"
        return f"{what} in {reads} {line}"
    if got["again"] != places:
        return "an element has one place, however often and in which order you are asked"
    return None


place = Exercise(
    id="bank_conflict_ladder.place",
    rung="warm-up",
    stages=(
        Stage("rows keep all", case=lambda rng, size: (rng.randint(0, 31), "row"), cases=12),
        Stage("columns never meet"),
    ),
    case=lambda rng, size: (rng.randint(0, 31), rng.choice(("row", "column"))),
    judge=_judge_place,
    drive=_drive_place,
    show=lambda line, reads: f"{reads} {line}",
    cases=60,
    minutes=4,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "A place is a whole number, an int.",
            when=lambda e: not all(isinstance(one, int) for one in e.value["places"]),
        ),
        Hint(
            "In a column all your places are in the same bank. The place must depend on the row.",
            when=lambda e: e.inputs[1] == "column",
        ),
        Hint(
            "In one row two elements have the same place, so one of them is lost.",
            when=lambda e: e.inputs[1] == "row",
        ),
        "The rows begin in the same bank. Let each row begin one place later than the row above.",
        "(column + row) % 32, or column ^ row.",
    ),
    must_fail=(
        "as it is",
        "padding instead",
        "loses elements",
        "meets in a column",
        "shifts by 2",
        "counts its calls",
    ),
)

# --- wavefronts

ITEMS = (1, 2, 4, 8, 16)


def _an_index(rng: Rng, size: int) -> tuple[str, int]:
    """Python text in t; lanes with items of more than 4 bytes never want the same one."""
    item = rng.choice(ITEMS if size > 2 else (4,))
    step = rng.choice((1, 1, 2, 3, 4, 8, 16, 31, 32, 33, 34, 36, 40, rng.randint(1, 70)))
    plain = [f"{step} * t + {rng.randint(0, 9)}", f"{step} * (31 - t)"]
    mixed = [
        f"t * {rng.choice((32, 33, 36))} + (t ^ {rng.randint(0, 31)})",
        f"(t % 8) * {rng.choice((32, 33, 40))} + t // 8",
        f"t // {rng.choice((4, 8, 16))} * {rng.choice((64, 65, 100))} + t % 16 * 2 + t % 2",
        f"t * t + {rng.randint(0, 5)}",
    ]
    shared = ["5", "t // 2", "t % 4 * 32", f"t // 8 * {rng.choice((1, 32, 33))}", "t % 8"]
    kinds = plain if size == 0 else plain + mixed + (shared if item <= 4 else [])
    index = rng.choice(kinds)
    if item > 4 and len({eval(index, {"t": t}) for t in range(SIDE)}) < SIDE:
        index = plain[0]
    return index, item


@handed_out
def _addresses(index: str, itemsize: int) -> dict[int, int]:
    return {t: eval(index, {"t": t}) * itemsize for t in range(SIDE)}


def _passes(index: str, itemsize: int) -> int:
    return len(passes(_addresses(index, itemsize), itemsize))


wavefronts = Exercise(
    id="bank_conflict_ladder.wavefronts",
    stages=(
        Stage("a step", case=lambda rng, size: (f"{rng.randint(1, 70)} * t", 4), cases=20),
        Stage(
            "the same word",
            case=lambda rng, size: (rng.choice(("5", "t // 2", "t % 4 * 32", "t // 8 * 32")), 4),
            cases=8,
        ),
        Stage("small items", case=lambda rng, size: (f"{rng.randint(1, 40)} * t", 2), cases=12),
        Stage("wide items", case=lambda rng, size: (f"{rng.randint(1, 40)} * t", 16), cases=12),
        Stage("any index"),
    ),
    case=_an_index,
    expected=_passes,
    cases=500,
    seconds=20.0,
    minutes=12,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Lanes that want the same word are served together: count different words.",
            when=lambda e: e.inputs[1] <= 4 and len(set(_addresses(*e.inputs).values())) < SIDE,
        ),
        Hint(
            "An item here takes more than 4 bytes: which words does a lane want, and which lanes "
            "are served together?",
            when=lambda e: e.inputs[1] > 4,
        ),
        Hint(
            "Items of less than 4 bytes: several of them are in one word.",
            when=lambda e: e.inputs[1] < 4,
        ),
        "A word is 4 bytes: its number is address // 4, its bank the number modulo 32.",
        "For each group of lanes: collect the different words, and count the fullest bank.",
        "Groups: 32 lanes for up to 4 bytes, 16 for 8, 8 for 16. Add the passes of the groups.",
    ),
    must_fail=(
        "ignores the item size",
        "counts lanes and not words",
        "serves wide items together",
        "counts the banks in use",
        "column pitch only",
        FIRST,
    ),
)

# --- column_sum

MANY = 6000
"""Rows after which one running float is too far off, and 32 of them are not."""
RIGHT = {
    "the launch": "runs",
    "out": "right everywhere",
    "findings": [],
    "bytes around the arrays": "untouched",
    "dy": "as it was",
    "the bits in another order of threads": "the same",
    "reads of dy": "each number once, by neighbouring lanes",
    "atomics": "none",
    "written to the tile": "one number per thread at most",
    "passes of shared memory": "as few as there can be",
    "barriers": "at most two",
    "lanes": kernel_bench.ALL_LANES,
}
"""What `_drive_sum` says of a kernel without fault."""


def _a_matrix(rng: Rng, size: int) -> tuple[int, int, Any, int]:
    """(rows, columns, the order of the threads, a seed): whole tiles first, once ten blocks."""
    if size < 2:
        return rng.choice((32, 64, 96)), rng.choice((32, 64)), "forward", rng.getrandbits(30)
    rows = rng.choice((1, 5, 31, 33, 45, 70, 500)) if size < 7 else MANY
    columns = rng.choice((1, 5, 31, 33, 40)) if size < 7 else 8
    if size == 2:
        rows, columns = 5, 300
    return rows, columns, rng.choice(("reverse", rng.randint(1, 99))), rng.getrandbits(30)


@handed_out
def _matrix(rows: int, columns: int, seed: int) -> Any:
    if rows == MANY:
        return np.full((rows, columns), 0.7, np.float32)  # each addition rounds the same way
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((rows, columns)) + 1).astype(np.float32)


@handed_out
def _first_wrong(out: Any, dy: Any) -> str:
    right = dy.astype(np.float64).sum(0)
    near = np.abs(out - right) <= 1e-5 * np.abs(dy).sum(0, dtype=np.float64)
    if near.all():
        return ""
    column = int(np.argmin(near))
    return f"out[{column}] is {out[column]:.9g}, not {right[column]:.9g}"


def _drive_sum(answer: Any, rows: int, columns: int, order: Any, seed: int) -> Found:
    text, dy = answer(), _matrix(rows, columns, seed)
    out = np.full(columns, np.nan, np.float32)
    blocks = math.ceil(columns / SIDE)
    done, again = (
        kernel_bench.launch(
            text, "column_sum", blocks, (SIDE, SIDE), (dy, out, rows, columns),
            order=one, trace=one == order,
        )
        for one in (order, 7)
    )  # fmt: skip
    if done.report is None:
        return Found({"the launch": done.failure})
    report, got = done.report, done.arrays[1]
    read = report.total("lanes", access="read", array=done.names[0])
    left = report.total("lanes", access="write", space="shared")
    waits = kernel_bench.barriers(report)
    found = {
        "the launch": done.failure,
        "out": _first_wrong(got, dy),
        "findings": done.findings[:2],
        "bytes around the arrays": done.outside,
        "dy": kernel_bench.written_inputs(done, [dy]),
        "the bits in another order of threads": ""
        if again.arrays[1].tobytes() == got.tobytes()
        else "others",
        "reads of dy": kernel_bench.spread_reads(report, done.names[0], 5 * rows * blocks)
        if read == dy.size
        else f"{read} for {dy.size} numbers",
        "atomics": "" if not report.total("requests", access="atomic") else "some",
        "written to the tile": ""
        if SIDE * columns <= left <= SIDE * SIDE * blocks
        else f"{left} numbers for {blocks} tiles",
        "passes of shared memory": kernel_bench.passes(report),
        "barriers": "" if waits <= 2 else f"{waits:g}",
        "lanes": kernel_bench.few_lanes(
            report,
            {
                ("read", done.names[0]): rows * blocks,
                ("write", "shared"): SIDE * blocks,
                ("read", "shared"): SIDE * blocks,
            },
        ),
    }
    said = {key: RIGHT[key] if value == "" else value for key, value in found.items()}
    return Found(said).seen_in(report)


def _expected_sum(*inputs: Any) -> dict[str, Any]:
    return RIGHT


def _smaller(rows: int, columns: int, order: Any, seed: int) -> Iterator[tuple[Any, ...]]:
    if rows > 1:
        yield rows // 2, columns, order, seed
    if columns > 1:
        yield rows, columns // 2, order, seed


column_sum = Exercise(
    id="bank_conflict_ladder.column_sum",
    stages=(
        Stage(
            "whole tiles",
            case=lambda rng, size: (
                32 * rng.randint(1, 3),
                32 * rng.randint(1, 2),
                "reverse",
                size,
            ),
            cases=2,
        ),
        Stage("any size"),
    ),
    case=_a_matrix,
    expected=_expected_sum,
    drive=_drive_sum,
    smaller=_smaller,
    show=lambda rows, columns, order, seed: f"{rows} x {columns}, threads in order {order}",
    picture=kernel_bench.drawn,
    returns=(Found,),
    cases=9,
    seconds=60.0,
    processes=True,
    minutes=15,
    hints=(
        kernel_bench.NOT_RUN,
        Hint("Between writing and reading the tile: a barrier.", when=off("findings", ": race:")),
        Hint(
            "Your pitch is 33 in the declaration: which number multiplies the row in the address?",
            when=off("passes of shared memory"),
        ),
        Hint(
            "A shuffle waits for all lanes in its mask, a barrier for all threads: guard the "
            "accesses, not the way to them.",
            when=off("findings", "shuffle", "mask", "barrier", "deadlock"),
        ),
        Hint(
            "Some place of the tile is read that nobody wrote: threads outside write 0.",
            when=off("findings", "uninit"),
        ),
        Hint("The gradient belongs to the caller: dy is only read.", when=off("dy")),
        Hint(
            "Lanes differ in tx. Neighbouring lanes read neighbouring columns of one row.",
            when=off("reads of dy", "sectors"),
        ),
        Hint(
            "After the turn a warp holds one column. Which one, and does it exist?",
            when=off("findings", "bounds"),
        ),
        Hint(
            "A tree has a barrier in each round. After the turn a whole column lies in one warp, "
            "and a warp can shuffle.",
            when=off("barriers"),
        ),
        "Turn the tile: warp ty reads column ty, lane tx the sum of row group tx.",
        "v = column < cols ? ... : 0 while loading; tile[ty * 33 + tx] = v; barrier; "
        "v = tile[tx * 33 + ty]; five shuffles; lane 0 writes out[left + ty] if it exists.",
    ),
    must_fail=(
        "padding declared but not indexed",
        "swizzle that collides",
        "full mask in a partial warp",
        "barrier inside the guard",
        "atomics instead of a tree",
        "multiples of 32 only",
        "a tree with a barrier in each round",
        "one warp adds all rows",
        "one float for many rows",
        "no barrier",
        "adds to what was in out",
        "writes to dy",
        "two blocks only",
        "lanes down a column",
    ),
)

EXERCISES = (wavefronts, place, column_sum, regression_test)
