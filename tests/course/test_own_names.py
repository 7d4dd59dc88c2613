"""Answers that make the checker call everything right: nobody is fooled, and nothing stays."""

import random

import pytest
import torch

from labkit.course import compare
from labkit.course.checking import tester
from labkit.course.checking.own_names import OwnNames
from labkit.course.checks import failing_cases
from labkit.course.exercise import Exercise, Rng
from tests.course import toys

adds = Exercise(id="toys.adds", case=toys.tensors, expected=toys.outer_sum, **toys.ABOUT)


def says_nothing_differs(values):
    tester.difference = lambda *args, **kwargs: ""
    return 0


def makes_every_number_zero(values):
    random.Random.randint = lambda rng, low, high: 0
    return 0


def makes_every_number_zero_nearby(values):
    Rng.randint = lambda rng, low, high: 0
    return 0


def says_what_is_right(values):
    Exercise.right = lambda exercise, case: 0
    return 0


def expects_something_else(values):
    object.__setattr__(toys.add_up, "expected", lambda values: 0)
    return 0


def changes_the_code_in_place(values):
    compare.difference.__code__ = (lambda got, expected, tolerance=0.0, at="": "").__code__
    return 0


def makes_all_atoms_equal(values):
    compare._equal_atoms = lambda got, expected, tolerance: True
    return 0


def never_judges(values):
    tester.Tester._verdict = lambda self, case, given, run: None
    return 0


def finds_all_tensors_close(a, b):
    torch.isclose = lambda got, expected, **how: torch.tensor(True)
    return torch.zeros_like(a + b)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (toys.add_up, says_nothing_differs),
        (toys.add_up, makes_every_number_zero),
        (toys.add_up, makes_every_number_zero_nearby),
        (toys.add_up, says_what_is_right),
        (toys.add_up, expects_something_else),
        (toys.add_up, changes_the_code_in_place),
        (toys.add_up, makes_all_atoms_equal),
        (toys.add_up, never_judges),
        (adds, finds_all_tensors_close),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_verdict_does_not_hang_on_what_an_answer_changed(exercise, answer):
    before = tester.difference, random.Random.randint, vars(Rng).copy(), vars(exercise).copy()
    assert failing_cases(exercise, answer, 3, search=False)
    assert before == (
        tester.difference, random.Random.randint, vars(Rng).copy(), vars(exercise).copy(),
    )  # fmt: skip


def test_what_no_verdict_needs_stays_changed():
    """A module's data is its own affair: caches fill as answers run."""
    names = OwnNames(toys.add_up)
    toys.filled = 3
    try:
        names.put_back()
        assert toys.filled == 3
    finally:
        del toys.filled


def test_what_has_changed_since_an_earlier_check_is_what_counts(monkeypatch):
    OwnNames(toys.add_up)
    monkeypatch.setattr(toys, "outer_sum", lambda a, b: 0)
    monkeypatch.setattr(toys, "come", lambda: 1, raising=False)
    had = toys.outer_sum, toys.come
    names = OwnNames(toys.add_up)
    toys.outer_sum = toys.come = None
    names.put_back()
    assert (toys.outer_sum, toys.come) == had
