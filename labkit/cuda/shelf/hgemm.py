"""C = A B in float16 and bfloat16, sums in float32."""

import math

import numpy as np
import torch

from labkit.cuda.shelf.rung import ROUNDING, Output, Problem, Rung, random, rungs_of


def make(rung: Rung, generator: np.random.Generator, shape: tuple[int, int, int]) -> Problem:
    """Random matrices of M x K and K x N, as float16 and again as bfloat16."""
    m, n, k = shape
    wide = [torch.from_numpy(random(generator, size)) for size in ((m, k), (k, n))]
    scale = max((float(one.abs().max()) for one in wide if one.numel()), default=1.0)
    launches, outputs = [], []
    for step, dtype in (("", torch.float16), ("bfloat16", torch.bfloat16)):
        a, b = (one.to(dtype) for one in wide)
        c = torch.full((m, n), torch.nan, dtype=dtype)
        launches.append(rung.launch((a, b, c, m, n, k), step, M=m, N=n))
        sums = 2e-6 * max(1.0, scale**2) * (1 + math.sqrt(k))
        outputs.append(Output(c, (a.double() @ b.double()).numpy(), sums, 1.01 * ROUNDING[dtype]))
    return Problem.of([one.numpy() for one in wide], outputs, launches if m * n else [], depth=k)


RUNGS = rungs_of(
    "hgemm", make, (64, 128, 64),
    [(1, 1, 1), (3, 5, 0), (0, 4, 4), (17, 5, 33), (64, 64, 64), (130, 24, 40), (40, 72, 48)],
)  # fmt: skip
