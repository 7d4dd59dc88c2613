import random

import pytest
import torch

import labkit.ops.reduction.bucketization
import labkit.ops.reduction.scan
import labkit.ops.reduction.sorting  # noqa: F401
from labkit.ops.reduction.cpp_algorithms import Moves
from tests.ops.differential import COMPUTING, Fuzz, random_tensor, run_samples

A = torch.ops.aten
NAMES = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "topk", "kthvalue",
         "_unique2", "unique_consecutive", "searchsorted", "bucketize", "histc", "bincount",
         "mode"]  # fmt: skip


def test_torchs_samples_of_sorting_and_scanning():
    replayed = run_samples(NAMES, [*NAMES, "unique", "msort", "argsort"])
    assert sum(replayed.seen.values()) > 700
    # Of long rows of small types PyTorch's vector sort leaves equals in an order of its own.
    found = [each for each in replayed.failures if "(8000,)" not in each]
    assert not found, "\n".join(found[:5])


def arguments(r, x):
    """One random call of each family: the overloads to choose from, arguments, keywords."""
    ndim = max(x.dim(), 1)
    dim = r.randrange(-ndim - 1, ndim + 1) if r.random() < 0.1 else r.randrange(-ndim, ndim)
    yes, no = r.random() < 0.5, r.random() < 0.5
    dtypes = [None, None, torch.float64, torch.float32, torch.bool]
    edges = random_tensor(r, x.dtype, [*x.shape[:-1], r.choice((0, 1, 4))] if yes else [5])
    edges = edges if edges.is_complex() else edges.sort()[0]
    found = [
        ((A.cumsum.default, A.cumprod.default), (dim,), {"dtype": r.choice(dtypes)}),
        ((A.cummax.default, A.cummin.default, A.logcumsumexp.default), (dim,), {}),
        ((A.sort.stable,), (), {"stable": True, "dim": dim, "descending": yes}),
        ((A.topk.default,), (r.randrange(4), dim, yes, True), {}),
        ((A.kthvalue.default,), (r.randrange(4), dim, yes), {}),
        ((A.unique_consecutive.default,), (yes, no, r.choice((None, dim))), {}),
        ((A.histc.default,), (r.choice((1, 3, 10)), r.choice((0, -2)), r.choice((0, 2))), {}),
    ]
    if x.numel() < 200:
        found.append(((A.sort.default,), (dim, yes), {}))
    if not x.is_complex() and not (x.is_floating_point() and x.isnan().any()):
        found.append(((A.unique_dim.default,), (dim, True, yes, no), {}))
        found.append(((A._unique2.default,), (True, yes, no), {}))
    if r.random() < 0.3:
        side = r.choice((None, None, "left", "right", "middle"))
        yield (A.searchsorted.Tensor,), (edges, x), {"right": no, "side": side, "out_int32": yes}
        return
    operators, args, kwargs = r.choice(found)
    yield operators, (x, *args), kwargs


@pytest.mark.parametrize("seed", range(2))
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


def test_bincount_counts_and_weighs():
    r = random.Random(3)
    fuzz = Fuzz()
    for _ in range(100):
        dtype = r.choice((torch.int64, torch.uint8, torch.int16, torch.float32))
        x = random_tensor(r, dtype, [r.choice((0, 1, 5, 9))])
        x = x.abs() if r.random() < 0.8 else x
        weights = random_tensor(r, r.choice((torch.float32, torch.float64, torch.int64)), x.shape)
        weights = r.choice((None, weights))
        fuzz(A.bincount.default, x, weights, r.choice((0, 1, 10, -1)))
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])


@pytest.mark.parametrize("length", [2, 5, 16, 17, 40, 130])
@pytest.mark.parametrize("distinct", [1, 3, 1000])
def test_every_selection_puts_the_right_value_in_its_place(length, distinct):
    r = random.Random(length * distinct)
    keys = [r.randrange(distinct) for _ in range(length)]
    nth = r.randrange(length)
    wanted = sorted(keys)
    for select in ("nth_element", "quick_select"):
        moves = Moves(keys)
        getattr(moves, select)(nth)
        assert keys[moves.order[nth]] == wanted[nth]
        assert sorted(moves.order) == list(range(length))
    for count in (1, nth + 1, length):
        moves = Moves(keys)
        moves.partial_sort(count)
        assert [keys[i] for i in moves.order[:count]] == wanted[:count]
    moves = Moves(keys)
    moves.sort(length)
    assert [keys[i] for i in moves.order] == wanted
