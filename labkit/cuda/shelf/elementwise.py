"""out = a + alpha * b."""

import ctypes

import numpy as np

from labkit.cuda.shelf.rung import Array, Launch, Problem, Rung, blocks, poisoned, rungs_of

MAX_DIMS = 8
GRID_STRIDE_BLOCKS = 4


class Layout(ctypes.Structure):
    """Sizes and strides of out, a and b in elements, innermost dimension first."""

    _fields_ = (
        ("dims", ctypes.c_int),
        ("sizes", ctypes.c_longlong * MAX_DIMS),
        ("strides", ctypes.c_longlong * MAX_DIMS * 3),
    )


def layout_of(out: Array, a: Array, b: Array) -> Layout:
    """The arrays' common layout; all three have one shape, broadcasts as strides of 0."""
    layout = Layout(dims=out.ndim)
    for d, size in enumerate(reversed(out.shape)):
        layout.sizes[d] = size
        for row, array in enumerate((out, a, b)):
            layout.strides[row][d] = array.strides[-1 - d] // array.itemsize
    return layout


def make(rung: Rung, generator: np.random.Generator, shape: tuple[int, ...]) -> Problem:
    """Random arrays; for the strided rung a transposed and a broadcast one."""
    alpha = 0.75
    a = generator.standard_normal(shape).astype(np.float32)
    b = generator.standard_normal(shape).astype(np.float32)
    out = poisoned(shape)
    count = out.size
    if rung.number == 4:
        b = np.broadcast_to(b[..., :1], shape)
    expected = a.astype(np.float64) + alpha * b.astype(np.float64)
    if rung.number == 4:
        args = (a, b, out, alpha, count, layout_of(out, a, b))
        return Problem([a, b], out, expected, [Launch((blocks(count, 256),), (256,), args)])
    per_block = 256 if rung.number == 1 else 1024
    grid = GRID_STRIDE_BLOCKS if rung.number == 3 else blocks(count, per_block)
    return Problem([a, b], out, expected, [Launch((grid,), (256,), (a, b, out, alpha, count))])


RUNGS = rungs_of("elementwise", make, (4, 4096), [(1,), (31,), (1025,), (7, 33), (5, 3, 129)])
