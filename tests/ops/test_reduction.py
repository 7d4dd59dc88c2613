import random

import pytest
import torch

import labkit.ops.reduction.reduction
import labkit.ops.reduction.statistics
from labkit.ops.arrays import new_tensor
from labkit.ops.reduction import reduction
from tests.ops.differential import COMPUTING, Fuzz, random_tensor, run_samples
from tests.seeds import seeds

A = torch.ops.aten
NAMES = ["sum", "mean", "amax", "amin", "max", "min", "argmax", "any",
         "all", "var",
         "linalg_vector_norm"]  # fmt: skip
INFOS = [*NAMES, "linalg.vector_norm", "var_unbiased"]


def test_torchs_samples_of_reductions():
    replayed = run_samples(NAMES, INFOS)
    assert sum(replayed.seen.values()) > 600
    assert not replayed.failures, "\n".join(replayed.failures[:5])


def any_dim(r, x):
    ndim = max(x.dim(), 1)
    return r.randrange(-ndim - 1, ndim + 1) if r.random() < 0.1 else r.randrange(-ndim, ndim)


def any_dims(r, x):
    return r.choice((None, [], [any_dim(r, x)], [any_dim(r, x), any_dim(r, x)]))


def arguments(r, x):
    """One random call of each family: the overloads to choose from, arguments, keywords."""
    dtypes = [None, None, torch.float64, torch.bool, torch.complex64, torch.float32]
    if not (x.is_floating_point() or x.is_complex()):
        dtypes += [torch.int32, torch.int64]  # from NaN and infinity they depend on the processor
    dtype, keepdim = r.choice(dtypes), r.random() < 0.5
    dim, dims = any_dim(r, x), any_dims(r, x)
    order = r.choice((0, 1, 2, 3, -1, 0.5, float("inf"), -float("inf")))
    return [
        ((A.sum.dim_IntList, A.mean.dim), (dims, keepdim), {"dtype": dtype}),
        ((A.amax.default, A.amin.default), (dims or [], keepdim), {}),
        ((A.max.dim, A.min.dim, A.any.dim, A.all.dim), (dim, keepdim), {}),
        ((A.argmax.default,), (r.choice((None, dim)), keepdim), {}),
        ((A.any.dims, A.all.dims), (dims, keepdim), {}),
        ((A.any.default, A.all.default, A.max.default, A.min.default), (), {}),
        ((A.sum.default, A.mean.default), (), {"dtype": dtype}),
        (
            (A.var.correction,),
            (dims,),
            {"correction": r.choice((None, 0, 1, 2, 0.5, 10)), "keepdim": keepdim},
        ),
        ((A.linalg_vector_norm.default,), (order, dims, keepdim), {}),
    ]


@pytest.mark.parametrize("seed", seeds(0, 1))
def test_random_reductions(seed):
    r = random.Random(seed)
    fuzz = Fuzz()
    for _ in range(800):
        x = random_tensor(r, r.choice(COMPUTING), ties=r.random() < 0.3)
        operators, args, kwargs = r.choice(arguments(r, x))
        operator = r.choice(operators)
        fuzz(operator, x, *args, **kwargs)
    assert fuzz.answered > 400
    assert fuzz.refused > 50
    assert not fuzz.failures, "\n".join(fuzz.failures[:5])


def test_a_long_sum_of_halves_is_added_up_in_a_wider_type():
    ones = new_tensor([1.0] * 5000, labkit.float16)
    assert float(reduction.sum_all(ones).raw()) == 5000  # in halves it would stop at 2048
