"""half and bfloat16 round to nearest even, bit for bit; tiles and fragments add up."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import labkit.cuda as cuda

TYPES = {torch.float16: "__half", torch.bfloat16: "__nv_bfloat16"}
N = 20_000


@pytest.fixture(scope="module")
def module(emulator):
    names = [f"{k}<{t}>" for k in ("arithmetic", "fragments") for t in TYPES.values()]
    path = Path(__file__).with_name("small_floats.cu")
    return cuda.RawModule(path=path, name_expressions=[*names, "convert", "pairs", "tiles"])


def any_bits(dtype, seed):
    """Every kind of number, subnormal, infinite and NaN ones included."""
    bits = np.random.default_rng(seed).integers(-(2**15), 2**15, N).astype(np.int16)
    return torch.from_numpy(bits).view(dtype)


def same(ours, theirs):
    return (ours == theirs) | (ours.isnan() & theirs.isnan())


@pytest.fixture(scope="module", params=TYPES, ids=str)
def operands(request, module):
    dtype = request.param
    a, b, c = (any_bits(dtype, seed) for seed in (1, 2, 3))
    c[::2] = -(a.double() * b.double()).to(dtype)[::2]  # a fused multiply-add that cancels
    out = torch.empty(N, 5, dtype=dtype)
    module.get_function(f"arithmetic<{TYPES[dtype]}>")(-(-N // 256), 256, (a, b, c, out, N))
    return a, b, c, out


@pytest.mark.parametrize("column", range(4), ids=["add", "sub", "mul", "div"])
def test_arithmetic_equals_torchs(operands, column):
    a, b, _, out = operands
    expected = [a + b, a - b, a * b, a / b][column]
    assert same(out[:, column], expected).all()


def test_fma_rounds_the_exact_value_once(operands):
    a, b, c, out = operands
    checked = 0
    for i in range(0, N, 5):
        values = [float(t[i]) for t in (a, b, c)]
        result = out[i, 4]
        if not np.isfinite([*values, float(result)]).all():
            continue
        exact = Fraction(values[0]) * Fraction(values[1]) + Fraction(values[2])
        error = abs(Fraction(float(result)) - exact)
        for side in (-np.inf, np.inf):
            neighbour = torch.nextafter(result, torch.tensor(side, dtype=result.dtype))
            if torch.isfinite(neighbour):
                assert error <= abs(Fraction(float(neighbour)) - exact), values
        checked += 1
    assert checked > N / 10


def test_conversions_equal_torchs(module):
    bits = np.random.default_rng(0).integers(-(2**31), 2**31, N).astype(np.int32)
    x = torch.from_numpy(bits).view(torch.float32)
    x[::3] = torch.randn(N)[::3] * 1e-5  # where half is subnormal
    half, brain = torch.empty(N, dtype=torch.float16), torch.empty(N, dtype=torch.bfloat16)
    module.get_function("convert")(-(-N // 256), 256, (x, half, brain, N))
    assert same(half, x.half()).all()
    assert same(brain, x.bfloat16()).all()


def test_half2_works_on_both_halves(module):
    a, b = torch.randn(2, 64).half()
    out = torch.empty(64).half()
    module.get_function("pairs")(1, 32, (a, b, out))
    torch.testing.assert_close(out.float(), a.float() * b.float() + 1, rtol=1e-3, atol=1e-3)


def test_a_tile_reduces_its_own_threads(module):
    out = np.zeros(64, np.float32)
    module.get_function("tiles")(1, 64, (out,))
    tile = np.arange(64) // 8
    expected = np.array([sum(range(8 * t, 8 * t + 8)) + 1000 * t for t in tile])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_fragments_multiply(module, dtype):
    a, b = torch.randn(2, 16, 32).to(dtype)
    c = torch.empty(16, 16)
    module.get_function(f"fragments<{TYPES[dtype]}>")(1, 32, (a, b, c))
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-5, atol=1e-5)
