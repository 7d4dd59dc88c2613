"""Edges of operators that PyTorch decides one way and NumPy, or a first guess, another."""

import math
import warnings

import pytest
import torch

import labkit as lab
from tests.beside import assert_beside, outcome, refusal

SAME_DTYPE = ["ceil", "floor", "trunc", "round", "neg", "sign", "sgn", "abs", "bitwise_not"]
DTYPES = ["bool", "int32", "int64", "float16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("name", [*SAME_DTYPE, "frac", "exp", "sqrt"])
@pytest.mark.parametrize("dtype", ["int64", "float32", "complex64"])
def test_outputs_of_another_dtype_are_refused_when_torch_refuses_them(name, dtype):
    for out in DTYPES:

        def write(m, out=out):
            x = m.tensor([1, 2], dtype=getattr(m, dtype))
            return getattr(m, name)(x, out=m.empty(2, dtype=getattr(m, out))).tolist()

        ours, theirs = outcome(write, lab), outcome(write, torch)
        assert isinstance(ours, str) == isinstance(theirs, str), (out, ours, theirs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "int64", "uint16"])
def test_floats_that_do_not_fit_become_the_same_whole_numbers(source, target):
    values = [math.inf, -math.inf, math.nan, 1e10, -1e10, 5e9 + 7, 1e20, 70000.0, 300.0, -1.0]
    for count in (1, 20):  # a scalar loop, and a vector loop

        def convert(m, count=count):
            x = m.tensor(values * count, dtype=getattr(m, source))
            return x.to(getattr(m, target)).tolist()

        assert_beside(convert)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_remainder_of_nothing_has_the_sign_of_the_dividend(dtype):
    def remainders(m):
        x = m.tensor([0.0, -0.0, 4.0, -4.0, 5.0, -5.0], dtype=getattr(m, dtype))
        return [x.remainder(y).tolist() for y in (2.0, -2.0, math.inf, -math.inf, 0.0)]

    assert_beside(remainders)


@pytest.mark.parametrize("name", ["log1p", "acos", "asin"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_functions_of_small_and_of_large_complex_numbers(name, dtype):
    parts = [0.0, 1e-20, 1e-8, -1e-8, 0.3, -0.5, 2.0, -3.0, 1e19]
    z = [complex(a, b) for a in parts for b in parts]
    theirs = getattr(torch.tensor(z, dtype=getattr(torch, dtype)), name)()
    ours = getattr(lab.tensor(z, dtype=getattr(lab, dtype)), name)()
    ours = torch.tensor(ours.tolist(), dtype=theirs.dtype)
    tolerance = 1e-5 if dtype == "complex64" else 1e-13
    cancelled = 1e-15 if name == "acos" else 0  # PyTorch takes asin from pi / 2
    for part in ("real", "imag"):
        torch.testing.assert_close(
            getattr(ours, part),
            getattr(theirs, part),
            rtol=tolerance,
            atol=cancelled,
            equal_nan=True,
        )


INDICES = [
    (0, 5), (5,), (slice(None), 5), (..., 9), (None, 0, 5), (0, None, 5), (True, 0, 5), (0, 0, 9),
    ([0, 1], slice(None), 9), ([0, 1], 9), (..., 0, 9), (0, -9), (False, 0, 9),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_an_error_names_the_dimension_that_torch_names(index):
    ours = refusal(lambda m: m.ones(2, 3, 4)[index], lab)
    assert ours == refusal(lambda m: m.ones(2, 3, 4)[index], torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert refusal(lambda m: m.ones(2, 3, 4).__setitem__(index, 1.0), lab) == ours


DIVIDED = {
    "halves by a complex number": lambda m: m.zeros(2, dtype=m.float16) / m.tensor(2 - 3j),
    "a truth value to the power 1": lambda m: m.tensor([True, False]) ** True,
    "a truth value to the power 0": lambda m: m.tensor([True, False]) ** False,
    "a spread of nothing": lambda m: m.tensor([-0j, -1 + 0j]).var(correction=2),
    "infinite parts": lambda m: m.isinf(m.zeros(5, 4, 1, dtype=m.complex64)[:, ::2]).stride(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("asked", DIVIDED.values(), ids=DIVIDED)
def test_ends_of_arithmetic(asked):
    def answer(m):
        found = asked(m)
        return found if isinstance(found, tuple) else str(found.tolist())

    assert_beside(answer)


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_joining_nothing_is_refused_as_torch_refuses_it(name):
    assert_beside(lambda m: getattr(m, name)([]))


def test_more_dimensions_than_numpy_has_are_refused_by_name():
    assert "as many dimensions as this tensor: 65" in refusal(lambda m: m.zeros([1] * 65), lab)


def test_a_gradient_through_out_is_refused():
    assert_beside(lambda m: m.mul(a := m.ones(2).requires_grad_(), a, out=m.empty(2)).tolist())
