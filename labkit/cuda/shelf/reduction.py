"""The sum of all elements."""

import numpy as np

from labkit.cuda.shelf.rung import Launch, Problem, Rung, blocks, poisoned, rungs_of

GRID = 8


def make(rung: Rung, generator: np.random.Generator, shape: tuple[int, ...]) -> Problem:
    """Random numbers; the last rung leaves its sum by a second launch."""
    x = generator.standard_normal(shape).astype(np.float32)
    expected = np.array([x.astype(np.float64).sum()])
    count = x.size
    if rung.number == 4:
        partial, out = poisoned((GRID,)), poisoned((1,))
        launches = [
            Launch((GRID,), (256,), (x, partial, count)),
            Launch((1,), (256,), (partial, out, GRID)),
        ]
        return Problem([x], out, expected, launches, depth=count, scratch=[partial])
    out = np.zeros(1, np.float32)  # the kernels add to it
    grid = GRID if rung.number == 3 else blocks(count, 256)
    return Problem([x], out, expected, [Launch((grid,), (256,), (x, out, count))], depth=count)


RUNGS = rungs_of("reduction", make, (16384,), [(1,), (255,), (1000,), (4097,), (10_003,)])
