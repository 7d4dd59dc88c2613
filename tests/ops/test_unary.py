import random

import numpy as np
import pytest
import torch

import labkit.ops.all  # noqa: F401
from labkit.ops.pointwise import special_functions
from tests.ops.differential import COMPUTING, Fuzz, random_tensor, run_samples

A = torch.ops.aten
NAMES = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos",
         "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
         "sigmoid", "erf", "erfc", "erfinv", "lgamma", "digamma", "sign", "sgn", "signbit", "ceil",
         "floor", "round", "trunc", "frac", "reciprocal", "sinc", "logit", "deg2rad", "rad2deg",
         "isnan", "isinf", "isposinf", "isneginf", "logical_not", "nan_to_num",
         "angle"]  # fmt: skip


def test_torchs_samples_of_unary_functions():
    replayed = run_samples(NAMES, NAMES, dict.fromkeys(["erfinv", "digamma"], 2e-2), limit=1)
    assert sum(replayed.seen.values()) > 250
    unexpected = [each for each in replayed.failures if "complex" not in each]
    assert not unexpected, "\n".join(unexpected[:5])


@pytest.mark.parametrize("seed", range(2))
def test_random_unary_functions(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(1500):
        name, dtype = r.choice(NAMES), r.choice([*COMPUTING, torch.float32, torch.float64])
        x = random_tensor(r, dtype, special=not dtype.is_complex, ties=r.random() < 0.2)
        x = x / 4 if dtype.is_floating_point and r.random() < 0.5 else x
        args = []
        if name == "nan_to_num":
            args = [r.choice((None, 1.0)), r.choice((None, 2.0)), r.choice((None, -3.0))]
        elif name == "logit":
            args = [r.choice((None, 0.1))]
        if name == "isinf" and not x.numel():
            continue  # a layout of no elements
        fuzz(getattr(A, name).default, x, *args)
        if x.is_floating_point():
            fuzz(A.round.decimals, x, decimals=r.choice((0, 1, 2, -1)))
    assert fuzz.answered > 1000
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])


@pytest.mark.parametrize("name", ["erf", "erfc", "erfinv", "lgamma", "digamma"])
def test_special_functions_agree_in_double_precision(name):
    x = np.concatenate([np.linspace(-0.9999, 0.9999, 999), np.geomspace(1e-12, 0.99, 99)])
    if name in ("lgamma", "digamma", "erf", "erfc"):
        x = np.concatenate([x, np.linspace(-20.3, 20.3, 777), np.geomspace(1, 1e6, 99)])
    ours = getattr(special_functions, name)(x)
    theirs = getattr(torch.special, "gammaln" if name == "lgamma" else name)(torch.tensor(x))
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=2e-13, atol=1e-15)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_higher_polygammas_agree(order):
    x = torch.tensor([0.3, 0.9, 1.5, 4.0, 30.0, -0.4, -3.3, -12.25, 1e4, 0.0, -2.0, float("inf")])
    theirs = torch.special.polygamma(order, x.double()).numpy()
    ours = special_functions.polygamma(order, x.double().numpy())
    np.testing.assert_allclose(ours, theirs, rtol=1e-11)


def test_trigamma_is_the_slope_of_digamma():
    x = np.array([0.3, 0.9, 1.5, 4.0, 30.0, -0.4, -3.3])
    theirs = torch.special.polygamma(1, torch.tensor(x)).numpy()
    np.testing.assert_allclose(special_functions.trigamma(x), theirs, rtol=1e-9)
