import math
from collections import defaultdict

import numpy as np
import pytest
import torch

from labkit.course.compare import as_plain, difference, in_words, only_differing

nan = math.nan


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (1, 1), ((1, 2), [1, 2]), (torch.Size([2]), (2,)), (2, 2.0), (nan, nan),
        (math.inf, math.inf),
        ({"a": [1]}, {"a": (1,)}), (torch.float32, torch.float32), (None, None),
        (torch.tensor([1.0, nan]), torch.tensor([1.0, nan])), (np.arange(3), np.arange(3)),
        (torch.zeros(2, 0), torch.zeros(2, 0)), (slice(1, 2), slice(1, 2)),
    ],
)  # fmt: skip
def test_equal(got, expected):
    assert difference(as_plain(got), expected) == ""


@pytest.mark.parametrize(
    ("got", "expected", "says"),
    [
        (True, 1, "expected 1, got True"),
        (1, True, "expected True"),
        (2.0, 2, "expected 2"),
        ("1", 1, "got '1'"),
        (nan, 1.0, "got nan"),
        (1.0, nan, "expected nan"),
        (-math.inf, math.inf, "got -inf"),
        ((1, 2), (1, 2, 3), "length: expected 3, got 2"),
        (((1,), (2, 4)), ((1,), (2, 3)), "[1][1]: expected 3, got 4"),
        ({"a": 1}, {"b": 1}, "keys"),
        ({"a": 1}, {"a": 2}, "['a']: expected 2"),
        (torch.zeros(2), torch.zeros(3), "shape: expected (3,), got (2,)"),
        (torch.zeros(2), torch.zeros(2).double(), "dtype: expected torch.float64"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), "element [1]: expected 3.0, got 2.0"),
        (torch.tensor(nan), torch.tensor(1.0), "expected 1.0, got nan"),
        (0, torch.tensor(0), "expected a tensor"),
        (np.zeros(2), np.zeros(2, dtype=np.float32), "dtype"),
        ([1], np.array([1]), "expected an array"),
    ],
)
def test_different_and_where(got, expected, says):
    assert says in difference(got, expected)


def test_tolerance_is_relative():
    assert difference(1.0005, 1.0, tolerance=1e-3) == ""
    assert difference(1.002, 1.0, tolerance=1e-3)
    assert difference(torch.tensor([1.0005]), torch.tensor([1.0]), tolerance=1e-3) == ""
    assert difference(0.0, 1e-9, tolerance=0.0)


@pytest.mark.parametrize("value", [object(), iter([]), [object()], {"a": len}, lambda: 1])
def test_what_is_not_plain_data_is_refused(value):
    with pytest.raises(TypeError, match="not plain data"):
        as_plain(value)


def test_a_broken_repr_does_not_break_the_evidence():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert "repr raised RuntimeError" in in_words(Broken())
    assert len(in_words(list(range(10_000)))) < 400
    assert "strides=(1, 2)" in in_words(torch.zeros(2, 2).t())


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(2, device="meta"), torch.zeros(2).to_sparse(), torch.zeros(2).to_mkldnn()],
)
def test_a_tensor_without_elements_to_read_is_different_and_has_words(tensor):
    assert "a dense tensor" in difference(tensor, torch.zeros(2))
    assert str(tensor.device) in in_words((tensor, []))


def test_entries_that_agree_are_left_out_of_any_kind_of_dict():
    right = defaultdict(list, a=[1], b=[2])
    assert only_differing({"a": [1], "b": [3]}, right) == ({"b": [3]}, {"b": [2]})
    assert right == {"a": [1], "b": [2]}
    assert only_differing({"a": [1]}, right) == ({"a": [1]}, right)
    assert only_differing([1], right) == ([1], right)
