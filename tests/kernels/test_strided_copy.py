"""Copies between layouts drawn at random: any dimensions, orders, steps and broadcasts."""

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.shelf import LADDERS
from labkit.cuda.shelf.strided_copy import Copy


@pytest.mark.parametrize("rung", LADDERS["strided_copy"], ids=lambda rung: rung.name)
def test_any_two_layouts(rung):
    generator = np.random.default_rng(11)
    for case in range(25):
        dims = int(generator.integers(1, 7))
        copy = Copy(
            tuple(int(one) for one in generator.integers(1, 40 if dims < 3 else 7, dims)),
            tuple(int(one) for one in generator.permutation(dims)),
            tuple(int(one) for one in generator.permutation(dims)),
            step=int(generator.integers(1, 3)),
            broadcast=tuple(d for d in range(dims) if generator.random() < 0.1),
        )
        problem = rung.problem(generator, copy)
        trace = cuda.Trace(requests=1) if case % 5 == 0 else None
        for report in rung.run(problem, trace=trace):
            assert report is None or not report.findings, f"{copy}\n{report}"
        problem.check(f"{copy}")
