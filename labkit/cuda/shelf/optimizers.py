"""Optimizer steps over one tensor: SGD, Adam and AdamW."""

import ctypes
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

from labkit.cuda.shelf.rung import (
    Array,
    Launch,
    Output,
    Problem,
    Rung,
    double,
    poisoned,
    random,
    rungs_of,
)

STEPS = 3
"""Taken one after the other, each with a gradient of its own."""
GEOMETRY = {"grid": 3, "block": 64}


class SgdCase(NamedTuple):
    """n elements, from `offset` on; `first`: there is no momentum buffer yet."""

    n: int
    momentum: float = 0.9
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    maximize: bool = False
    first: bool = False
    offset: int = 0


class AdamCase(NamedTuple):
    """n elements, from `offset` on, after `steps` steps were taken."""

    n: int
    weight_decay: float = 0.0
    decoupled: bool = False
    amsgrad: bool = False
    maximize: bool = False
    steps: int = 10
    offset: int = 0


class Sgd(ctypes.Structure):
    """The options as the kernels take them."""

    _fields_ = (
        *((name, ctypes.c_float) for name in ("lr", "momentum", "dampening", "weight_decay")),
        *((name, ctypes.c_bool) for name in ("nesterov", "maximize", "first")),
    )


class Adam(ctypes.Structure):
    """The options as the kernels take them."""

    _fields_ = (
        *((name, ctypes.c_float) for name in ("lr", "beta1", "beta2", "eps", "weight_decay")),
        *((name, ctypes.c_float) for name in ("correction1", "correction2")),
        *((name, ctypes.c_bool) for name in ("amsgrad", "maximize", "decoupled")),
    )


def _random(generator: np.random.Generator, case: SgdCase | AdamCase) -> Array:
    """float32 numbers; the array starts `case.offset` elements into its memory."""
    return random(generator, case.n + case.offset)[case.offset :]


def make_sgd(rung: Rung, generator: np.random.Generator, case: SgdCase) -> Problem:
    """Some steps with random gradients, and where torch.optim ends up in float64."""
    lr = 0.1
    param, buffer, *grads = (_random(generator, case) for _ in range(2 + STEPS))
    truth = double(param)
    truth_buffers = [double(buffer) if case.momentum and not case.first else None]
    for grad in grads:
        sgd(
            [truth], [double(grad)], truth_buffers, lr=lr, momentum=case.momentum,
            dampening=case.dampening, weight_decay=case.weight_decay, nesterov=case.nesterov,
            maximize=case.maximize, foreach=False,
        )  # fmt: skip
    if case.first:
        buffer[:] = np.nan
    kept, scratch = (buffer if case.momentum else None), poisoned((case.n,))
    launches: list[Launch] = []
    for i, grad in enumerate(grads):
        first = case.first and i == 0
        options = Sgd(lr, *case[1:6], first)
        if "momentum" not in rung.steps:
            launches.append(rung.launch((param, grad, kept, case.n, options), **GEOMETRY))
            continue
        launches.append(rung.launch((param, grad, scratch, case.n, options), **GEOMETRY))
        if kept is not None:
            args: Any = (kept, scratch, case.n, options)
            launches.append(rung.launch(args, "momentum", **GEOMETRY))
        args = (param, kept, scratch, case.n, options)
        launches.append(rung.launch(args, "update", **GEOMETRY))
    more = []
    if truth_buffers[0] is not None:
        more = [Output(kept, truth_buffers[0].numpy(), 5e-6)]
    return Problem(grads, param, truth.numpy(), launches, atol=5e-6, more=more)


def make_adam(rung: Rung, generator: np.random.Generator, case: AdamCase) -> Problem:
    """Some steps with random gradients, and where torch.optim ends up in float64."""
    lr, betas, eps = 0.01, (0.9, 0.999), 1e-8
    param, mean, *grads = (_random(generator, case) for _ in range(2 + STEPS))
    square, highest = _random(generator, case), _random(generator, case)
    square[:], highest[:] = square**2 + 0.1, highest**2 + 0.1
    states = [mean, square, *([highest] if case.amsgrad else [])]
    truth, steps = double(param), torch.tensor(float(case.steps))
    wide = [double(array) for array in states]
    for grad in grads:
        (adamw if case.decoupled else adam)(
            [truth], [double(grad)], [wide[0]], [wide[1]], wide[2:], [steps], lr=lr, beta1=betas[0],
            beta2=betas[1], eps=eps, weight_decay=case.weight_decay, amsgrad=case.amsgrad,
            maximize=case.maximize, foreach=False,
        )  # fmt: skip
    launches = []
    for i, grad in enumerate(grads):
        corrections = (1 - beta ** (case.steps + i + 1) for beta in betas)
        options = Adam(
            lr, *betas, eps, case.weight_decay, *corrections, case.amsgrad, case.maximize,
            case.decoupled,
        )  # fmt: skip
        args = (param, grad, mean, square, highest if case.amsgrad else None, case.n, options)
        launches.append(rung.launch(args, **GEOMETRY))
    more = [Output(out, end.numpy(), 5e-6) for out, end in zip(states, wide, strict=True)]
    return Problem(grads, param, truth.numpy(), launches, atol=5e-6, more=more)


SGD = rungs_of(
    "sgd", make_sgd, SgdCase(4096),
    [
        SgdCase(0), SgdCase(1, momentum=0.0, weight_decay=0.1), SgdCase(1025, first=True),
        SgdCase(777, offset=3, nesterov=True, weight_decay=0.01, maximize=True),
        SgdCase(301, dampening=0.5, weight_decay=0.1, first=True),
    ],
)  # fmt: skip
ADAM = rungs_of(
    "adam", make_adam, AdamCase(4096),
    [
        AdamCase(0), AdamCase(1, steps=0), AdamCase(1025, weight_decay=0.1, amsgrad=True, steps=0),
        AdamCase(777, offset=3, decoupled=True, weight_decay=0.1, maximize=True),
        AdamCase(301, decoupled=True, weight_decay=0.01, amsgrad=True),
    ],
)  # fmt: skip
