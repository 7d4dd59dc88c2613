"""How many numbers fall into each of equal bins, as torch.histc counts."""

from typing import NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.rung import Problem, Rung, rungs_of

THREADS = 256
GRID = 3
SLICE = 1024
"""The most bins a block keeps in shared memory."""


class Case(NamedTuple):
    """n numbers into `bins` bins from low to high; `strays` lie outside, or are NaN."""

    n: int
    bins: int
    low: float = -4.0
    high: float = 4.0
    strays: bool = True


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """Numbers that float32 divides into bins without rounding: multiples of 1/256."""
    spread = case.high - case.low
    x = generator.integers(0, int(256 * spread) + 1, case.n) / 256 + case.low
    x = x.astype(np.float32)
    inside = x.astype(np.float64)
    if case.strays:
        kind = generator.integers(0, 20, case.n)
        for i, stray in enumerate((case.low - 1, case.high + 1, np.nan, np.inf)):
            x[kind == i] = stray
        inside = inside[kind > 3]
    expected = torch.histc(torch.from_numpy(inside), case.bins, case.low, case.high)
    counts = np.zeros(case.bins, np.uint64)  # the kernels add to it
    args = [x, counts, case.n, case.bins, case.low, case.high]
    kept = min(SLICE, case.bins)
    if rung.takes("slice"):
        args.append(kept)
    sizes = {"bins": case.bins, "slice": kept, "warps": THREADS // 32}
    launch = rung.launch(args, grid=GRID, block=THREADS, **sizes)
    return Problem([x], counts, expected.numpy(), [launch], atol=0.0, rtol=0.0)


RUNGS = rungs_of(
    "histogram", make, Case(6144, 64, strays=False),
    [Case(0, 3), Case(1, 1), Case(5000, 7), Case(3001, 5000), Case(999, 100, -1.0, 2.5)],
)  # fmt: skip
