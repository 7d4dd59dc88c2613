"""out = a + alpha * b."""

import ctypes

import numpy as np

from labkit.cuda.shelf.rung import Array, Problem, Rung, poisoned, random, rungs_of

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
    a, b = random(generator, shape), random(generator, shape)
    out = poisoned(shape)
    count = out.size
    layout = []
    if rung.takes("layout"):
        b = np.broadcast_to(b[..., :1], shape)
        layout = [layout_of(out, a, b)]
    expected = a.astype(np.float64) + alpha * b.astype(np.float64)
    launch = rung.launch((a, b, out, alpha, count, *layout), grid=GRID_STRIDE_BLOCKS, n=count)
    return Problem([a, b], out, expected, [launch])


RUNGS = rungs_of("elementwise", make, (4, 4096), [(1,), (31,), (1025,), (7, 33), (5, 3, 129)])
