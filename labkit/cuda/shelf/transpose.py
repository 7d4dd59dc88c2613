"""y = x transposed, two dimensions."""

import numpy as np

from labkit.cuda.shelf.rung import Problem, Rung, poisoned, random, rungs_of


def make(rung: Rung, generator: np.random.Generator, shape: tuple[int, ...]) -> Problem:
    """A random matrix."""
    rows, cols = shape
    x = random(generator, shape)
    y = poisoned((cols, rows))
    launch = rung.launch((x, y, rows, cols), rows=rows, cols=cols)
    return Problem([x], y, x.T.astype(np.float64), [launch])


RUNGS = rungs_of(
    "transpose", make, (96, 64), [(1, 1), (1, 77), (33, 31), (64, 64), (36, 100), (129, 5)]
)
