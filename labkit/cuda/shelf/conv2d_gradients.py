"""The three gradients of y = conv2d(x, w, bias)."""

import numpy as np
import torch

from labkit.cuda.shelf.conv2d import SHAPES
from labkit.cuda.shelf.conv_sizes import Conv
from labkit.cuda.shelf.rung import Array, Problem, Rung, blocks, double, poisoned, random, rungs_of

CHUNKS = 3
"""Parts that the weight gradient's sums are cut into here; a GPU wants enough to fill it."""


def gradients(conv: Conv, x: Array, w: Array, dy: Array) -> list[Array]:
    """PyTorch's gradients for x, w and the bias, in float64."""
    leaves = [double(one) for one in (x, w, np.zeros(conv.w[0], np.float32))]
    for leaf in leaves:
        leaf.requires_grad_()
    y = conv.apply(*leaves)
    found = torch.autograd.grad(y, leaves, double(dy))
    return [one.numpy() for one in found]


def data(conv: Conv, generator: np.random.Generator) -> tuple[Array, Array, Array, list[Array]]:
    """Random x, w and dy, and the three gradients."""
    x, w, dy = (random(generator, shape) for shape in (conv.x, conv.w, conv.y))
    return x, w, dy, gradients(conv, x, w, dy)


def make_input(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """The gradient for x; a rung that adds gets zeros, where the others overwrite NaN."""
    _, w, dy, (expected, _, _) = data(conv, generator)
    dx, sizes = rung.output(conv.x), conv.sizes()
    launch = rung.launch((dy, w, dx, sizes), **sizes.letters)
    return Problem(
        [dy, w], dx, expected, [launch] if dx.size else [],
        depth=conv.w[0] // conv.groups * conv.w[2] * conv.w[3],
        bases={"product": dy.size * conv.depth},
    )  # fmt: skip


def make_weight(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """The gradient for w; a rung that sums in parts adds them up by a second kernel."""
    x, _, dy, (_, expected, _) = data(conv, generator)
    dw, sizes = poisoned(conv.w), conv.sizes()
    positions = dy.size // conv.w[0]
    if not rung.takes("chunk"):
        launches = [rung.launch((x, dy, dw, sizes), **sizes.letters)]
        return Problem([x, dy], dw, expected, launches, depth=max(1, positions))
    chunk = 16 * blocks(positions, 16 * CHUNKS)
    chunks = blocks(positions, chunk)
    partial = poisoned((chunks, *conv.w))
    launches = [
        rung.launch((x, dy, partial, sizes, chunk), chunks=chunks, **sizes.letters),
        rung.launch((partial, dw, dw.size, chunks), "sum", weights=dw.size),
    ]
    return Problem([x, dy], dw, expected, launches, max(1, positions), scratch=[partial])


def make_bias(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """The gradient for the bias."""
    _, _, dy, (_, _, expected) = data(conv, generator)
    db, sizes = poisoned(conv.w[:1]), conv.sizes()
    launch = rung.launch((dy, db, sizes), **sizes.letters)
    return Problem([dy], db, expected, [launch], depth=max(1, dy.size // db.size))


INPUT = rungs_of("conv2d_input_gradient", make_input, Conv((1, 64, 8, 32), (16, 64, 3, 3)), SHAPES)
WEIGHT = rungs_of(
    "conv2d_weight_gradient", make_weight, Conv((1, 16, 9, 33), (64, 16, 2, 2)), SHAPES
)
BIAS = rungs_of("conv2d_bias_gradient", make_bias, Conv((2, 1, 8, 32), (32, 1, 1, 1)), SHAPES)
