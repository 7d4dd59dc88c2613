"""Layer norm, forward and backward."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.rung import Output, Problem, Rung, double, poisoned, random, rungs_of

EPS = 1e-5
THREADS = 128
SPLITS = 3


class Case(NamedTuple):
    """x is [rows, cols]; its mean is far from zero when `offset` is."""

    rows: int
    cols: int
    affine: bool = True
    offset: float = 10.0


def _inputs(generator: np.random.Generator, case: Case) -> tuple[Any, Any, Any]:
    x = generator.standard_normal((case.rows, case.cols)) + case.offset
    gamma, beta = random(generator, (2, case.cols)) if case.affine else (None, None)
    return x.astype(np.float32), gamma, beta


def tolerance(offset: float, rstd: torch.Tensor, depth: int) -> float:
    """Rounding x costs its size times rstd in (x - mean) rstd, and times rstd again in dx.

    offset  about the mean of x
    """
    steepest = max(1.0, float(rstd.max())) if rstd.numel() else 1.0
    return 2e-6 * (1 + offset) * (1 + math.sqrt(depth)) * steepest**2


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """Random rows; y, and the mean and 1/std that backward wants."""
    x, gamma, beta = _inputs(generator, case)
    wide = [double(one) for one in (x, gamma, beta)]
    expected, mean, rstd = torch.native_layer_norm(wide[0], (case.cols,), *wide[1:], EPS)
    y, outputs = poisoned(x.shape), [poisoned((case.rows,)), poisoned((case.rows,))]
    args = (x, gamma, beta, y, *outputs, case.rows, case.cols, EPS)
    launch = rung.launch(args, grid=case.rows, block=THREADS, rows=case.rows)
    atol = tolerance(case.offset, rstd, case.cols)
    more = [
        Output(out, truth.numpy().reshape(-1), atol)
        for out, truth in zip(outputs, (mean, rstd), strict=True)
        if case.cols
    ]
    return Problem([x], y, expected.numpy(), [launch], depth=case.cols, atol=atol, more=more)


def make_backward(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """A random gradient; dx, and with gamma and beta theirs."""
    x, gamma, beta = _inputs(generator, case)
    dy = random(generator, x.shape)
    wide = [double(one) for one in (x, gamma, beta)]
    wanted = [one.requires_grad_() for one in wide if one is not None]
    y, mean64, rstd64 = torch.native_layer_norm(wide[0], (case.cols,), *wide[1:], EPS)
    truths = [one.numpy() for one in torch.autograd.grad(y, wanted, double(dy))]
    mean, rstd = (one.detach().numpy().reshape(-1).astype(np.float32) for one in (mean64, rstd64))
    dx = poisoned(x.shape)
    weights = [rung.output((case.cols,)) for _ in truths[1:]]
    dgamma, dbeta = weights or (None, None)
    args = [dy, x, gamma, mean, rstd, dx]
    if rung.takes("dgamma"):
        args += [dgamma, dbeta]
    launches = [rung.launch([*args, case.rows, case.cols], grid=case.rows, block=THREADS)]
    if "weights" in rung.steps and weights:
        partial = poisoned((2, SPLITS, case.cols))
        down = (dy, x, mean, rstd, partial, case.rows, case.cols)
        last = (partial, dgamma, dbeta, SPLITS, case.cols)
        launches += [
            rung.launch(down, "weights", cols=case.cols, splits=SPLITS),
            rung.launch(last, "finish", cols=case.cols),
        ]
    atol = tolerance(case.offset, rstd64.detach(), case.rows + case.cols)
    more = [Output(out, truth, atol) for out, truth in zip(weights, truths[1:], strict=True)]
    return Problem([x, dy], dx, truths[0], launches, depth=case.cols, atol=atol, more=more)


CASES = [
    Case(0, 8), Case(1, 1), Case(3, 0), Case(7, 33, affine=False), Case(2, 1000),
    Case(2, 2308, affine=False), Case(70, 31, offset=100.0), Case(33, 65), Case(5, 132),
]  # fmt: skip
RUNGS = rungs_of("layer_norm", make, Case(64, 128), CASES)
BACKWARD = rungs_of("layer_norm_backward", make_backward, Case(64, 128), CASES)
