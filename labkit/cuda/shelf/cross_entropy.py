"""Cross-entropy of class indices and of class probabilities, forward and backward."""

import ctypes
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.rung import Output, Problem, Rung, blocks, poisoned, rungs_of

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
    """Random scores and targets, in the kernels' types and in torch's, the options, the loss."""

    x: Any
    target: Any
    weight: Any
    options: Loss
    wide_x: Any
    loss: Any


def _data(generator: np.random.Generator, case: Case) -> Data:
    x = 3 * generator.standard_normal((case.n, case.classes, case.inner)).astype(np.float32)
    target = generator.integers(0, case.classes, (case.n, case.inner))
    if case.ignore:
        target[generator.random(target.shape) < 0.2] = IGNORED
        target[:1, :1] = 0  # one at least counts
    weight = generator.uniform(0.5, 2.0, case.classes).astype(np.float32) if case.weighted else None
    total = float(case.classes if weight is None else weight.sum(dtype=np.float64))
    wide_x = torch.from_numpy(x).double().requires_grad_()
    wide_weight = None if weight is None else torch.from_numpy(weight).double()
    loss = torch.nn.functional.cross_entropy(
        wide_x, torch.from_numpy(target), wide_weight, ignore_index=IGNORED,
        reduction=case.reduction, label_smoothing=case.smoothing,
    )  # fmt: skip
    return Data(x, target, weight, Loss(IGNORED, case.smoothing, total), wide_x, loss)


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """The loss, reduced or of each row, and each row's log of the sum, which backward wants."""
    data = _data(generator, case)
    rows = case.n * case.inner
    losses, weights, log_sums = (poisoned((case.n, case.inner)) for _ in range(3))
    out = poisoned((2,))
    args = (
        data.x, data.target, data.weight, losses, weights, log_sums, rows, case.classes, case.inner,
        data.options,
    )  # fmt: skip
    launches = [rung.launch(args, grid=rows, block=THREADS, rows=rows)]
    reduced = case.reduction != "none"
    if reduced:
        reduce = (losses, weights, out, rows, case.reduction == "mean")
        launches.append(rung.launch(reduce, "reduce", block=256))
    expected = data.loss.detach().numpy().reshape((1,) if reduced else losses.shape)
    sums = Output(log_sums, torch.logsumexp(data.wide_x.detach(), 1).numpy(), 5e-6)
    return Problem(
        [data.x], out[:1] if reduced else losses, expected, launches, depth=case.classes,
        atol=2e-6 * (20 + np.sqrt(rows if case.reduction == "sum" else 1)), more=[sums],
    )  # fmt: skip


def make_backward(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """The gradient of the scores, for a random gradient of the loss."""
    data = _data(generator, case)
    rows = case.n * case.inner
    reduced = case.reduction != "none"
    dloss = generator.standard_normal(1 if reduced else rows).astype(np.float32)
    wide = torch.from_numpy(dloss).double().reshape(data.loss.shape)
    (expected,) = torch.autograd.grad(data.loss, data.wide_x, wide)
    log_sums = torch.logsumexp(data.wide_x.detach(), 1).numpy().astype(np.float32)
    weights_total = None
    if case.reduction == "mean":
        counted = data.target[data.target != IGNORED]
        total = counted.size if data.weight is None else data.weight[counted].sum()
        weights_total = np.array([total], np.float32)
    dx = poisoned(data.x.shape)
    args = (
        dloss, data.x, data.target, data.weight, log_sums, weights_total, dx, rows, case.classes,
        case.inner, reduced, data.options,
    )  # fmt: skip
    launch = rung.launch(args, grid=blocks(dx.size, 1024), block=256, rows=rows)
    return Problem([data.x], dx, expected.numpy(), [launch], depth=case.classes, atol=1e-5)


def _soft(generator: np.random.Generator, case: Case) -> tuple[Any, Any, Any, Any, Any]:
    """Scores, target probabilities, class weights, the scores in float64, and the loss."""
    shape = (case.n, case.classes, case.inner)
    x = 3 * generator.standard_normal(shape).astype(np.float32)
    target = generator.dirichlet(np.ones(case.classes), (case.n, case.inner)).transpose(0, 2, 1)
    target = np.ascontiguousarray(target, np.float32)
    weight = generator.uniform(0.5, 2.0, case.classes).astype(np.float32) if case.weighted else None
    wide_x = torch.from_numpy(x).double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        wide_x, torch.from_numpy(target).double(),
        None if weight is None else torch.from_numpy(weight).double(),
        reduction=case.reduction, label_smoothing=case.smoothing,
    )  # fmt: skip
    return x, target, weight, wide_x, loss


def make_soft(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """The loss, reduced or of each row, for random target probabilities."""
    x, target, weight, wide_x, loss = _soft(generator, case)
    rows = case.n * case.inner
    losses, pulls, log_sums = (poisoned((case.n, case.inner)) for _ in range(3))
    args = (
        x, target, weight, losses, pulls, log_sums, rows, case.classes, case.inner, case.smoothing,
    )  # fmt: skip
    launches = [rung.launch(args, grid=rows, block=THREADS, rows=rows)]
    out, output = poisoned((1,)), losses
    if case.reduction != "none":
        output, mean = out, case.reduction == "mean"
        launches.append(rung.launch((losses, out, rows, mean), "reduce", block=256))
    return Problem(
        [x], output, loss.detach().numpy().reshape(output.shape), launches, depth=case.classes,
        atol=4e-6 * (20 + np.sqrt(rows if case.reduction == "sum" else 1)),
        more=[Output(log_sums, torch.logsumexp(wide_x.detach(), 1).numpy(), 5e-6)],
    )  # fmt: skip


def make_soft_backward(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """The gradient of the scores, for a random gradient of the loss."""
    x, target, weight, wide_x, loss = _soft(generator, case)
    rows, reduced = case.n * case.inner, case.reduction != "none"
    dloss = generator.standard_normal(1 if reduced else rows).astype(np.float32)
    wide = torch.from_numpy(dloss).double().reshape(loss.shape)
    (expected,) = torch.autograd.grad(loss, wide_x, wide)
    log_sums = torch.logsumexp(wide_x.detach(), 1).numpy().astype(np.float32)
    aims = (1 - case.smoothing) * target + case.smoothing / case.classes
    pulls = (aims if weight is None else aims * weight[:, None]).sum(1).astype(np.float32)
    share = 1 / rows if case.reduction == "mean" else 1.0
    dx = poisoned(x.shape)
    args = (
        dloss, x, target, weight, log_sums, pulls, dx, rows, case.classes, case.inner, reduced,
        share, case.smoothing,
    )  # fmt: skip
    launch = rung.launch(args, grid=blocks(dx.size, 1024), block=256)
    return Problem([x], dx, expected.numpy(), [launch], depth=case.classes, atol=1e-5)


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
SOFT = rungs_of("soft_cross_entropy", make_soft, Case(64, 128), SOFT_CASES)
SOFT_BACKWARD = rungs_of(
    "soft_cross_entropy_backward", make_soft_backward, Case(64, 128), SOFT_CASES
)
