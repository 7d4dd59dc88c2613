import random

import pytest
import torch

import labkit.ops.all  # noqa: F401
from labkit.ops.aten import aten
from tests.ops.differential import COMPUTING, DTYPES, Fuzz, random_tensor
from tests.seeds import seeds

A = torch.ops.aten
FACTORY_DTYPES = [None, torch.int64, torch.float32, torch.float64, torch.float16, torch.bfloat16,
                  torch.int32, torch.bool, torch.complex64]  # fmt: skip
NUMBERS = [0, 1, 5, -3, 2.5, -0.25, 7.0]


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_random_factories(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(600):
        dtype = r.choice(FACTORY_DTYPES)
        sizes = [r.choice((0, 1, 2, 3)) for _ in range(r.randrange(4))]
        value, ends = r.choice(NUMBERS), [r.choice(NUMBERS) for _ in range(3)]
        x = random_tensor(r, r.choice(COMPUTING), special=False)
        choices = [
            (A.zeros.default, sizes), (A.ones.default, sizes), (A.full.default, sizes, value),
            (A.zeros_like.default, x), (A.ones_like.default, x), (A.full_like.default, x, 1),
            (A.new_zeros.default, x, sizes), (A.new_ones.default, x, sizes),
        ]  # fmt: skip
        if dtype is not torch.bool and dtype is not torch.complex64:
            choices += [
                (A.arange.default, ends[0]), (A.arange.start, *ends[:2]),
                (A.arange.start_step, *ends),
            ]  # fmt: skip
        operator, *args = r.choice(choices)
        fuzz(operator, *args, dtype=dtype)
    assert fuzz.answered > 400
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_random_triangles(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(400):
        x = random_tensor(r, r.choice(COMPUTING))
        fuzz(r.choice([A.tril.default, A.triu.default]), x, r.randrange(-3, 4))
    assert fuzz.answered > 150
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])


def test_empty_has_the_shape_and_strides_asked_for():
    made = aten.empty_strided.default([2, 3], [1, 2], dtype=DTYPES[torch.float16])
    assert (made.sizes, made.strides, made.dtype.name) == ((2, 3), (1, 2), "float16")
    like = aten.empty_like.default(made)
    assert like.strides == (1, 2)
    assert aten.new_empty.default(made, [4]).dtype is made.dtype
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        aten.empty.memory_format([-1])
