"""Cross-entropy of class indices and of class probabilities, forward and backward."""

import ctypes
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.rung import (
    Output,
    Problem,
    Rung,
    blocks,
    double,
    poisoned,
    random,
    rungs_of,
)

THREADS = 128
IGNORED = -100


class Case(NamedTuple):
    """Scores are [n, classes, inner]; about a fifth of the targets is ignored where `ignore` is."""

    n: int
    classes: int
    inner: int = 1
    reduction: Literal["none", "mean", "sum"] = "mean"
    weighted: bool = False
    ignore: bool = False
    smoothing: float = 0.0


class Loss(ctypes.Structure):
    """The options as the kernels take them."""

    _fields_ = (
        ("ignore_index", ctypes.c_longlong),
        ("smoothing", ctypes.c_float),
        ("class_weights_total", ctypes.c_float),
    )


class Data(NamedTuple):
    """Random scores and targets, in the kernels' types; the scores in float64, and the loss."""

    x: Any
    target: Any
    weight: Any
    wide_x: torch.Tensor
    loss: torch.Tensor


def _data(generator: np.random.Generator, case: Case, soft: bool) -> Data:
    """Targets are classes, or probabilities where the kernels are the `soft` ones."""
    x = 3 * random(generator, (case.n, case.classes, case.inner))
    target: Any
    if soft:
        shares = generator.dirichlet(np.ones(case.classes), (case.n, case.inner))
        target = np.ascontiguousarray(shares.transpose(0, 2, 1), np.float32)
    else:
        target = generator.integers(0, case.classes, (case.n, case.inner))
        if case.ignore:
            target[generator.random(target.shape) < 0.2] = IGNORED
            target[:1, :1] = 0  # one at least counts
    weight = generator.uniform(0.5, 2.0, case.classes).astype(np.float32) if case.weighted else None
    wide_x = double(x).requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        wide_x, double(target) if soft else torch.from_numpy(target), double(weight),
        ignore_index=IGNORED, reduction=case.reduction, label_smoothing=case.smoothing,
    )  # fmt: skip
    return Data(x, target, weight, wide_x, loss)


def _options(data: Data, case: Case) -> Loss:
    weight = data.weight
    total = float(case.classes if weight is None else weight.sum(dtype=np.float64))
    return Loss(IGNORED, case.smoothing, total)


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """The loss, reduced or of each row, and each row's log of the sum, which backward wants."""
    soft = rung.op.startswith("soft")
    data = _data(generator, case, soft)
    rows, reduced = case.n * case.inner, case.reduction != "none"
    losses, weights, log_sums = (poisoned((case.n, case.inner)) for _ in range(3))
    out = poisoned((1 if soft else 2,))
    args = (
        data.x, data.target, data.weight, losses, weights, log_sums, rows, case.classes, case.inner,
        case.smoothing if soft else _options(data, case),
    )  # fmt: skip
    launches = [rung.launch(args, grid=rows, block=THREADS, rows=rows)]
    if reduced:
        summed = (losses,) if soft else (losses, weights)
        reduce = (*summed, out, rows, case.reduction == "mean")
        launches.append(rung.launch(reduce, "reduce", block=256))
    output = out[:1] if reduced else losses
    sums = Output(log_sums, torch.logsumexp(data.wide_x.detach(), 1).numpy(), 5e-6)
    atol = (4e-6 if soft else 2e-6) * (20 + np.sqrt(rows if case.reduction == "sum" else 1))
    expected = data.loss.detach().numpy().reshape(output.shape)
    return Problem([data.x], output, expected, launches, depth=case.classes, atol=atol, more=[sums])


def make_backward(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """The gradient of the scores, for a random gradient of the loss."""
    soft = rung.op.startswith("soft")
    data = _data(generator, case, soft)
    rows, reduced = case.n * case.inner, case.reduction != "none"
    dloss = random(generator, 1 if reduced else rows)
    wide = double(dloss).reshape(data.loss.shape)
    (expected,) = torch.autograd.grad(data.loss, data.wide_x, wide)
    log_sums = torch.logsumexp(data.wide_x.detach(), 1).numpy().astype(np.float32)
    mean, dx = case.reduction == "mean", poisoned(data.x.shape)
    kept: Any = None  # from forward, besides: what the mean is over, or each row's pulls
    if soft:
        aims = (1 - case.smoothing) * data.target + case.smoothing / case.classes
        weight = 1.0 if data.weight is None else data.weight[:, None]
        kept = (aims * weight).sum(1).astype(np.float32)
    elif mean:
        counted = data.target[data.target != IGNORED]
        total = counted.size if data.weight is None else data.weight[counted].sum()
        kept = np.array([total], np.float32)
    options = (1 / rows if mean else 1.0, case.smoothing) if soft else (_options(data, case),)
    args = (
        dloss, data.x, data.target, data.weight, log_sums, kept, dx, rows, case.classes, case.inner,
        reduced, *options,
    )  # fmt: skip
    launch = rung.launch(args, grid=blocks(dx.size, 1024), block=256, rows=rows)
    return Problem([data.x], dx, expected.numpy(), [launch], depth=case.classes, atol=1e-5)


CASES = [
    Case(1, 1), Case(5, 10, reduction="sum"), Case(3, 7, 5, "none", weighted=True, ignore=True),
    Case(9, 300, smoothing=0.1), Case(0, 4, reduction="sum"), Case(40, 33, 2, "sum", ignore=True),
    Case(17, 45, 3, weighted=True, ignore=True, smoothing=0.3),
]  # fmt: skip
RUNGS = rungs_of("cross_entropy", make, Case(64, 128), CASES)
BACKWARD = rungs_of("cross_entropy_backward", make_backward, Case(64, 128), CASES)
SOFT_CASES = [case for case in CASES if not case.ignore] + [
    Case(3, 7, 5, "none", weighted=True), Case(17, 45, 3, weighted=True, smoothing=0.3),
]  # fmt: skip
SOFT = rungs_of("soft_cross_entropy", make, Case(64, 128), SOFT_CASES)
SOFT_BACKWARD = rungs_of("soft_cross_entropy_backward", make_backward, Case(64, 128), SOFT_CASES)
