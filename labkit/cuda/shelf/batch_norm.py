"""Batch norm: in training, its gradients, and in inference."""

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.element_types import in_type, rounded_once, types_of
from labkit.cuda.shelf.layer_norm import EPS, SPLITS, THREADS, tolerance
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

MOMENTUM = 0.1


class Case(NamedTuple):
    """x is [n, channels, spatial]; its mean is far from zero when `offset` is.

    affine    with gamma and beta
    track     with running statistics
    training  for backward: whether mean and variance are the batch's own
    """

    n: int
    channels: int
    spatial: int
    affine: bool = True
    track: bool = True
    training: bool = True
    offset: float = 10.0

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.n, self.channels, self.spatial


class Inputs(NamedTuple):
    """Random data; None for what the case goes without."""

    x: Any
    gamma: Any
    beta: Any
    running_mean: Any
    running_var: Any


Made = tuple[list[Launch], list[Output]]
"""What is launched for one type, and what must come out."""


def _inputs(generator: np.random.Generator, case: Case) -> Inputs:
    x = (generator.standard_normal(case.sizes) + case.offset).astype(np.float32)
    weights = random(generator, (2, case.channels))
    running = generator.uniform(0.5, 2.0, (2, case.channels)).astype(np.float32)
    return Inputs(
        x, *(weights if case.affine else (None, None)), *(running if case.track else (None, None))
    )


def _in_type(data: Inputs, step: str) -> tuple[Inputs, list[Any]]:
    """The images in the type of that word, running statistics to move; and all in float64."""
    moved = [None if one is None else one.copy() for one in data[3:]]
    typed = Inputs(in_type(data.x, step), *data[1:3], *moved)
    return typed, [double(one) for one in typed]


def _of(inputs: list[Array], depth: int, made: Iterable[Made]) -> Problem:
    """One problem of what was made in each type."""
    launches, outputs = zip(*made, strict=True)
    return Problem.of(inputs, [*chain(*outputs)], [*chain(*launches)], depth)


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """A batch in training: y, its mean and 1/std, and the running statistics moved."""
    data = _inputs(generator, case)
    made = (_trained(rung, case, *_in_type(data, step), step) for step in types_of(rung))
    return _of([data.x], case.n * case.spatial, made)


def _trained(rung: Rung, case: Case, data: Inputs, wide: list[Any], step: str) -> Made:
    expected, mean64, rstd64 = torch.native_batch_norm(
        wide[0], *wide[1:], training=True, momentum=MOMENTUM, eps=EPS
    )
    y = in_type(poisoned(case.sizes), step)
    mean, rstd = poisoned((case.channels,)), poisoned((case.channels,))
    running = (data.running_mean, data.running_var)
    atol = tolerance(case.offset, rstd64, case.n * case.spatial)
    truths = zip((y, mean, rstd, *running), (expected, mean64, rstd64, *wide[3:]), strict=True)
    outputs = [rounded_once(out, one.numpy(), atol) for out, one in truths if out is not None]
    channels, planes = {"C": case.channels}, case.n * case.channels
    if "normalise" in rung.steps:
        partial, factors = poisoned((3, case.channels, SPLITS)), poisoned((2, case.channels))
        moved = (data.gamma, data.beta, *running, mean, rstd, factors)
        return [
            rung.launch((data.x, partial, *case.sizes), block=THREADS, splits=SPLITS, **channels),
            rung.launch(
                (partial, *moved, case.channels, SPLITS, MOMENTUM, EPS), "finish", **channels
            ),
            rung.launch((data.x, factors, y, *case.sizes), "normalise", grid=planes, block=64),
        ], outputs
    args = (*data, y, mean, rstd, *case.sizes, MOMENTUM, EPS)
    return [rung.launch(args, step, grid=case.channels, block=THREADS)], outputs


def make_backward(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """A random gradient; dx, dgamma and dbeta, in training or in eval mode."""
    data = _inputs(generator, case._replace(track=True))
    dy = random(generator, case.sizes)
    made = (
        _backward(rung, case, *_in_type(data, step), in_type(dy, step), step)
        for step in types_of(rung)
    )
    return _of([data.x, dy], case.n * case.spatial, made)


def _backward(rung: Rung, case: Case, data: Inputs, wide: list[Any], dy: Any, step: str) -> Made:
    _, mean64, rstd64 = torch.native_batch_norm(
        wide[0], *wide[1:], training=case.training, momentum=0.0, eps=EPS
    )
    if not case.training:
        mean64, rstd64 = wide[3], (wide[4] + EPS).rsqrt()
    truths = torch.ops.aten.native_batch_norm_backward(
        double(dy), wide[0], wide[1], wide[3], wide[4], mean64, rstd64, case.training, EPS,
        [True, True, True],
    )  # fmt: skip
    mean, rstd = mean64.numpy().astype(np.float32), rstd64.numpy().astype(np.float32)
    dx, weights = in_type(poisoned(case.sizes), step), [poisoned((case.channels,)) for _ in (1, 2)]
    atol = tolerance(case.offset, rstd64, case.n * case.spatial)
    outputs = [
        rounded_once(out, truth.numpy(), atol)
        for out, truth in zip((dx, *weights), truths, strict=True)
    ]
    channels, planes = {"C": case.channels}, case.n * case.channels
    if "finish" in rung.steps:
        partial, factors = poisoned((2, case.channels, SPLITS)), poisoned((3, case.channels))
        summed = (partial, data.gamma, mean, rstd, *weights, factors)
        first = (dy, data.x, mean, rstd, partial, *case.sizes)
        last = (dy, data.x, mean, factors, dx, *case.sizes)
        return [
            rung.launch(first, block=THREADS, splits=SPLITS, **channels),
            rung.launch((*summed, *case.sizes, SPLITS, case.training), "finish", **channels),
            rung.launch(last, "input", grid=planes, block=64),
        ], outputs
    args = (dy, data.x, data.gamma, mean, rstd, dx, *weights, *case.sizes, case.training)
    return [rung.launch(args, step, grid=case.channels, block=THREADS)], outputs


def make_inference(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """A batch normalised by what earlier ones left."""
    data = _inputs(generator, case._replace(track=True))
    made = (_inferred(rung, case, *_in_type(data, step), step) for step in types_of(rung))
    return _of([data.x], 1, made)


def _inferred(rung: Rung, case: Case, data: Inputs, wide: list[Any], step: str) -> Made:
    expected = torch.nn.functional.batch_norm(
        wide[0], wide[3], wide[4], wide[1], wide[2], training=False, eps=EPS
    )
    y = in_type(poisoned(case.sizes), step)
    letters = dict(zip("NCS", case.sizes, strict=True))
    args = (*data, y, *case.sizes, EPS)
    launch = rung.launch(args, step, grid=case.n * case.channels, block=64, **letters)
    return [launch], [rounded_once(y, expected.numpy(), 5e-6 * (1 + case.offset))]


CASES = [
    Case(2, 3, 1), Case(3, 7, 1, affine=False), Case(2, 3, 77, track=False),
    Case(33, 2, 5, offset=100.0), Case(3, 2, 129, training=False), Case(3, 5, 49),
]  # fmt: skip
RUNGS = rungs_of("batch_norm", make, Case(4, 3, 128), CASES)
BACKWARD = rungs_of("batch_norm_backward", make_backward, Case(4, 3, 128), CASES)
INFERENCE = rungs_of(
    "batch_norm_inference", make_inference, Case(1, 3, 1024), [Case(0, 3, 4), *CASES]
)
