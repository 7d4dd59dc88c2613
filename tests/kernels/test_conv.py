"""Convolutions of any legal sizes, drawn at random: values against float64, and a clean trace."""

import zlib

import numpy as np
import pytest

import labkit.cuda as cuda
from labkit.cuda.shelf import LADDERS
from labkit.cuda.shelf.conv_sizes import Conv, in_its_types

CASES_PER_RUNG = 8
CONVOLUTIONS = [
    rung for rungs in LADDERS.values() for rung in rungs if isinstance(rung.probe_shape, Conv)
]
each_rung = pytest.mark.parametrize("rung", CONVOLUTIONS, ids=lambda rung: rung.name)


def legal(generator, depthwise):
    """Sizes PyTorch accepts: the padded input is no smaller than the spread-out kernel."""

    def pair(low, high):
        return tuple(int(one) for one in generator.integers(low, high, 2))

    while True:
        groups = int(generator.integers(1, 6))
        per_group = 1 if depthwise else int(generator.integers(1, 7))
        out_channels = groups * int(generator.integers(1, 4))
        batch = int(generator.integers(1, 4))
        conv = Conv(
            (batch, groups * per_group, *pair(1, 20)),
            (out_channels, per_group, *pair(1, 6)),
            pair(1, 4),
            pair(0, 4),
            pair(1, 4),
            groups,
            padding_after=pair(0, 4) if generator.random() < 0.3 else None,
        )
        if min(conv.out_size) >= 1:
            return conv


@each_rung
def test_any_legal_sizes(rung):
    generator = np.random.default_rng(zlib.crc32(rung.name.encode()))
    for case in range(CASES_PER_RUNG):
        conv = in_its_types(rung, legal(generator, rung.op.startswith("depthwise")))
        problem = rung.problem(generator, conv)
        trace = cuda.Trace(requests=1) if case % 4 == 0 else None
        for report in rung.run(problem, trace=trace):
            assert report is None or not report.findings, f"{conv}\n{report}"
        problem.check(f"{conv}")
