"""A convolution as a product whose matrix is never written: the block-tiled CUDA kernel."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.course.benches import conv_bench, kernel_bench
from labkit.course.benches.conv_bench import off
from labkit.course.benches.kernel_bench import Found
from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._conv_cases import ORDERS, a_convolution, plane_drawn, simpler
from labkit.cuda import inspect
from labkit.cuda.errors import CompileError
from labkit.cuda.shelf.conv_sizes import Conv

DTYPES = {"float": np.float32, "double": np.float64}
NAMES = tuple(f"conv2d_gemm<{name}>" for name in DTYPES)
TILE, WARPS = 32, 8
REGULAR = Conv((1, 16, 8, 8), (64, 16, 3, 3), padding=(1, 1))
SECTORS = 0.016
"""Sectors per multiply-add on REGULAR, at most; lanes along k need 0.019."""


def _a_product(rng: Rng, size: int) -> tuple[Any, ...]:
    name = rng.choice(tuple(DTYPES))
    order = rng.choice(("forward", "reverse", rng.randint(1, 999)))
    if size == 8:  # a shape whose counters are known
        return REGULAR, "float", order, rng.getrandbits(30)
    conv = a_convolution(rng, size, 1)
    if size > 3:
        conv = conv._replace(w=(rng.choice((1, 5, 31, 33, 40)), *conv.w[1:]))
    return conv, name, order, rng.getrandbits(30)


PRODUCT = {
    "the launch": "runs",
    "y": "right everywhere",
    "findings": [],
    "bytes around the arrays": "untouched",
    "elements of x and w read": "each once per tile that needs it",
    "sectors per multiply-add": "few enough",
    "wavefronts per shared request": "at most twice the fewest",
    "written to global memory": "y, once",
    "divisions in the product's loop": "none",
    "bytes spilled": 0,
    "lanes": kernel_bench.ALL_LANES,
}


def _expected_product(*inputs: Any) -> dict[str, Any]:
    return PRODUCT


@functools.lru_cache(64)
@handed_out
def spilled(text: str) -> int:
    """Bytes that NVIDIA's compiler spills; 0 where it is not installed."""
    if not inspect.is_available():
        return 0
    try:
        made = inspect.compile_source(f"{conv_bench.CONV}\n{text}", "sm_90", NAMES)
    except CompileError:
        return 0  # the emulator's compiler has said why
    return sum(one.spill_bytes for one in made.kernels.values())


@handed_out
def hot_divisions(text: str, report: Any, hot: int) -> str:
    """The first line with / or % that warps ran at least `hot` times, "" if there is none.

    A basic block is counted where it begins: the lines after that one run as often.
    """
    runs = {one.line: one.runs for one in report.lines}
    now = 0
    for line, written in enumerate(text.splitlines(), start=1):
        now = runs.get(line) or now
        code = written.partition("//")[0]
        if now >= hot and set("/%") & set(code):
            return f"line {line}: {code.strip()}"
    return ""


def _drive_product(answer: Any, conv: Conv, name: str, order: Any, seed: int) -> Found:
    text = answer()
    x, w, y = conv_bench.data(conv, seed, dtype=DTYPES[name])
    positions = y.size // conv.w[0]
    across, down = math.ceil(positions / TILE), math.ceil(conv.w[0] / TILE)
    done = conv_bench.run(
        text, f"conv2d_gemm<{name}>", conv, (across, down), (16, 16), (x, w, y), order, names=NAMES
    )
    if done.report is None:
        return Found({"the launch": done.failure})
    report = done.report
    read = report.total("lanes", access="read", space="global")
    needed = conv.depth * (positions * down + conv.w[0] * across)
    sectors = report.total("sectors", access="read", space="global") / (y.size * conv.depth)
    slabs = math.ceil(conv.depth / WARPS) + TILE // WARPS  # loads of a thread, the last ragged
    shared = [*report.select(space="shared")]
    worst = max(shared, key=lambda one: one.wavefronts / max(1, one.ideal_wavefronts), default=None)
    waves = worst.wavefronts / max(1, worst.ideal_wavefronts) if worst else 0.0
    stored = sum(
        one.lanes for one in report.accesses if one.space != "shared" and one.access != "read"
    )
    found = {
        "the launch": done.failure,
        "y": conv_bench.first_wrong(done.arrays[2], conv_bench.right(conv, x, w), conv.depth),
        "findings": done.findings[:2],
        "bytes around the arrays": done.outside,
        "elements of x and w read": f"{read}, where {needed} would do" if read > needed else "",
        "sectors per multiply-add": f"{sectors:.3f}, gate {SECTORS}"
        if conv == REGULAR and sectors > SECTORS
        else "",
        "wavefronts per shared request": f"{waves:.0f} times the fewest, in line {worst.line}"
        if worst and waves > 2
        else "",
        "written to global memory": f"{stored} elements for {y.size} of y"
        if stored != y.size
        else "",
        "divisions in the product's loop": hot_divisions(
            text, report, conv.depth * WARPS * across * down
        )
        if conv == REGULAR
        else "",
        "bytes spilled": spilled(text),
        "lanes": conv_bench.lanes(
            done,
            {
                ("read", 0): slabs,
                ("read", 1): slabs,
                ("write", 2): 4,
                ("read", "shared"): 4 * WARPS * slabs,
                ("write", "shared"): 2 * slabs,
            },
        ),
    }
    said = {key: PRODUCT[key] if value == "" else value for key, value in found.items()}
    return Found(said).seen_in(report, done.arrays[2])


def _smaller_product(conv: Conv, name: str, order: Any, seed: int) -> Iterator[tuple[Any, ...]]:
    if conv != REGULAR:
        for less in simpler(conv):
            yield less, name, order, seed


def _show_product(conv: Conv, name: str, order: Any, seed: int) -> str:
    return f"conv2d_gemm<{name}>: {conv_bench.in_words(conv, order)}"


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The first output plane that is not right; else the requests."""
    conv, name, _, seed = case.inputs
    x, w, _ = conv_bench.data(conv, seed, dtype=DTYPES[name])
    return plane_drawn("y", case, got, conv_bench.right(conv, x, w))


def _one_slab(rng: Rng, size: int) -> tuple[Any, ...]:
    """One channel and few taps: everything fits into one slab and one tile."""
    conv = Conv((1, 1, rng.randint(3, 6), rng.randint(3, 6)), (rng.randint(1, 9), 1, 3, 3))
    return conv, "float", "forward", rng.getrandbits(30)


implicit_gemm_rung = Exercise(
    id="convolution_real.implicit_gemm_rung",
    rules=(
        "a block reads each element of w and of x under its tile at most once from global memory",
        "on x [1, 16, 8, 8], w [64, 16, 3, 3], padding 1: at most 0.016 sectors per multiply-add, "
        "and no / or % in a line that every warp runs for every depth, as it does the product",
        "at most twice the fewest wavefronts per access of shared memory; no race, no spill",
    ),
    case=_a_product,
    expected=_expected_product,
    drive=_drive_product,
    smaller=_smaller_product,
    show=_show_product,
    picture=_drawn,
    returns=(Found,),
    rung="boss",
    stages=(
        Stage("one slab", case=_one_slab, cases=4),
        Stage("counted", only=lambda conv, *_: conv == REGULAR, cases=2),
        Stage("any shape"),
    ),
    cases=54,
    seconds=60.0,
    processes=True,
    minutes=35,
    hints=(
        Hint(
            "A race: load, barrier, multiply, barrier. Which one is missing?",
            when=off("findings", "race"),
        ),
        Hint(
            "The last slab is ragged: C R S is no multiple of it. What is multiplied past the end?",
            when=off("findings", "out of bounds"),
        ),
        Hint(
            "Shared memory is read where nobody has written yet: a barrier is missing, or the edge "
            "of a slab is not filled with 0.",
            when=off("findings", "uninitialised"),
        ),
        Hint(
            "Lanes meet in a bank: which dimension is contiguous in your tile, and how far apart "
            "are two neighbouring lanes? Store the tile turned, or pad its rows by one.",
            when=off("wavefronts per shared request"),
        ),
        Hint(
            "Too many sectors. Neighbouring lanes should take neighbours of a row of w (along "
            "C R S), and neighbouring positions of x.",
            when=off("sectors per multiply-add"),
        ),
        Hint(
            "A division in the product's loop: c, r and s of a depth are the same for the whole "
            "tile. Take the index apart where you load, not where you multiply.",
            when=off("divisions in the product's loop"),
        ),
        Hint(
            "Too many reads. A thread may load what 32 others use: 32 x slab of w, slab x 32 of x.",
            when=lambda e: off("elements of x and w read")(e) and not off("y")(e),
        ),
        Hint(
            "More is written than y. The matrix exists only tile by tile, in shared memory.",
            when=off("written to global memory"),
        ),
        Hint(
            "float is right and double is not: in which type do you sum, and what holds a slab?",
            when=lambda e: off("y")(e) and e.inputs[1] == "double",
        ),
        "256 threads, 32 x 32 results: each thread has 4, at ty and ty + 16, tx and tx + 16.",
        "Per slab: load w and x, barrier, multiply, barrier. What lies outside is stored as 0.",
        "position = (n * P + p) * Q + q and depth = (c * R + r) * S + s: divide while loading.",
    ),
    must_fail=(
        "materialises the matrix",
        "tile without guard for ragged K",
        "recomputes divisions in the inner loop (instruction counter gate)",
        "bank conflict 8",
        "one shape only",
        ORDERS,
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
    ),
)
