import random

import pytest
import torch

import labkit.ops.reduction.scan
import labkit.ops.reduction.sorting  # noqa: F401
from labkit.ops.reduction.cpp_algorithms import Moves
from tests.ops.differential import COMPUTING, Fuzz, random_tensor, run_samples
from tests.seeds import seeds

A = torch.ops.aten
NAMES = ["cumsum", "cumprod", "sort", "topk", "_unique2", "isin"]


def test_torchs_samples_of_sorting_and_scanning():
    replayed = run_samples(NAMES, [*NAMES, "unique", "argsort"])
    assert sum(replayed.seen.values()) > 350
    # Of long rows of small types PyTorch's vector sort leaves equals in an order of its own.
    found = [each for each in replayed.failures if "(8000,)" not in each]
    assert not found, "\n".join(found[:5])


def arguments(r, x):
    """One random call of each family: the overloads to choose from, arguments, keywords."""
    ndim = max(x.dim(), 1)
    dim = r.randrange(-ndim - 1, ndim + 1) if r.random() < 0.1 else r.randrange(-ndim, ndim)
    yes, no = r.random() < 0.5, r.random() < 0.5
    dtypes = [None, None, torch.float64, torch.float32, torch.bool]
    found = [
        ((A.cumsum.default, A.cumprod.default), (dim,), {"dtype": r.choice(dtypes)}),
        ((A.sort.stable,), (), {"stable": True, "dim": dim, "descending": yes}),
        ((A.topk.default,), (r.randrange(4), dim, yes, True), {}),
    ]
    if x.numel() < 200:
        found.append(((A.sort.default,), (dim, yes), {}))
    if not x.is_complex() and not (x.is_floating_point() and x.isnan().any()):
        found.append(((A._unique2.default,), (True, yes, no), {}))
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


@pytest.mark.parametrize("length", [2, 5, 16, 17, 40, 130])
@pytest.mark.parametrize("distinct", [1, 3, 1000])
def test_every_selection_puts_the_right_value_in_its_place(length, distinct):
    r = random.Random(length * distinct)
    keys = [r.randrange(distinct) for _ in range(length)]
    nth = r.randrange(length)
    wanted = sorted(keys)
    moves = Moves(keys)
    moves.nth_element(nth)
    assert keys[moves.order[nth]] == wanted[nth]
    assert sorted(moves.order) == list(range(length))
    for count in (1, nth + 1, length):
        moves = Moves(keys)
        moves.partial_sort(count)
        assert [keys[i] for i in moves.order[:count]] == wanted[:count]
    moves = Moves(keys)
    moves.sort(length)
    assert [keys[i] for i in moves.order] == wanted
