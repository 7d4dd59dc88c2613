"""Squeeze-excite: each channel scaled by what two small layers make of the means; its backward."""

from typing import Any, NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.rung import Output, Problem, Rung, double, poisoned, random, rungs_of

ACTIVATIONS: dict[str, Any] = {"relu": torch.relu, "silu": torch.nn.functional.silu}


class Case(NamedTuple):
    """x is [n, channels, spatial], with `hidden` units between the layers.

    activation  between them
    """

    n: int
    channels: int
    spatial: int
    hidden: int
    bias: bool = True
    activation: str = "relu"


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """Random images and weights."""
    n, channels, spatial, hidden, *_ = case
    x = random(generator, (n, channels, spatial))
    w1, b1 = _layer(generator, hidden, channels, case.bias)
    w2, b2 = _layer(generator, channels, hidden, case.bias)
    y, planes = poisoned(x.shape), n * channels
    mean, gate = poisoned((n, channels)), poisoned((n, channels))
    middle = poisoned((n, hidden))
    sizes, silu = {"N": n, "C": channels, "R": hidden}, case.activation == "silu"
    if not rung.steps:
        args = (x, w1, b1, w2, b2, y, n, channels, spatial, hidden, silu)
        launches = [rung.launch(args, grid=n, block=128, **sizes)]
    else:
        launches = [rung.launch((x, mean, planes, spatial), grid=planes, block=64)]
        if "gates" in rung.steps:
            gates = (mean, w1, b1, w2, b2, gate, n, channels, hidden, silu)
            launches.append(rung.launch(gates, "gates", grid=n, block=128, **sizes))
        else:
            down = (mean, w1, b1, middle, n, channels, hidden, silu)
            up = (middle, w2, b2, gate, n, channels, hidden)
            launches.append(rung.launch(down, "reduce", **sizes))
            launches.append(rung.launch(up, "expand", **sizes))
        scale = (x, gate, y, planes, spatial)
        launches.append(rung.launch(scale, "scale", grid=planes, block=64))
    image, *_, factors = _steps(ACTIVATIONS[case.activation], *map(double, (x, w1, b1, w2, b2)))
    expected = (image * factors[:, :, None]).detach().numpy()
    return Problem([x], y, expected, launches, atol=1e-5)


def make_backward(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """A random gradient; dx, and the gradients of what the two small layers made."""
    n, channels, spatial, hidden, *_ = case
    x, dy = random(generator, (2, n, channels, spatial))
    w1, b1 = _layer(generator, hidden, channels, case.bias)
    w2, b2 = _layer(generator, channels, hidden, case.bias)
    activate = ACTIVATIONS[case.activation]
    image, first, second, gate = _steps(activate, *map(double, (x, w1, b1, w2, b2)))
    truths = torch.autograd.grad(image * gate[:, :, None], (image, first, second), double(dy))
    kept = gate.detach().numpy().astype(np.float32)
    at = first.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(activate(at).sum(), at)
    slope = slopes.numpy().astype(np.float32)
    dx, planes = poisoned(x.shape), n * channels
    de, shift = poisoned((n, channels)), poisoned((n, channels))
    dr = poisoned((n, hidden))
    gates = (de, slope, w1, w2, dr, shift, n, channels, spatial, hidden)
    launches = [
        rung.launch((dy, x, kept, de, planes, spatial), grid=planes, block=64),
        rung.launch(gates, "gates", grid=n, block=128, R=hidden),
        rung.launch((dy, kept, shift, dx, planes, spatial), "input", grid=planes, block=64),
    ]
    atol = 2e-6 * (1 + spatial**0.5) * (1 + channels**0.5) * (1 + hidden**0.5)
    expected, d_first, d_second = (truth.numpy() for truth in truths)
    more = [Output(de, d_second, atol), Output(dr, d_first, atol)]
    return Problem([x, dy], dx, expected, launches, atol=atol, more=more)


def _layer(generator: np.random.Generator, rows: int, cols: int, bias: bool) -> tuple[Any, Any]:
    return random(generator, (rows, cols)), random(generator, rows) if bias else None


def _steps(activate: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> tuple[Any, Any, Any, Any]:
    """The image, which asks for a gradient, what both layers made, and the gate."""
    linear = torch.nn.functional.linear
    image = x.requires_grad_()
    first = linear(image.mean(2), w1, b1)
    second = linear(activate(first), w2, b2)
    return image, first, second, torch.sigmoid(second)


CASES = [
    Case(0, 3, 4, 2), Case(1, 1, 1, 1), Case(3, 17, 49, 5), Case(2, 40, 6, 33, bias=False),
    Case(2, 9, 130, 4), Case(3, 17, 49, 5, activation="silu"),
]  # fmt: skip
RUNGS = rungs_of("squeeze_excite", make, Case(2, 64, 256, 32), CASES)
BACKWARD = rungs_of("squeeze_excite_backward", make_backward, Case(2, 64, 256, 32), CASES)
