"""Layers on cases drawn at random from what PyTorch accepts."""

import random
import zlib

import numpy as np
import pytest
import torch

import labkit.cuda as cuda
from labkit.cuda.shelf import LADDERS
from labkit.cuda.shelf.batch_norm import Case as BatchNorm
from labkit.cuda.shelf.layer_norm import Case as LayerNorm
from labkit.cuda.shelf.pooling import Case as Pooling
from labkit.cuda.shelf.random import Case as Random
from labkit.cuda.shelf.softmax import Case as Softmax
from labkit.cuda.shelf.squeeze_excite import Case as SqueezeExcite
from labkit.cuda.shelf.unscale import Case as Unscale

CASES_PER_RUNG = 6


def some(draw, low, high):
    """Often the lowest."""
    return draw.choice([low, draw.randint(low, high), draw.randint(low, high)])


def flag(draw):
    return draw.random() < 0.5


def softmax(draw):
    cols = draw.choice([some(draw, 1, 40), some(draw, 1, 700), 1025, 2300])
    return Softmax(some(draw, 1, 9), cols, some(draw, 1, 7), flag(draw))


def layer_norm(draw):
    cols = draw.choice([some(draw, 1, 40), some(draw, 1, 700)])
    return LayerNorm(some(draw, 1, 70), cols, flag(draw), draw.choice([0.0, 30.0]))


def batch_norm(draw):
    n, channels, spatial = some(draw, 2, 9), some(draw, 1, 6), some(draw, 1, 300)
    flags = flag(draw), flag(draw), flag(draw)
    return BatchNorm(n, channels, spatial, *flags, draw.choice([0.0, 30.0]))


def pooling(draw, **changed):
    while True:
        kernel, stride = [(some(draw, 1, high), some(draw, 1, high)) for high in (7, 5)]
        padding = draw.randint(0, kernel[0] // 2), draw.randint(0, kernel[1] // 2)
        dilation = draw.choice([1, 1, 2, 3]), draw.choice([1, 1, 2, 5])
        size = some(draw, 1, 40), some(draw, 1, 80)
        case = Pooling(some(draw, 0, 3), size, kernel, stride, padding, dilation, flag(draw))
        case = case._replace(**changed)
        try:
            torch.nn.functional.max_pool2d(torch.zeros(1, *size), *case[2:7])
        except RuntimeError:
            continue  # the output would have no elements
        return case


def avg_pooling(draw):
    divisor = draw.choice([None, None, 3])
    return pooling(draw, dilation=(1, 1), count_include_pad=flag(draw), divisor_override=divisor)


def squeeze_excite(draw):
    sizes = some(draw, 1, 4), some(draw, 1, 40), some(draw, 1, 300), some(draw, 1, 40)
    return SqueezeExcite(*sizes, flag(draw), draw.choice(["relu", "silu"]))


def unscale(draw):
    n = draw.choice([1, 31, 32, 33, draw.randint(1, 3000)])
    bad = draw.choice([None, draw.randrange(n)])
    value = draw.choice([float("inf"), float("-inf"), float("nan")])
    return Unscale(
        n, bad, value, 2.0 ** draw.randint(0, 16), draw.randint(0, 3), draw.randint(0, 3)
    )


def random_numbers(draw):
    """A generator's offset is a multiple of four: what it has drawn is counted in fours."""
    n = draw.choice([0, some(draw, 1, 40), some(draw, 1, 9000)])
    return Random(n, draw.randrange(1 << 64), 4 * draw.choice([0, draw.randrange(1 << 40)]))


DRAWS = {
    "softmax": softmax, "layer_norm": layer_norm, "batch_norm": batch_norm,
    "batch_norm_inference": batch_norm, "max_pool2d": pooling, "avg_pool2d": avg_pooling,
    "squeeze_excite": squeeze_excite, "squeeze_excite_backward": squeeze_excite, "unscale": unscale,
    "random": random_numbers, "dropout": random_numbers,
}  # fmt: skip
RUNGS = [rung for op in LADDERS if op.removesuffix("_backward") in DRAWS for rung in LADDERS[op]]


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_any_legal_case(rung):
    draw = random.Random(zlib.crc32(rung.name.encode()))
    for number in range(CASES_PER_RUNG):
        case, seed = DRAWS[rung.op.removesuffix("_backward")](draw), draw.randrange(1 << 30)
        problem = rung.problem(np.random.default_rng(seed), case)
        watched = number % 3 == 0
        options = {"trace": cuda.Trace(requests=1), "order": seed} if watched else {}
        for report in rung.run(problem, **options):
            assert not watched or not report.findings, f"{case} {report}"
        problem.check(f"{case} seed {seed}")
