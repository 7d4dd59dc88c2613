import random

import pytest
import torch

import labkit.ops.all  # noqa: F401
from tests.ops.differential import COMPUTING, Fuzz, random_tensor
from tests.seeds import seeds

A = torch.ops.aten
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OTHER_LAYOUT = {A.threshold_backward.default, A.leaky_relu_backward.default}


def calls(r, x, g, y):
    """Every activation and its way back, with random settings."""
    yes, small = r.random() < 0.5, r.choice((0.5, 1))
    return [
        (A.relu, x), (A.silu, x), (A.gelu, x),
        (A.threshold, x, r.choice((0, 1.5)), r.choice((-1, 20))),
        (A.threshold_backward, g, x, small), (A.leaky_relu, x, r.choice((0.01, 0.3))),
        (A.leaky_relu_backward, g, x, 0.2, yes),
        (A.gelu_backward, g, x), (A.silu_backward, g, x),
        (A.softplus, x, small, r.choice((20, 2))),
        (A.softplus_backward, g, x, small, r.choice((20, 2))),
        (A.sigmoid_backward, g, y), (A.tanh_backward, g, y),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_random_activations(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(1500):
        dtype = r.choice(COMPUTING + FLOATS * 2)
        x = random_tensor(r, dtype, special=not dtype.is_complex, ties=r.random() < 0.2)
        g = random_tensor(r, dtype, x.shape, special=False)
        y = random_tensor(r, dtype, x.shape, special=False)
        operator, *args = r.choice(calls(r, x, g, y))
        kwargs = {}
        if operator in (A.gelu, A.gelu_backward):
            kwargs["approximate"] = r.choice(("none", "tanh", "erf"))
        fuzz.strides = operator.default not in OTHER_LAYOUT
        fuzz.pointwise = True
        fuzz(operator.default, *args, **kwargs)
    assert fuzz.answered > 700
    assert fuzz.refused > 200
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])
