"""y = relu(batch_norm(conv2d(x, w, bias))), batch norm as in inference."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from labkit.cuda.shelf.conv2d import SHAPES
from labkit.cuda.shelf.conv_sizes import Conv
from labkit.cuda.shelf.rung import Array, Problem, Rung, double, poisoned, random, rungs_of

EPSILON = 1e-5


def make(rung: Rung, generator: np.random.Generator, conv: Conv) -> Problem:
    """Random data; an odd batch goes without gamma and beta, one channel per group without a bias.

    A rung without the weights starts from a finished convolution.
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
    wide = [double(one) for one in (mean, variance, gamma, beta)]
    expected = torch.nn.functional.batch_norm(shifted, *wide, eps=EPSILON).relu()
    y = poisoned(conv.y)
    finished: Array = raw.float().numpy()
    geometry = conv.sizes()
    sizes = (channels, conv.out_size[0] * conv.out_size[1], y.size)
    norm = (gamma, beta, mean, variance, EPSILON)
    steps: list[tuple[str, Sequence[Any]]]
    if rung.takes("w"):
        steps = [("", (x, w, bias, *norm, y, geometry))]
    elif rung.takes("gamma"):
        steps = [("", (finished, bias, *norm, y, *sizes))]
    else:
        steps = [
            ("", (finished, bias, y, *sizes)),
            ("normalise", (y, *norm, *sizes)),
            ("rectify", (y, y.size)),
        ]
    launches = [rung.launch(args, step, **geometry.letters) for step, args in steps]
    problem = Problem([x, w], y, expected.numpy(), launches if y.size else [], depth=conv.depth)
    problem.atol = 6 * problem.tolerance()  # gamma and 1 / sqrt(variance) multiply the error
    return problem


RUNGS = rungs_of("conv_bn_relu", make, Conv((1, 16, 10, 34), (64, 16, 3, 3)), SHAPES)
