import random

import pytest
import torch

import labkit as lab
from labkit.core import dtype as dtypes

MIXED = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
         "float64", "complex64"]  # fmt: skip


def geometry(r):
    sizes = tuple(r.choice((1, 2, 3)) for _ in range(r.randrange(1, 3)))
    return sizes, tuple(r.choice((0, 1, 2, 3)) for _ in sizes), r.choice((0, 1, 2, 4))


@pytest.mark.parametrize("write", ["copy_", "add_"])
def test_a_write_from_an_overlapping_view_is_refused_exactly_when_torch_refuses(write):
    r = random.Random(7)
    refused = 0
    for _ in range(1500):
        theirs, ours = torch.arange(20.0), lab.arange(20, dtype=lab.float32)
        a, b = geometry(r), geometry(r)
        results = []
        for base in (theirs, ours):
            try:
                getattr(base.as_strided(*a), write)(base.as_strided(*b))
                results.append(None)
            except RuntimeError as error:
                results.append(str(error)[:80])
        assert results[0] == results[1], (a, b)
        refused += bool(results[0]) and "unsupported operation" in results[0]
        assert theirs._version == ours._version
    assert refused > 100


@pytest.mark.parametrize("source", MIXED)
@pytest.mark.parametrize("target", MIXED)
def test_conversion_by_value(source, target):
    numbers = torch.tensor([0, 1, 2, 3, 100, 77]).to(getattr(torch, source))
    ours = lab.tensor([0, 1, 2, 3, 100, 77], dtype=dtypes.dtype(source))
    if source != "complex64" or target == "complex64":
        expected = numbers.to(getattr(torch, target))
        assert ours.to(dtypes.dtype(target)).tolist() == expected.tolist()


def test_fractions_are_cut_and_negative_numbers_wrap_as_in_torch():
    for target in ("int8", "uint8", "int32"):
        for values in ([-1.9, 1.9, 127.5], [-1, 200, 300]):
            theirs = torch.tensor(values).to(getattr(torch, target))
            assert lab.tensor(values).to(dtypes.dtype(target)).tolist() == theirs.tolist()


NUMBERS = [True, -3.7, -0.5, 255.9, 256, 1e6, -129, 128, float("inf"), float("nan"), 2**63, 2**64,
           -(2**63), 65519.9, 65520.0, 3.39e38, 1e39, 1j, 1 + 0j,
           complex(0, float("nan"))]  # fmt: skip
FILLABLE = [*MIXED, "uint16", "uint64", "complex32"]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", FILLABLE)
@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_filling_and_assigning_a_number_accepts_and_refuses_as_torch_does(name, number):
    for way in ("fill_", "setitem", "full"):
        outcomes = []
        for m in (torch, lab):
            x = m.zeros(3, dtype=getattr(m, name))
            try:
                if way == "fill_":
                    x.fill_(number)
                elif way == "setitem":
                    x[0:2] = number
                else:
                    x = m.full((2,), number, dtype=getattr(m, name))
                outcomes.append(str(x[0].item()))
            except Exception as error:
                outcomes.append(type(error).__name__)
        assert outcomes[0] == outcomes[1], way


def test_equal_types_move_without_being_read():
    payload = torch.tensor([0x7FC1, 0xFF81], dtype=torch.uint16)
    ours = lab.from_numpy(payload.numpy().copy()).view(lab.bfloat16)
    assert ours.clone().view(lab.uint16).tolist() == [0x7FC1, 0xFF81]


def test_a_tensor_without_exactly_one_element_is_no_number():
    with pytest.raises(RuntimeError, match="3 elements"):
        lab.zeros(3).item()
