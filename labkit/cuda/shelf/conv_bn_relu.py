"""y = relu(batch_norm(conv2d(x, w, bias))), batch norm as in inference."""

import numpy as np
import torch

from labkit.cuda.shelf.conv2d import SHAPES
from labkit.cuda.shelf.conv_sizes import Conv, double, random
from labkit.cuda.shelf.rung import Array, Launch, Problem, Rung, blocks, poisoned, rungs_of

EPSILON = 1e-5


def make(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """Random data; an odd batch goes without gamma and beta, one channel per group without a bias.

    The first two rungs start from a finished convolution.
    """
    channels = conv.w[0]
    x, w = random(generator, conv.x), random(generator, conv.w)
    bias = None if conv.w[1] == 1 else random(generator, (channels,))
    affine = conv.x[0] % 2 == 0
    gamma, beta = (random(generator, (channels,)) if affine else None for _ in range(2))
    mean = random(generator, (channels,))
    variance = generator.uniform(0.5, 2, channels).astype(np.float32)

    raw = conv.apply(double(x), double(w), None)
    shifted = raw if bias is None else raw + double(bias)[:, None, None]
    weights = [None if one is None else double(one) for one in (gamma, beta)]
    expected = torch.nn.functional.batch_norm(
        shifted, double(mean), double(variance), *weights, eps=EPSILON
    ).relu()
    y = poisoned(conv.y)
    finished: Array = raw.float().numpy()
    grid = (blocks(y.size, 256),)
    sizes = (channels, conv.out_size[0] * conv.out_size[1], y.size)
    norm = (gamma, beta, mean, variance, EPSILON)
    if rung.number == 1:
        launches = [
            Launch(grid, (256,), (finished, bias, y, *sizes)),
            Launch(grid, (256,), (y, *norm, *sizes), step="normalise"),
            Launch(grid, (256,), (y, y.size), step="rectify"),
        ]
    elif rung.number == 2:
        launches = [Launch(grid, (256,), (finished, bias, *norm, y, *sizes))]
    else:
        per_group = channels // conv.groups
        tiles = blocks(y.size // channels, 64) * conv.groups * blocks(per_group, 64)
        launches = [Launch((tiles,), (256,), (x, w, bias, *norm, y, conv.sizes()))]
    problem = Problem([x, w], y, expected.numpy(), launches if y.size else [], depth=conv.depth)
    problem.atol = 6 * problem.tolerance()  # gamma and 1 / sqrt(variance) multiply the error
    return problem


RUNGS = rungs_of("conv_bn_relu", make, Conv((1, 16, 10, 34), (64, 16, 3, 3)), SHAPES)
