"""The sum of all elements."""

import numpy as np

from labkit.cuda.shelf.rung import Problem, Rung, poisoned, random, rungs_of

GRID = 8


def make(rung: Rung, generator: np.random.Generator, shape: tuple[int, ...]) -> Problem:
    """Random numbers; a rung without atomics leaves its sum by a second launch."""
    x = random(generator, shape)
    expected = np.array([x.astype(np.float64).sum()])
    count = x.size
    out = rung.output((1,))
    if rung.takes("partial"):
        partial = poisoned((GRID,))
        launches = [
            rung.launch((x, partial, count), blocks=GRID),
            rung.launch((partial, out, GRID), blocks=1),
        ]
        return Problem([x], out, expected, launches, depth=count)
    launch = rung.launch((x, out, count), grid=GRID, n=count)
    return Problem([x], out, expected, [launch], depth=count)


RUNGS = rungs_of("reduction", make, (16384,), [(1,), (255,), (1000,), (4097,), (10_003,)])
