import random

import pytest
import torch

import labkit.ops.all  # noqa: F401
from tests.ops.differential import COMPUTING, Fuzz, random_tensor, run_samples
from tests.seeds import seeds

A = torch.ops.aten
NAMES = ["pow", "atan2", "fmod", "remainder", "floor_divide", "div", "maximum", "minimum", "fmax",
         "fmin", "logical_and", "logical_or", "logical_xor", "clamp", "clamp_min", "clamp_max",
         "lerp",
         "addcmul", "addcdiv", "where", "eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul",
         "bitwise_and", "bitwise_or", "bitwise_xor", "allclose"]  # fmt: skip
INFOS = [*NAMES, "div", "max", "min", "isclose", "__rpow__", "__rsub__"]
BINARY = [
    A.pow.Tensor_Tensor, A.atan2.default, A.fmod.Tensor, A.remainder.Tensor, A.maximum.default,
    A.floor_divide.default, A.div.Tensor, A.minimum.default, A.fmax.default, A.fmin.default,
    A.logical_and.default, A.logical_or.default, A.logical_xor.default,
]  # fmt: skip
WITH_NUMBER = [
    A.pow.Tensor_Scalar, A.fmod.Scalar, A.remainder.Scalar, A.floor_divide.Scalar, A.div.Scalar,
    A.eq.Scalar, A.ne.Scalar, A.lt.Scalar, A.ge.Scalar,
    A.add.Scalar, A.sub.Scalar, A.mul.Scalar, A.bitwise_and.Scalar, A.bitwise_or.Scalar,
    A.clamp_min.default, A.clamp_max.default,
]  # fmt: skip


def test_torchs_samples_of_functions_of_several_numbers():
    replayed = run_samples(NAMES, INFOS, limit=2)
    assert sum(replayed.seen.values()) > 500
    assert not replayed.failures, "\n".join(replayed.failures[:5])


def compatible(r, dtype, x):
    """A second operand: often of the same type and shape."""
    other = dtype if r.random() < 0.7 else r.choice(COMPUTING)
    sizes = [r.choice((1, size)) for size in x.shape]
    special = not (other.is_complex or dtype.is_complex)
    return random_tensor(r, other, sizes[r.randrange(len(sizes) + 1) :], special=special)


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_random_functions_of_two_numbers(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(1500):
        dtype = r.choice(COMPUTING)
        x = random_tensor(r, dtype, special=not dtype.is_complex)
        y = compatible(r, dtype, x)
        operator = r.choice(BINARY)
        if operator is A.pow.Tensor_Tensor and (dtype.is_complex or y.is_complex()):
            continue  # powers of 0 and of large complex numbers depend on the library
        fuzz(operator, x, y)
    assert fuzz.answered > 500
    assert fuzz.refused > 200
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_random_functions_with_a_number(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(800):
        dtype = r.choice(COMPUTING)
        x = random_tensor(r, dtype, special=not dtype.is_complex)
        number = r.choice((0, 1, 2, 3, 0.5, 2.5, True))
        fuzz(r.choice(WITH_NUMBER), x, number)
        mode = r.choice((None, "floor", "trunc", "round"))
        y = compatible(r, dtype, x)
        if mode != "trunc" or torch.result_type(x, y).itemsize != 2:
            fuzz(A.div.Tensor_mode, x, y, rounding_mode=mode)
        fuzz(A.pow.Scalar, r.choice((1, 2, 2.5)), x)
        bounds = r.choice((None, 0, 1.5)), r.choice((None, 1, 0.5, 3))
        fuzz(A.clamp.default, x, *bounds)
    assert fuzz.answered > 1200
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_random_functions_of_three_numbers(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(700):
        dtype = r.choice(COMPUTING)
        x = random_tensor(r, dtype, special=not dtype.is_complex)
        y, z = compatible(r, dtype, x), compatible(r, dtype, x)
        condition = random_tensor(r, r.choice((torch.bool, torch.bool, torch.uint8)), x.shape)
        operator, args, kwargs = r.choice([
            (A.clamp.Tensor, (r.choice((None, y)), r.choice((None, z))), {}),
            (A.clamp_min.Tensor, (y,), {}), (A.lerp.Scalar, (y, r.choice((0.2, 0.7))), {}),
            (A.lerp.Tensor, (y, z), {}), (A.addcmul.default, (y, z), {"value": r.choice((1, 2))}),
            (A.addcdiv.default, (y, z), {"value": r.choice((1, 2))}),
        ])  # fmt: skip
        fuzz(operator, x, *args, **kwargs)
        fuzz(A.where.self, condition, x, y)
    assert fuzz.answered > 600
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])
