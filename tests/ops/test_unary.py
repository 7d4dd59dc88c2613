import random

import numpy as np
import pytest
import torch

import labkit.ops.all  # noqa: F401
from labkit.ops.pointwise import special_functions
from tests.ops.differential import COMPUTING, Fuzz, random_tensor, run_samples
from tests.seeds import seeds

A = torch.ops.aten
NAMES = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos",
         "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
         "sigmoid", "erf", "erfc", "sign", "sgn", "ceil", "floor", "round", "trunc", "frac",
         "reciprocal", "isnan", "isinf", "isposinf", "isneginf", "logical_not"]  # fmt: skip


def test_torchs_samples_of_unary_functions():
    replayed = run_samples(NAMES, NAMES, limit=1)
    assert sum(replayed.seen.values()) > 250
    unexpected = [each for each in replayed.failures if "complex" not in each]
    assert not unexpected, "\n".join(unexpected[:5])


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_random_unary_functions(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(1500):
        name, dtype = r.choice(NAMES), r.choice([*COMPUTING, torch.float32, torch.float64])
        x = random_tensor(r, dtype, special=not dtype.is_complex, ties=r.random() < 0.2)
        x = x / 4 if dtype.is_floating_point and r.random() < 0.5 else x
        if name == "isinf" and not x.numel():
            continue  # a layout of no elements
        fuzz(getattr(A, name).default, x)
    assert fuzz.answered > 1000
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_special_functions_agree_in_double_precision(name):
    x = np.concatenate([np.linspace(-20.3, 20.3, 777), np.geomspace(1e-12, 1e6, 198)])
    ours = getattr(special_functions, name)(x)
    theirs = getattr(torch.special, name)(torch.tensor(x))
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=2e-13, atol=1e-15)
