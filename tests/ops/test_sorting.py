import random

import pytest
import torch

import labkit.ops.reduction.membership
import labkit.ops.reduction.scan  # noqa: F401
from tests.ops.differential import COMPUTING, Fuzz, random_tensor, run_samples
from tests.seeds import seeds

A = torch.ops.aten
NAMES = ["cumsum", "isin"]


def test_torchs_samples_of_sorting_and_scanning():
    replayed = run_samples(NAMES, NAMES)
    assert sum(replayed.seen.values()) > 40
    # Long rows of small types hold equals, for which PyTorch's own sort promises no order.
    found = [each for each in replayed.failures if "(8000,)" not in each]
    assert not found, "\n".join(found[:5])


def arguments(r, x):
    """One random call of each family: the overloads to choose from, arguments, keywords."""
    ndim = max(x.dim(), 1)
    dim = r.randrange(-ndim - 1, ndim + 1) if r.random() < 0.1 else r.randrange(-ndim, ndim)
    dtypes = [None, None, torch.float64, torch.float32, torch.bool]
    found = [
        ((A.cumsum.default,), (dim,), {"dtype": r.choice(dtypes)}),
    ]
    operators, args, kwargs = r.choice(found)
    yield operators, (x, *args), kwargs


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_random_sorting_and_scanning(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(900):
        sizes = [r.choice((20, 70, 300))] if r.random() < 0.1 else None
        dtype = r.choice(COMPUTING)  # products of infinite complex numbers depend on the compiler
        x = random_tensor(r, dtype, sizes, special=not dtype.is_complex, ties=r.random() < 0.5)
        for operators, args, kwargs in arguments(r, x):
            fuzz(r.choice(operators), *args, **kwargs)
    assert fuzz.answered > 450
    assert fuzz.refused > 100
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])
