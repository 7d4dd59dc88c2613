"""C = A B in float16 and bfloat16, sums in float32."""

import math

import numpy as np
import torch

from labkit.cuda.shelf.rung import Launch, Output, Problem, Rung, blocks, rungs_of

_TILE_AND_THREADS = {1: (16, 32), 2: (64, 128), 3: (128, 256), 4: (128, 256)}
"""Rung -> (rows and columns of C per block, threads)."""
_DYNAMIC_SHARED = {4: 3 * 2 * 128 * 64 * 2 + 1024}
"""Bytes: three stages of a slab of each side, and what starting at a multiple of 1024 may cost."""
_ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""The largest relative error of rounding to the dtype."""


def make(rung: Rung, generator: np.random.Generator, shape: tuple[int, int, int]) -> Problem:
    """Random matrices of M x K and K x N, as float16 and again as bfloat16."""
    m, n, k = shape
    tile, threads = _TILE_AND_THREADS[rung.number]
    grid = (blocks(n, tile), blocks(m, tile))
    wide = [
        torch.from_numpy(generator.standard_normal(size).astype(np.float32))
        for size in ((m, k), (k, n))
    ]
    scale = max((float(one.abs().max()) for one in wide if one.numel()), default=1.0)
    launches, outputs = [], []
    for step, dtype in (("", torch.float16), ("bfloat16", torch.bfloat16)):
        a, b = (one.to(dtype) for one in wide)
        c = torch.full((m, n), torch.nan, dtype=dtype)
        shared = _DYNAMIC_SHARED.get(rung.number, 0)
        launches.append(Launch(grid, (threads,), (a, b, c, m, n, k), shared, step))
        sums = 2e-6 * max(1.0, scale**2) * (1 + math.sqrt(k))
        outputs.append(Output(c, (a.double() @ b.double()).numpy(), sums, 1.01 * _ROUNDING[dtype]))
    first, second = outputs
    return Problem(
        [one.numpy() for one in wide],
        first.array,
        first.expected,
        launches if m * n else [],
        depth=k,
        atol=first.atol,
        rtol=first.rtol,
        more=[second],
    )


RUNGS = rungs_of(
    "hgemm",
    make,
    (64, 128, 64),
    [(1, 1, 1), (3, 5, 0), (0, 4, 4), (17, 5, 33), (64, 64, 64), (130, 24, 40), (40, 72, 48)],
)
