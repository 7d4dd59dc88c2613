"""Max and average pooling in two dimensions, forward and backward."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from labkit.cuda.shelf.element_types import in_type, rounded_once, types_of
from labkit.cuda.shelf.rung import (
    Array,
    Launch,
    Output,
    Problem,
    Rung,
    blocks,
    double,
    poisoned,
    rungs_of,
)
from labkit.cuda.structures import Axis, Pool

Two = tuple[int, int]
TILE = (8, 32)
SHARED_BYTES = 48 * 1024


class Case(NamedTuple):
    """x is [planes, *size]. dilation is for max, the last two are for avg pooling."""

    planes: int
    size: Two
    kernel: Two
    stride: Two = (1, 1)
    padding: Two = (0, 0)
    dilation: Two = (1, 1)
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None


def _max(x: torch.Tensor, case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    y, index = functional.max_pool2d(
        x[:, None], *case[2:6], ceil_mode=case.ceil_mode, return_indices=True
    )
    return y[:, 0], index[:, 0]


def _avg(x: torch.Tensor, case: Case) -> torch.Tensor:
    return functional.avg_pool2d(
        x[:, None], *case[2:5], case.ceil_mode, case.count_include_pad, case.divisor_override
    )[:, 0]


def _pool(case: Case, out: tuple[int, ...], dilation: Two) -> Pool:
    axes = (
        Axis(case.size[d], out[d], case.kernel[d], case.stride[d], case.padding[d], dilation[d])
        for d in range(2)
    )
    return Pool(case.planes, *axes, case.count_include_pad, case.divisor_override or 0)


def _forward(
    rung: Rung, case: Case, pool: Pool, args: list[Any], sums: bool, step: str = ""
) -> Launch:
    """One that keeps a patch in shared memory does, and `sums` of its rows, where they fit."""
    outputs = case.planes * pool.h.out * pool.w.out
    if not rung.takes("fits"):
        return rung.launch([*args, pool], step, grid=blocks(outputs, 1024), block=256)
    rows, cols = (
        (TILE[d] - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1
        for d, axis in enumerate((pool.h, pool.w))
    )
    patch = rows * (cols + (TILE[1] if sums else 0))
    fits = 4 * patch <= SHARED_BYTES
    tiles = case.planes * blocks(pool.h.out, TILE[0]) * blocks(pool.w.out, TILE[1])
    return rung.launch([*args, pool, fits], grid=tiles, patch=patch if fits else 0)


def make_max(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """Random numbers with many ties, some NaN and some minus infinity among them."""
    x = np.round(2 * generator.standard_normal((case.planes, *case.size))).astype(np.float32)
    kind = generator.integers(0, 50, x.shape)
    x[kind == 0], x[kind == 1] = np.nan, -np.inf
    expected, where = _max(torch.from_numpy(x).double(), case)  # numbers that halves have as well
    pool = _pool(case, expected.shape[1:], case.dilation)
    launches, outputs = [], []
    for step in types_of(rung):
        y, index = in_type(poisoned(expected.shape), step), poisoned(expected.shape, np.int64)
        launches.append(_forward(rung, case, pool, [in_type(x, step), y, index], False, step))
        outputs += [Output(y, expected.numpy(), 0.0, 0.0), Output(index, where.numpy(), 0.0, 0.0)]
    return Problem.of([x], outputs, launches)


def make_max_backward(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """A random gradient, for the maxima of random numbers with many ties.

    Differs  where a dilated window covers nothing but padding, PyTorch's index lies outside the
             window, and its backward on the CPU may write outside dx: here nothing is added.
    """
    x = np.round(2 * generator.standard_normal((case.planes, *case.size)))
    y, index = (one.numpy() for one in _max(torch.from_numpy(x), case))
    dy = generator.standard_normal(y.shape).astype(np.float32)
    planes = np.broadcast_to(np.arange(case.planes)[:, None, None], y.shape)
    covers = np.isfinite(y)

    def expected(dy: Any) -> Array:
        dx = np.zeros((case.planes, case.size[0] * case.size[1]))
        np.add.at(dx, (planes[covers], index[covers]), double(dy).numpy()[covers])
        return dx.reshape(x.shape)

    return _backward(rung, _pool(case, y.shape[1:], case.dilation), [dy, index], expected)


def make_avg(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """Random numbers."""
    x = generator.standard_normal((case.planes, *case.size)).astype(np.float32)
    expected = _avg(torch.from_numpy(x).double(), case)
    y = poisoned(expected.shape)
    pool = _pool(case, expected.shape[1:], (1, 1))
    launch = _forward(rung, case, pool, [x, y], sums=True)
    return Problem([x], y, expected.numpy(), [launch], atol=2e-6)


def make_avg_backward(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """A random gradient."""
    x = torch.zeros((case.planes, *case.size), dtype=torch.float64, requires_grad=True)
    y = _avg(x, case)
    dy = generator.standard_normal(tuple(y.shape)).astype(np.float32)

    def expected(dy: Any) -> Array:
        (dx,) = torch.autograd.grad(y, x, double(dy), retain_graph=True)
        return np.asarray(dx)

    return _backward(rung, _pool(case, y.shape[1:], (1, 1)), [dy], expected)


def _backward(
    rung: Rung, pool: Pool, inputs: list[Array], expected: Callable[[Any], Array]
) -> Problem:
    """One adds to dx, a thread per output; the other writes it, a thread per input."""
    dy, *more = inputs
    launches, outputs = [], []
    for step in types_of(rung):
        typed = in_type(dy, step)
        right = expected(typed)
        dx = in_type(rung.output(right.shape), step)
        grid = blocks(dy.size if rung.adds else right.size, 1024)
        launches.append(rung.launch((typed, *more, dx, pool), step, grid=grid, block=256))
        outputs.append(rounded_once(dx, right, 5e-6))
    problem = Problem.of([dy], outputs, launches)
    problem.bases["gradient"] = float(dy.size)
    return problem


PROBE = Case(2, (18, 66), (3, 3))
CASES = [
    Case(0, (4, 4), (2, 2), (2, 2)), Case(3, (1, 1), (1, 1)),
    Case(2, (9, 70), (3, 2), (2, 3), (1, 1), ceil_mode=True),
    Case(1, (40, 90), (30, 40), (9, 11), (15, 20)),
    Case(3, (13, 17), (4, 5), (3, 2), (2, 2), ceil_mode=True),
]  # fmt: skip
MAX_CASES = [
    *CASES, Case(1, (20, 20), (3, 3), (1, 2), (1, 1), (4, 3)),
    Case(2, (2, 6), (2, 2), (1, 2), (1, 1), (3, 3)),  # some windows cover padding alone
    Case(2, (15, 37), (3, 2), (2, 2), (1, 1), (2, 3), ceil_mode=True),
]  # fmt: skip
AVG_CASES = [
    *CASES, Case(1, (8, 9), (3, 3), (2, 2), (1, 1), divisor_override=7),
    Case(2, (15, 36), (3, 4), (2, 3), (1, 2), ceil_mode=True, count_include_pad=False),
]  # fmt: skip
MAX = rungs_of("max_pool2d", make_max, PROBE, MAX_CASES)
MAX_BACKWARD = rungs_of("max_pool2d_backward", make_max_backward, PROBE, MAX_CASES)
AVG = rungs_of("avg_pool2d", make_avg, PROBE, AVG_CASES)
AVG_BACKWARD = rungs_of("avg_pool2d_backward", make_avg_backward, PROBE, AVG_CASES)
