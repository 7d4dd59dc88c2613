"""y = x transposed, two dimensions."""

import numpy as np

from labkit.cuda.shelf.rung import Launch, Problem, Rung, blocks, poisoned, rungs_of


def make(rung: Rung, generator: np.random.Generator, shape: tuple[int, ...]) -> Problem:
    """A random matrix."""
    rows, cols = shape
    x = generator.standard_normal(shape).astype(np.float32)
    y = poisoned((cols, rows))
    block = (8, 32) if rung.number == 4 else (32, 32)
    launch = Launch((blocks(cols, 32), blocks(rows, 32)), block, (x, y, rows, cols))
    return Problem([x], y, x.T.astype(np.float64), [launch])


RUNGS = rungs_of(
    "transpose", make, (96, 64), [(1, 1), (1, 77), (33, 31), (64, 64), (36, 100), (129, 5)]
)
