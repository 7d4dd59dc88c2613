"""Kernels that sum down the columns, right and half right, and a test that tells them apart."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.exercise import Hint, handed_out
from labkit.course.exercises import _regression
from labkit.course.exercises._regression import red_or_green

SLIP = """extern "C" __global__
void column_sum(const float* dy, float* out, int rows, int cols) {
    __shared__ float tile[32 * 33];
    int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 32;
    float v = 0;
    for (int row = ty; row < rows; row += 32) v += dy[row * cols + left + tx];
    tile[ty * 32 + tx] = v;
    __syncthreads();
    v = tile[tx * 32 + ty];
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_down_sync(0xffffffff, v, step);
    if (tx == 0) out[left + ty] = v;
}
"""
"""Its tile has a spare column that no address knows of, and it is right for whole tiles alone."""

TREE = """extern "C" __global__
void column_sum(const float* dy, float* out, int rows, int cols) {
    __shared__ float tile[32 * 32];
    int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 32;
    float v = 0;
    for (int row = ty; row < rows; row += 32) v += dy[row * cols + left + tx];
    tile[ty * 32 + tx] = v;
    __syncthreads();
    for (int step = 16; step > 0; step /= 2) {
        if (ty < step) tile[ty * 32 + tx] += tile[(ty + step) * 32 + tx];
        __syncthreads();
    }
    if (ty == 0) out[left + tx] = tile[tx];
}
"""
"""As PyTorch once added the last rows: without a conflict, and with a barrier in each round."""


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The text with these pieces replaced."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


PADDED = "* 32 + t", "* 33 + t"
READS = "    for (int row", "    if (left + tx < cols) for (int row"
WRITES = "tx == 0)", "tx == 0 && left + ty < cols)"
FINISHED = changed(SLIP, PADDED, READS, WRITES)
GREEN = {
    "the repaired kernel": FINISHED,
    "a swizzle": changed(
        SLIP, READS, WRITES, ("ty * 32 + tx", "ty * 32 + (tx ^ ty)"),
        ("tx * 32 + ty", "tx * 32 + (ty ^ tx)"),
    ),
}  # fmt: skip
RED = {"slip": SLIP}
HALF = {
    "the padding is declared only": changed(SLIP, READS, WRITES),
    "the padding is in the write only": changed(FINISHED, ("tx * 33 + ty", "tx * 32 + ty")),
    "it is right for whole tiles only": changed(SLIP, PADDED),
    "it sums the first 32 rows only": changed(FINISHED, ("row < rows", "row < rows && row < 32")),
    "a tree with a barrier in each round": changed(
        TREE,
        READS,
        ("if (ty == 0)", "if (ty == 0 && left + tx < cols)"),
    ),
}
SIDES = {**GREEN, **RED, **HALF}


class Counted(NamedTuple):
    """What a run of a column sum gave.

    right      whether it ran, and every sum is right
    passes     of shared memory, for each request of a warp; 1 is the fewest
    barriers   that a warp waited at
    """

    right: bool
    passes: float
    barriers: float


@functools.cache
@handed_out
def _counted(side: str, rows: int, columns: int) -> Counted:
    rng = np.random.default_rng(rows * 1000 + columns)
    dy = rng.integers(1, 10, (rows, columns)).astype(np.float32)
    out = np.full(columns, np.nan, np.float32)
    done = kernel_bench.launch(
        SIDES[side], "column_sum", -(-columns // 32), (32, 32), (dy, out, rows, columns), trace=True
    )
    if done.report is None:
        return Counted(False, 0.0, 0.0)
    taken, asked = (done.report.total(n, space="shared") for n in ("wavefronts", "requests"))
    right = not done.findings and done.outside == "untouched"
    right = right and bool(np.array_equal(done.arrays[1], dy.sum(0)))
    return Counted(right, taken / asked, kernel_bench.barriers(done.report))


@handed_out
def counted_by(side: str) -> Callable[[int, int], Counted]:
    """(rows, columns) -> what a run of this kernel gives."""

    def run(rows: int, columns: int) -> Counted:
        if not (1 <= rows <= 200 and 1 <= columns <= 200):
            raise ValueError(f"{rows} x {columns}: 1 to 200 of each")
        return _counted(side, rows, columns)

    return run


@handed_out
def _drive_test(answer: Any, side: str) -> str:
    """Whether the answer's test is red or green for this kernel."""
    return red_or_green(answer, counted_by(side))


regression_test = _regression.regression_test(
    "bank_conflict_ladder.regression_test",
    drive=_drive_test,
    green=("green", GREEN),
    red=("red for slip", RED),
    half=HALF,
    minutes=7,
    seconds=60.0,
    processes=True,
    hints=(
        Hint(
            "The sums of slip are right for whole tiles. Look at passes, or at another shape.",
            stage="red for slip",
        ),
        Hint("This kernel has no fault: one pass, one barrier, right sums.", stage="green"),
        Hint("Numbers cannot show a conflict: assert run(...).passes == 1.",
             when=lambda e: "declared" in e.input),
        Hint("Choose columns that are no multiple of 32.", when=lambda e: "whole" in e.input),
        Hint("Choose more than 32 rows.", when=lambda e: "first 32" in e.input),
        Hint("Count the barriers, too.", when=lambda e: "tree" in e.input),
        "run(rows, columns) has right, passes and barriers: one run of a good shape may do.",
    ),
    must_fail=(
        "asks for right sums alone",
        "asks for passes alone",
        "takes whole tiles",
        "takes few rows",
        "forgets the barriers",
    ),
)  # fmt: skip
