"""y[...] = x[...] between any two layouts, NCHW and NHWC among them."""

import math
from typing import NamedTuple

import numpy as np

from labkit.cuda.shelf.rung import Array, Problem, Rung, rungs_of
from labkit.cuda.structures import Dim, Layout, fast_first


class Copy(NamedTuple):
    """One copy.

    x_order, y_order  the dimensions from slowest to fastest in memory; empty is row-major
    step              only every so manieth element of the fastest dimension of x is used
    broadcast         dimensions of x that are one element repeated
    """

    shape: tuple[int, ...]
    x_order: tuple[int, ...] = ()
    y_order: tuple[int, ...] = ()
    step: int = 1
    broadcast: tuple[int, ...] = ()


def laid_out(memory: Array, shape: tuple[int, ...], order: tuple[int, ...]) -> Array:
    """A view of flat memory as `shape`, its dimensions in that order in memory."""
    order = order or tuple(range(len(shape)))
    return memory.reshape([shape[d] for d in order]).transpose(np.argsort(order))


def dims_of(x: Array, y: Array) -> list[Dim]:
    """The dimensions, y's fastest first; those that run on into each other, in both, are one.

    Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::coalesce_dimensions
    """
    steps = ([stride // array.itemsize for stride in array.strides] for array in (x, y))
    dims = sorted(map(Dim, y.shape, *steps), key=lambda dim: dim.y_stride)
    merged: list[Dim] = []
    for dim in (dim for dim in dims if dim.size != 1):
        inner = merged[-1] if merged else Dim(0, 1, 1)
        if (dim.x_stride, dim.y_stride) == (
            inner.size * inner.x_stride,
            inner.size * inner.y_stride,
        ):
            merged[-1] = inner._replace(size=inner.size * dim.size)
        else:
            merged.append(dim)
    return merged


def make(rung: Rung, generator: np.random.Generator, case: Copy) -> Problem:
    """Random x in its layout, y poisoned in its own."""
    kept = tuple(1 if d in case.broadcast else size for d, size in enumerate(case.shape))
    order = case.x_order or tuple(range(len(kept)))
    fastest = order[-1]
    spread = tuple(size * (case.step if d == fastest else 1) for d, size in enumerate(kept))
    memory = generator.standard_normal(math.prod(spread)).astype(np.float32)
    x = laid_out(memory, spread, order)
    x = x[tuple(slice(None, None, case.step if d == fastest else 1) for d in range(x.ndim))]
    x = np.broadcast_to(x, case.shape)
    y = laid_out(np.full(math.prod(case.shape), np.nan, np.float32), case.shape, case.y_order)
    dims = dims_of(x, y)
    if rung.takes("turned"):
        dims, turned = fast_first(dims)
        first, second, *others = (dim.size for dim in dims)
        sizes = {"size0": first, "size1": second, "others": math.prod(others)}
        launch = rung.launch((x, y, Layout.of(dims), turned), **sizes)
    else:
        launch = rung.launch((x, y, y.size, Layout.of(dims)), n=y.size)
    launches = [launch] if y.size else []
    return Problem([memory], y, x.astype(np.float64), launches, atol=0.0, rtol=0.0)


NHWC = (0, 2, 3, 1)
RUNGS = rungs_of(
    "strided_copy",
    make,
    Copy((1, 64, 8, 8), y_order=NHWC),
    [
        Copy((1,)),
        Copy((0, 3)),
        Copy((1000,), step=3),
        Copy((2, 3, 5, 7), y_order=NHWC),
        Copy((2, 40, 9, 5), x_order=NHWC),
        Copy((2, 33, 3, 11), x_order=NHWC, y_order=NHWC),
        Copy((3, 4, 5, 6), x_order=(2, 0, 3, 1), y_order=(3, 1, 0, 2), step=2),
        Copy((2, 2, 3, 2, 3, 2, 2, 5), x_order=(7, 1, 5, 3, 4, 2, 6, 0)),
        Copy((6, 35, 4), broadcast=(1,)),
        Copy((70, 36), broadcast=(0, 1)),
        Copy((2, 36, 6, 6), y_order=NHWC),
    ],
)
