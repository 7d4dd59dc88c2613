"""A matrix product in tiles: right at its edges, then with a patch of results in each thread."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Found, off
from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._never_right import CONSTANT, FIRST

NOTEBOOK = "4_vision_low_level/11_memory_and_cuda_practices"

ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"
TILE = 32

# --- tile_reads, patch_reads

tile_reads = Exercise(
    id="memory_and_cuda_practices.tile_reads",
    rung="warm-up",
    case=lambda rng, size: (
        rng.choice((1, 31, 32, 33, 64, rng.randint(1, 500), rng.randint(1, 10**6))),
        rng.choice((8, 16, 32)),
    ),
    expected=lambda columns, tile: math.ceil(columns / tile),
    cases=60,
    minutes=4,
    hints=(
        Hint(
            "A whole number is wanted, an int.",
            when=lambda e: isinstance(e.value, float) and e.value == e.right,
        ),
        Hint(
            "For {input} you say {got}. The last tile may be partly outside C: does it read A?",
            when=lambda e: e.value == e.inputs[0] // e.inputs[1],
        ),
        "How many tiles stand side by side over the columns of C? Each reads the whole row of A.",
        "Divide and round up: -(-columns // tile).",
    ),
    must_fail=(
        "rounds down",
        "one read per column",
        "reads half a number",
        "knows 500 columns",
        FIRST,
        CONSTANT,
    ),
)


def _patch(rng: Rng, size: int) -> tuple[int, int]:
    return (1, 1) if size == 0 else (rng.randint(1, 16), rng.randint(1, 16))


patch_reads = Exercise(
    id="memory_and_cuda_practices.patch_reads",
    rung="warm-up",
    case=_patch,
    expected=lambda rows, columns: float(Fraction(rows + columns, rows * columns)),
    tolerance=1e-9,
    cases=40,
    minutes=3,
    hints=(
        Hint(
            "A patch need not be square: here it is {input}.",
            when=lambda e: e.inputs[0] != e.inputs[1],
        ),
        "One step of k: how many numbers does the thread fetch, and how many products come of it?",
        "rows + columns numbers feed rows * columns products.",
    ),
    must_fail=(
        "square patches only",
        "counts products per read",
        "two reads each",
        "knows patches up to 8 x 8",
        FIRST,
        CONSTANT,
    ),
)

# --- edges, matmul_ladder: kernels named matmul

Sizes = tuple[int, int, int]
RIGHT = {
    "the launch": "runs",
    "c": "right everywhere",
    "findings": [],
    "bytes around the arrays": "untouched",
    "a and b": "as they were",
    "reads of global memory": "each number once per tile that needs it",
    "passes of shared memory": "as few as there can be",
    "reads of shared memory per product": "few enough",
    "written to c": "each element once",
    "lanes": kernel_bench.ALL_LANES,
}
"""What `_driven` says of a kernel without fault."""


def _whole(rng: Rng, size: int) -> tuple[Sizes, Any, int]:
    """(M, N, K) of whole tiles, the order of the threads, and a seed."""
    M, N, K = TILE, rng.choice((TILE, 2 * TILE)), rng.choice((TILE, 2 * TILE))
    return (M, N, K), rng.choice(("forward", "reverse", rng.randint(1, 99))), rng.getrandbits(30)


def _sizes(rng: Rng, size: int) -> tuple[Sizes, Any, int]:
    """Whole tiles first, then ragged sizes; in two of them more than three tiles."""
    whole, order, seed = _whole(rng, size)
    if size < 2:
        return whole, order, seed
    if size in (2, 3):
        return ((100, 101, 7), (33, 5, 101))[size - 2], order, seed
    M, N = (rng.choice((1, 5, 31, 32, 33, 40)) for _ in range(2))
    return (M, N, rng.choice((1, 7, 31, 33, 45))), order, seed


@handed_out
def _matrices(sizes: Sizes, seed: int) -> list[Any]:
    """A, B and a C that nobody has written; sums of their products are exact in float."""
    M, N, K = sizes
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-9, 10, shape).astype(np.float32) / 4 for shape in ((M, K), (K, N)))
    return [a, b, np.full((M, N), np.nan, np.float32)]


def _driven(block: tuple[int, int], per_product: float) -> Any:
    """Launches the answer with such blocks, and compares its counters with what a tile needs."""

    def drive(answer: Any, sizes: Sizes, order: Any, seed: int) -> Found:
        M, N, K = sizes
        arrays = _matrices(sizes, seed)
        across, down = math.ceil(N / TILE), math.ceil(M / TILE)
        done = kernel_bench.launch(
            answer(), "matmul", (across, down), block, (*arrays, M, N, K), order=order, trace=True
        )
        if done.report is None:
            return Found({"the launch": done.failure})
        said = _said(done, sizes, across, down, per_product)
        said["a and b"] = kernel_bench.written_inputs(done, arrays[:2]) or RIGHT["a and b"]
        return Found(said).seen_in(done.report)

    return drive


@handed_out
def _said(done: Any, sizes: Sizes, across: int, down: int, per_product: float) -> dict[str, Any]:
    M, N, K = sizes
    report, (a, b, c) = done.report, done.names
    read = report.total("lanes", space="global", access="read")
    needed = M * K * across + K * N * down
    products = across * down * TILE * TILE * TILE * math.ceil(K / TILE)
    shared = report.total("lanes", space="shared", access="read") / products
    stored = report.total("lanes", array=c, access="write")
    slabs = across * down * math.ceil(K / TILE) * TILE  # warps' loads of one of the tiles
    found = {
        "the launch": done.failure,
        "c": _first_wrong(done.arrays, sizes),
        "findings": done.findings[:2],
        "bytes around the arrays": done.outside,
        "reads of global memory": f"{read}, where {needed} would do" if read > needed else "",
        "passes of shared memory": kernel_bench.passes(report),
        "reads of shared memory per product": f"{shared:.3g}, at most {per_product:g}"
        if shared > per_product * 1.05
        else "",
        "written to c": f"{stored} elements for {M * N}" if stored != M * N else "",
        "lanes": kernel_bench.few_lanes(
            report,
            {
                ("read", a): slabs,
                ("read", b): slabs,
                ("write", c): across * down * TILE,
                ("read", "shared"): math.ceil(products * per_product / TILE),
                ("write", "shared"): 2 * slabs,
            },
        ),
    }
    return {key: RIGHT[key] if value == "" else value for key, value in found.items()}


@handed_out
def _first_wrong(arrays: Any, sizes: Sizes) -> str:
    a, b, c = arrays
    right = a.astype(np.float64) @ b
    wrong = np.argwhere(c != right)
    if not len(wrong):
        return ""
    i, j = wrong[0]
    return f"c[{i}][{j}] is {c[i, j]:g}, not {right[i, j]:g}"


def _smaller(sizes: Sizes, order: Any, seed: int) -> Iterator[tuple[Any, ...]]:
    for at, n in enumerate(sizes):
        if n > 1:
            yield tuple(n // 2 if i == at else m for i, m in enumerate(sizes)), order, seed


def _shown(sizes: Sizes, order: Any, seed: int) -> str:
    M, N, K = sizes
    return f"M = {M}, N = {N}, K = {K}, threads in order {order}"


def _right(*inputs: Any) -> dict[str, Any]:
    return RIGHT


COMMON: dict[str, Any] = {
    "case": _sizes,
    "expected": _right,
    "stages": (Stage("whole tiles", case=_whole, cases=2), Stage("any size")),
    "smaller": _smaller,
    "show": _shown,
    "picture": kernel_bench.drawn,
    "returns": (Found,),
    "cases": 9,
    "seconds": 60.0,
    "processes": True,
}
BARRIERS = Hint(
    "Somebody reads the tile while somebody else writes it. A barrier belongs between filling and "
    "using the tile, and one between using it and filling it again.",
    when=lambda e: off("findings", ": race:")(e) and not off("findings", ": out of bounds:")(e),
)
EDGE = Hint(
    "What lies outside the matrix has to count as 0: the thread writes 0 into the tile there. It "
    "must not leave the old number, and it must not leave the kernel.",
    when=lambda e: (
        any(n % TILE for n in e.inputs[0])
        and (
            off("findings", "uninit", "barrier", "bounds")(e)
            or off("bytes around the arrays")(e)
            or "nan" in str(e.value["c"])
        )
    ),
)

edges = Exercise(
    id="memory_and_cuda_practices.edges",
    rung="warm-up",
    drive=_driven((TILE, TILE), 2.0),
    minutes=4,
    hints=(
        kernel_bench.NOT_RUN,
        BARRIERS,
        EDGE,
        Hint(
            "The tiles are right where they lie inside. Who writes 0 where K ends in the middle of "
            "a tile?",
            when=off("c"),
        ),
        "Three guards. A: row < M and k < K. B: k < K and col < N. C: row < M and col < N.",
        "tile_a[ty][tx] = row < M && first + tx < K ? a[row * K + first + tx] : 0;",
    ),
    must_fail=(
        "multiples of the tile only",
        "leaves the kernel at the edge, before a barrier",
        "keeps the old number in the tile",
        "guards the rows and not k",
        "one thread does the work of a block",
        "writes to a",
        "sums in whole numbers",
        "three tiles at most",
    ),
    **COMMON,
)

matmul_ladder = Exercise(
    id="memory_and_cuda_practices.matmul_ladder",
    drive=_driven((TILE // 2, TILE // 2), 1.0),
    minutes=15,
    hints=(
        kernel_bench.NOT_RUN,
        BARRIERS,
        EDGE,
        Hint(
            "The conflict is in the writes. A warp fills one row in 32 places side by side; "
            "one that fills two half rows meets itself.",
            when=off("passes of shared memory", "is written"),
        ),
        Hint(
            "Two rows of tile_a are read in one request, and they meet in a bank: 32 words lie "
            "between them. Which pitch keeps them apart?",
            when=off("passes of shared memory"),
        ),
        Hint(
            "Too many reads of the tiles. Fetch two numbers of tile_a and two of tile_b into "
            "variables, and make four products of them.",
            when=off("reads of shared memory per product"),
        ),
        Hint(
            "Some of C is not written: each thread has four elements, 16 rows and columns apart.",
            when=lambda e: "nan" in str(e.value["c"]),
        ),
        Hint(
            "Too many reads of A and B. 256 threads fill 1024 places of a tile: four rounds each.",
            when=off("reads of global memory"),
        ),
        "A thread's rows in the tile are ty and ty + 16, its columns tx and tx + 16.",
        "Declare tile_a[32][33]. In the loop over k: a0, a1, b0, b1, then s00 += a0 * b0, ...",
    ),
    must_fail=(
        "multiples of the tile only",
        "second barrier missing",
        "a tile without padding",
        "tile read by column",
        "keeps nothing in registers",
        "reads the tile for each product",
        "K loop starts from stale shared memory",
        "no tile at all",
        ORDERS,
        "leaves part of C as it was",
        "adds to what was in C",
    ),
    **COMMON,
)

EXERCISES = (tile_reads, edges, patch_reads, matmul_ladder)
