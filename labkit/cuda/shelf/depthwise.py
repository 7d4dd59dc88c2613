"""Convolutions with a kernel per channel: groups equal to the channels of x; and their gradients.

The bias gradient is that of any convolution.
"""

import numpy as np

from labkit.cuda.shelf.conv2d_gradients import CHUNKS, data
from labkit.cuda.shelf.conv_sizes import Conv, double, random
from labkit.cuda.shelf.rung import Problem, Rung, blocks, poisoned, rungs_of


def make(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """Random x and w; a bias where there is more than one image."""
    x, w = random(generator, conv.x), random(generator, conv.w)
    bias = random(generator, conv.w[:1]) if conv.x[0] > 1 else None
    y = poisoned(conv.y)
    sizes = conv.sizes()
    launch = rung.launch((x, w, bias, y, sizes), **sizes.letters)
    expected = conv.apply(double(x), double(w), None if bias is None else double(bias)).numpy()
    return Problem([x, w], y, expected, [launch] if y.size else [], depth=conv.depth)


def make_input(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """The gradient for x."""
    _, w, dy, (expected, _, _) = data(conv, generator)
    dx, sizes = poisoned(conv.x), conv.sizes()
    launch = rung.launch((dy, w, dx, sizes), **sizes.letters)
    return Problem(
        [dy, w],
        dx,
        expected,
        [launch] if dx.size else [],
        depth=conv.w[0] // conv.groups * conv.depth,
        bases={"product": dy.size * conv.depth},
    )


def make_weight(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """The gradient for w; a rung that sums in parts adds them up by a second kernel."""
    x, _, dy, (_, expected, _) = data(conv, generator)
    dw, sizes = poisoned(conv.w), conv.sizes()
    positions = dy.size // conv.w[0]
    if not rung.takes("chunk"):
        launches = [rung.launch((x, dy, dw, sizes), **sizes.letters)]
        return Problem([x, dy], dw, expected, launches, depth=max(1, positions))
    chunk = blocks(positions, CHUNKS)
    chunks = blocks(positions, chunk)
    partial = poisoned((chunks, *conv.w))
    launches = [
        rung.launch((x, dy, partial, sizes, chunk), chunks=chunks, **sizes.letters),
        rung.launch((partial, dw, dw.size, chunks), "sum", weights=dw.size),
    ]
    return Problem([x, dy], dw, expected, launches, max(1, positions), scratch=[partial])


SHAPES = (
    Conv((1, 1, 1, 1), (1, 1, 1, 1)),
    Conv((0, 3, 5, 5), (3, 1, 3, 3), groups=3),
    Conv((2, 3, 19, 11), (3, 1, 3, 3), padding=(1, 1), groups=3),
    Conv((2, 2, 13, 10), (6, 1, 5, 5), (1, 2), (2, 2), (1, 3), groups=2),  # three kernels each
    Conv((1, 4, 17, 9), (4, 1, 7, 7), padding=(3, 3), groups=4),
    Conv((2, 2, 12, 9), (2, 1, 3, 3), (2, 1), (1, 0), (2, 1), groups=2),
    Conv((1, 2, 9, 8), (4, 1, 2, 4), (3, 2), (1, 2), (1, 1), 2, (0, 1)),
    Conv((2, 3, 10, 33), (3, 1, 3, 3), padding=(1, 1), groups=3),
)
RUNGS = rungs_of("depthwise_conv2d", make, Conv((1, 4, 10, 34), (4, 1, 3, 3), groups=4), SHAPES)
INPUT = rungs_of(
    "depthwise_conv2d_input_gradient",
    make_input,
    Conv((1, 4, 16, 66), (4, 1, 3, 3), groups=4),
    SHAPES,
)
WEIGHT = rungs_of(
    "depthwise_conv2d_weight_gradient",
    make_weight,
    Conv((3, 4, 10, 34), (4, 1, 3, 3), groups=4),
    SHAPES,
)
