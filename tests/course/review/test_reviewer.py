"""The reviewer says which piece of a change fails, and why; labkit is as before afterwards."""

import numpy as np
import pytest
import torch

import labkit as lab
from labkit.course.exercises._xlogy import (
    FORMULAS,
    SCHEMA,
    finished_looks,
    finished_numbers,
    finished_samples,
)
from labkit.course.review import Change, review
from labkit.course.review.planted import DEFECTS, finds

DOCS = "The product of `self` and the logarithm of `other`."


def finished(**pieces):
    whole = {
        "looks": finished_looks, "numbers": finished_numbers, "formulas": FORMULAS,
        "samples": finished_samples, "docs": DOCS,
    }  # fmt: skip
    return Change(SCHEMA, **{**whole, **pieces})


def test_a_finished_change_is_accepted():
    assert review(finished()).accepted, review(finished())


def test_a_piece_that_is_missing_is_not_called_wrong():
    found = review(Change(SCHEMA))
    assert [one.state for one in found.findings] == ["done", *["missing"] * 6]
    assert not found.accepted


def never(*_arguments):
    raise NotImplementedError


def test_a_piece_that_is_a_stub_is_missing():
    assert review(finished(numbers=never))["numbers"].state == "missing"


def writes(x, y):
    result = finished_numbers(x, y)
    x *= 0
    return result


def first_of_two(self, other):
    return self.shape, finished_looks(self, other)[1]


WRONG = {
    "schema": ({"schema": "xlogy.Tensor(Tensor x, Tensor y) -> Tensor"}, "Tensor self"),
    "meta": ({"looks": first_of_two}, "PyTorch says"),
    "numbers": ({"numbers": lambda x, y: np.where(x == 0, 0, x * np.log(y))}, "y = nan"),
    "writes": ({"numbers": writes}, "self was changed"),
    "gradient": ({"formulas": {**FORMULAS, "self": "grad * log(other)"}}, "slope of self"),
    "samples": ({"samples": lambda: finished_samples()[:-1]}, "there are no columns"),
    "docs": ({"docs": "The product with `self`."}, "other"),
}


@pytest.mark.parametrize("piece", WRONG)
def test_a_wrong_piece_is_named_with_the_reason(piece):
    pieces, why = WRONG[piece]
    change = finished()
    for name, value in pieces.items():
        setattr(change, name, value)
    found = review(change)[piece]
    assert found.state == "wrong"
    assert why in found.why


@pytest.mark.parametrize(
    "numbers",
    [
        lambda x, y: finished_numbers(np.where(abs(x) < 1e-12, 0, x), y),
        lambda x, y: np.where((x == 0) & ~np.isnan(y), 0, x * np.log1p(y - 1)),
    ],
)
def test_tiny_numbers_are_looked_at(numbers):
    assert review(finished(numbers=numbers))["numbers"].state == "wrong"


def test_the_operator_is_gone_afterwards():
    with finished().in_labkit() as xlogy:
        assert xlogy(lab.tensor(2.0), lab.tensor(1.0)).item() == 0
    review(finished())
    assert not hasattr(lab.ops.aten.aten, "xlogy")


def test_without_formulas_a_gradient_is_an_error():
    with finished(formulas=None).in_labkit() as xlogy:
        x = lab.tensor(2.0, requires_grad=True)
        with pytest.raises(NotImplementedError, match="xlogy"):
            xlogy(x, x).backward()


def test_the_page_says_each_state_in_words():
    page = review(finished(docs=""))._repr_html_()
    assert 'aria-label="done"' in page
    assert 'aria-label="missing"' in page


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_shows_and_only_where_it_is(name):
    wrong = DEFECTS[name].planted_in(torch.xlogy)
    assert finds(finished_samples(), wrong, torch.xlogy) == "found"
    plain = [(torch.full((2, 2), 2.0), torch.full((2, 2), 3.0))]
    seen = finds(plain, wrong, torch.xlogy)
    assert seen == ("found" if name == "x and y are torch.float32" else "nothing found")
