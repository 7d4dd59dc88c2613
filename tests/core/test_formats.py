import numpy as np
import pytest
import torch

from labkit.core import dtype as dtypes
from labkit.core.formats import decode, encode, largest_finite

ODD = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
       "float8_e8m0fnu"]  # fmt: skip


def every_value(name):
    """All values of a type in ascending order, and the midpoints between neighbours."""
    of = dtypes.dtype(name)
    codes = np.arange(1 << (8 * of.itemsize)).astype(of.raw)
    values = decode(codes, of)
    values = np.unique(values[np.isfinite(values)]).astype(np.float64)
    return np.concatenate([values, (values[1:] + values[:-1]) / 2]).astype(np.float32)


@pytest.mark.parametrize("name", ODD)
def test_every_bit_pattern_decodes_as_in_torch(name):
    of = dtypes.dtype(name)
    codes = np.arange(1 << (8 * of.itemsize)).astype(of.raw)
    theirs = torch.from_numpy(codes).view(getattr(torch, name)).float().numpy()
    assert np.array_equal(decode(codes, of), theirs, equal_nan=True)


@pytest.mark.parametrize("name", ODD)
def test_values_and_midpoints_round_as_in_torch(name):
    of = dtypes.dtype(name)
    rng = np.random.default_rng(3)
    largest = largest_finite(of)
    numbers = np.concatenate([every_value(name), rng.normal(size=50_000).astype(np.float32)])
    numbers = numbers[np.abs(numbers) <= largest]
    theirs = torch.from_numpy(numbers).to(getattr(torch, name))
    raw = theirs.view(torch.uint8 if of.itemsize == 1 else torch.uint16).numpy()
    assert np.array_equal(encode(numbers, of), raw)


@pytest.mark.parametrize(
    ("name", "code"),
    [("float8_e4m3fn", 0x7E), ("float8_e5m2", 0x7C), ("float8_e4m3fnuz", 0x80),
     ("float8_e5m2fnuz", 0x80), ("bfloat16", 0x7F80)],
)  # fmt: skip
def test_what_lies_beyond_the_largest_value(name, code):
    assert encode(np.array([np.inf], np.float32), dtypes.dtype(name))[0] == code


def test_bfloat16_keeps_one_nan_and_the_signs_of_zero():
    values = np.array([np.nan, -0.0, 0.0], np.float32)
    assert encode(values, dtypes.bfloat16).tolist() == [0x7FC0, 0x8000, 0x0000]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_complex32_is_a_pair_of_halves():
    values = np.array([1.5 - 2j, 65504 + 1e-7j], np.complex64)
    back = decode(encode(values, dtypes.complex32), dtypes.complex32)
    expected = torch.from_numpy(values).to(torch.complex32).to(torch.complex64).numpy()
    assert np.array_equal(back, expected)
