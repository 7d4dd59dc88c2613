"""Softmax and log_softmax along any dimension, forward and backward."""

from typing import NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.rung import Problem, Rung, double, poisoned, random, rungs_of

THREADS = 128
CACHED_FLOATS = 1024
SPLITS = 3


class Case(NamedTuple):
    """x is [outer, cols, inner]; the softmax runs along cols."""

    outer: int
    cols: int
    inner: int = 1
    log: bool = False


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """Random scores, one of them minus infinity."""
    shape = (case.outer, case.cols, case.inner)
    x = 3 * random(generator, shape)
    if case.cols > 1:
        x[:, 0, :1] = -np.inf
    function = torch.log_softmax if case.log else torch.softmax
    expected = function(double(x), 1).numpy()
    y, rows = poisoned(shape), case.outer * case.inner
    sizes = (rows, case.cols, case.inner)
    geometry = {"grid": rows, "block": THREADS, "rows": rows, "splits": SPLITS}
    if "normalise" in rung.steps:
        partial = poisoned((rows, SPLITS, 2))
        launches = [
            rung.launch((x, partial, *sizes), **geometry),
            rung.launch((x, partial, y, *sizes, case.log), "normalise", **geometry),
        ]
    else:
        cached = [min(case.cols, CACHED_FLOATS)] if rung.takes("cached") else []
        args = (x, y, *sizes, case.log, *cached)
        launches = [rung.launch(args, cached=sum(cached), **geometry)]
    return Problem([x], y, expected, launches, depth=case.cols, atol=5e-6)


def make_backward(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """A random gradient for random scores."""
    shape = (case.outer, case.cols, case.inner)
    x = torch.from_numpy(generator.standard_normal(shape)).requires_grad_()
    dy = random(generator, shape)
    result = (torch.log_softmax if case.log else torch.softmax)(x, 1)
    (expected,) = torch.autograd.grad(result, x, double(dy))
    y, dx = result.detach().numpy().astype(np.float32), poisoned(shape)
    rows = case.outer * case.inner
    args = (dy, y, dx, rows, case.cols, case.inner, case.log)
    launch = rung.launch(args, grid=rows, block=THREADS, rows=rows)
    return Problem([dy, y], dx, expected.numpy(), [launch], depth=case.cols, atol=5e-6)


CASES = [
    Case(0, 5), Case(3, 0), Case(1, 1), Case(5, 7), Case(3, 33, log=True), Case(2, 129, 3),
    Case(2, 1500), Case(1, 600, 2, log=True), Case(40, 5, 5),
]  # fmt: skip
RUNGS = rungs_of("softmax", make, Case(64, 128), CASES)
BACKWARD = rungs_of("softmax_backward", make_backward, Case(64, 128), CASES)
