"""y = conv2d(x, w, bias)."""

import numpy as np

from labkit.cuda.shelf.conv_sizes import Conv, convolutions_of
from labkit.cuda.shelf.element_types import in_type, output
from labkit.cuda.shelf.rung import Problem, Rung, double, poisoned, random

MAX_HALO = 11_000
"""Floats: with the weights beside it, what a block may have without asking for more."""


def halo_of(conv: Conv, rows: int, columns: int, limit: int = MAX_HALO) -> tuple[int, int]:
    """Rows and columns of x under so many of y; (0, 0) when they are more than `limit` floats."""
    height, width = (
        (count - 1) * stride + (taps - 1) * dilation + 1
        for count, stride, taps, dilation in zip(
            (rows, columns), conv.stride, conv.w[2:], conv.dilation, strict=True
        )
    )
    return (height, width) if height * width <= limit else (0, 0)


def make(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """Random x, w and bias; a single image under filters of one channel goes without a bias."""
    x, w = random(generator, conv.x), random(generator, conv.w)
    bias = None if conv.x[0] == conv.w[1] == 1 else random(generator, conv.w[:1])
    sizes = conv.sizes()
    halo = dict(zip(("halo_h", "halo_w"), halo_of(conv, 8, 32), strict=True))
    patch = halo.values() if rung.takes("halo_h") else ()
    launches, outputs = [], []
    for step in conv.steps:
        operands = [in_type(one, step) for one in (x, w, bias)]
        y = in_type(poisoned(conv.y), step)
        launches.append(rung.launch((*operands, y, sizes, *patch), step, **sizes.letters, **halo))
        expected = conv.apply(*map(double, operands)).numpy()
        outputs.append(output(y, expected, [x, w], conv.depth))
    empty = not outputs[0].expected.size
    return Problem.of([x, w], outputs, [] if empty else launches, conv.depth)


PROBE = Conv((1, 16, 10, 34), (128, 16, 3, 3))
SHAPES = (
    Conv((1, 1, 1, 1), (1, 1, 1, 1)),
    Conv((0, 3, 5, 5), (4, 3, 3, 3)),
    Conv((2, 3, 13, 35), (5, 3, 3, 3), padding=(1, 1)),
    Conv((2, 6, 11, 9), (9, 2, 3, 2), (2, 3), (2, 0), (1, 2), groups=3),
    Conv((3, 4, 7, 7), (4, 1, 5, 5), padding=(2, 2), groups=4),
    Conv((1, 2, 6, 9), (3, 2, 2, 4), padding=(0, 1), padding_after=(1, 2)),  # padding="same"
    Conv((1, 2, 3, 4), (2, 2, 3, 4), (5, 7), (6, 9), (2, 1)),  # more padding than image
    Conv((1, 3, 400, 300), (10, 3, 2, 2), (90, 70), (0, 0), (150, 40)),  # no halo fits
    Conv((1, 1, 20, 17), (2, 1, 9, 8)),  # more taps than one round holds
    Conv((2, 9, 9, 8), (66, 9, 3, 3), padding=(1, 1)),
)
RUNGS = convolutions_of("conv2d", make, PROBE, SHAPES)
