"""The three gradients of y = conv2d(x, w, bias)."""

from typing import Any

import numpy as np
import torch

from labkit.cuda.shelf.conv2d import SHAPES
from labkit.cuda.shelf.conv_sizes import Conv, convolutions_of
from labkit.cuda.shelf.element_types import in_type, output
from labkit.cuda.shelf.rung import Array, Problem, Rung, blocks, double, poisoned, random

CHUNKS = 3
"""Parts that the weight gradient's sums are cut into here; a GPU wants enough to fill it."""


def gradients(conv: Conv, x: Any, w: Any, dy: Any) -> list[Array]:
    """PyTorch's gradients for x, w and the bias, in float64."""
    leaves = [double(one) for one in (x, w, np.zeros(conv.w[0], np.float32))]
    for leaf in leaves:
        leaf.requires_grad_()
    y = conv.apply(*leaves)
    found = torch.autograd.grad(y, leaves, double(dy))
    return [one.numpy() for one in found]


def data(conv: Conv, generator: np.random.Generator) -> list[Array]:
    """Random x, w and dy."""
    return [random(generator, shape) for shape in (conv.x, conv.w, conv.y)]


def make_input(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """The gradient for x; a rung that adds gets zeros, where the others overwrite NaN."""
    wide, sizes = data(conv, generator), conv.sizes()
    depth = conv.w[0] // conv.groups * conv.w[2] * conv.w[3]
    launches, outputs = [], []
    for step in conv.steps:
        x, w, dy = (in_type(one, step) for one in wide)
        dx = in_type(rung.output(conv.x), step)
        launches.append(rung.launch((dy, w, dx, sizes), step, **sizes.letters))
        outputs.append(output(dx, gradients(conv, x, w, dy)[0], wide[1:], depth))
    empty = not outputs[0].expected.size
    problem = Problem.of([wide[2], wide[1]], outputs, [] if empty else launches, depth)
    problem.bases["product"] = wide[2].size * conv.depth
    return problem


def make_weight(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """The gradient for w; a rung that sums in parts adds them up by a second kernel."""
    wide, sizes = data(conv, generator), conv.sizes()
    positions = wide[2].size // conv.w[0]
    depth, in_parts = max(1, positions), rung.takes("chunk")
    chunk = 16 * blocks(positions, 16 * CHUNKS)
    chunks = blocks(positions, chunk)
    launches, outputs = [], []
    for step in conv.steps:
        x, w, dy = (in_type(one, step) for one in wide)
        dw = in_type(poisoned(conv.w), step)
        if in_parts:
            partial, size = poisoned((chunks, *conv.w)), wide[1].size
            parts = (x, dy, partial, sizes, chunk)
            launches.append(rung.launch(parts, step, chunks=chunks, **sizes.letters))
            last = f"{step}_sum" if step else "sum"
            launches.append(rung.launch((partial, dw, size, chunks), last, weights=size))
        else:
            launches.append(rung.launch((x, dy, dw, sizes), step, **sizes.letters))
        outputs.append(output(dw, gradients(conv, x, w, dy)[1], [wide[0], wide[2]], depth))
    return Problem.of([wide[0], wide[2]], outputs, launches, depth)


def make_bias(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """The gradient for the bias."""
    wide, sizes = data(conv, generator), conv.sizes()
    depth = max(1, wide[2].size // conv.w[0])
    launches, outputs = [], []
    for step in conv.steps:
        x, w, dy = (in_type(one, step) for one in wide)
        db = in_type(poisoned(conv.w[:1]), step)
        launches.append(rung.launch((dy, db, sizes), step, **sizes.letters))
        outputs.append(output(db, gradients(conv, x, w, dy)[2], wide[2:], depth))
    return Problem.of(wide[2:], outputs, launches, depth)


INPUT = convolutions_of(
    "conv2d_input_gradient", make_input, Conv((1, 64, 8, 32), (16, 64, 3, 3)), SHAPES
)
WEIGHT = convolutions_of(
    "conv2d_weight_gradient", make_weight, Conv((1, 16, 9, 33), (64, 16, 2, 2)), SHAPES
)
BIAS = convolutions_of(
    "conv2d_bias_gradient", make_bias, Conv((2, 1, 8, 32), (32, 1, 1, 1)), SHAPES
)
