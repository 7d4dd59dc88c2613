from dataclasses import replace

import pytest
import torch

from labkit.conformance import iterator
from labkit.ops.iterator import tensor_iterator

pytestmark = pytest.mark.skipif(
    not hasattr(torch._C, "_TensorIterator"), reason="this PyTorch does not bind its builder"
)


@pytest.fixture
def few_builds(monkeypatch):
    monkeypatch.setitem(iterator.BUILDS, "small", 4000)


def test_every_build_is_equal(few_builds):
    (comparison,) = iterator.compare(seed=7, size="small")
    assert comparison.passed, str(comparison)


def keep_the_callers_order(it, flags, reorder=tensor_iterator._reorder):
    reorder(it, replace(flags, enforce_linear_iteration=True))


@pytest.mark.parametrize(
    ("step", "broken"),
    [
        ("_reorder", keep_the_callers_order),
        ("_coalesce", lambda it: None),
        ("_check_overlap", lambda operands: None),
        ("_fast_set_up", lambda it, all_same_shape, flags: False),
    ],
)
def test_a_missing_step_is_noticed(few_builds, monkeypatch, step, broken):
    monkeypatch.setattr(tensor_iterator, step, broken)
    (comparison,) = iterator.compare(seed=7, size="small")
    assert comparison.equal < comparison.compared
    assert "PyTorch" in comparison.first_difference
