import numpy as np
import pytest
import torch

import labkit as lab
from labkit.core import dtype as dtypes
from labkit.core.formats import decode, encode, largest_finite


def every_value():
    """All values of bfloat16 in ascending order, and the midpoints between neighbours."""
    values = decode(np.arange(1 << 16).astype(np.uint16), dtypes.bfloat16)
    values = np.unique(values[np.isfinite(values)]).astype(np.float64)
    return np.concatenate([values, (values[1:] + values[:-1]) / 2]).astype(np.float32)


def test_every_bit_pattern_decodes_as_in_torch():
    codes = np.arange(1 << 16).astype(np.uint16)
    theirs = torch.from_numpy(codes).view(torch.bfloat16).float().numpy()
    assert np.array_equal(decode(codes, dtypes.bfloat16), theirs, equal_nan=True)


def test_values_and_midpoints_round_as_in_torch():
    rng = np.random.default_rng(3)
    numbers = np.concatenate([every_value(), rng.normal(size=50_000).astype(np.float32)])
    numbers = numbers[np.abs(numbers) <= largest_finite(dtypes.bfloat16)]
    theirs = torch.from_numpy(numbers).to(torch.bfloat16).view(torch.uint16).numpy()
    assert np.array_equal(encode(numbers, dtypes.bfloat16), theirs)


def test_what_lies_beyond_the_largest_value_is_infinite():
    assert encode(np.array([np.inf], np.float32), dtypes.bfloat16)[0] == 0x7F80


def test_a_one_byte_float_says_by_name_that_it_is_left_out():
    with pytest.raises(AttributeError, match=r"no attribute 'float8_e4m3fn'.*torch_device"):
        lab.float8_e4m3fn  # noqa: B018


def test_bfloat16_keeps_one_nan_and_the_signs_of_zero():
    values = np.array([np.nan, -0.0, 0.0], np.float32)
    assert encode(values, dtypes.bfloat16).tolist() == [0x7FC0, 0x8000, 0x0000]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_complex32_is_a_pair_of_halves():
    values = np.array([1.5 - 2j, 65504 + 1e-7j], np.complex64)
    back = decode(encode(values, dtypes.complex32), dtypes.complex32)
    expected = torch.from_numpy(values).to(torch.complex32).to(torch.complex64).numpy()
    assert np.array_equal(back, expected)
