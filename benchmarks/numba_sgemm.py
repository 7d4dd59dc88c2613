"""Tiled SGEMM for numba's simulator of CUDA, which runs a Python function once per thread.

A module of its own: numba reads NUMBA_ENABLE_CUDASIM when it is imported, and hands a kernel the
simulator only where `cuda` is a name of the kernel's module.
"""

import os

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import numpy as np
from numba import cuda, float32

TILE = 16


@cuda.jit
def _tiled(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for first in range(0, a.shape[1], TILE):
        tile_a[y, x] = a[row, first + x]
        tile_b[y, x] = b[first + y, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    c[row, column] = total


def sgemm(a, b):
    """Return a @ b of square float32 arrays, whose size is a multiple of TILE."""
    c = np.zeros_like(a)
    blocks = len(a) // TILE
    _tiled[(blocks, blocks), (TILE, TILE)](a, b, c)
    return c
