"""C = A B in float32."""

import numpy as np

from labkit.cuda.shelf.rung import Problem, Rung, poisoned, random, rungs_of


def make(rung: Rung, generator: np.random.Generator, shape: tuple[int, ...]) -> Problem:
    """Random matrices of M x K and K x N."""
    m, n, k = shape
    a, b = random(generator, (m, k)), random(generator, (k, n))
    c = poisoned((m, n))
    launch = rung.launch((a, b, c, m, n, k), M=m, N=n)
    return Problem([a, b], c, a.astype(np.float64) @ b.astype(np.float64), [launch], depth=k)


RUNGS = rungs_of(
    "sgemm", make, (128, 128, 64), [(1, 1, 1), (5, 3, 7), (64, 64, 64), (65, 66, 33), (100, 36, 20)]
)
