"""No planned wrong answer passes both the check and a run of the machine; the table says which."""

import math

import pytest

import labkit
from labkit.course.your_machine.seats import SEATS
from labkit.course.your_machine.training import caching
from labkit.cuda import current_driver
from tests.course.your_machine.wrong_answers import (
    HEAD,
    TABLE,
    in_the_run,
    rows,
    wrong_answers,
)

IDS = [seat.exercise for seat in SEATS]
FOUND = list(wrong_answers())


def told(name=None):
    """The table's rows: (exercise, why, the run, the check); of one exercise, or all."""
    text = TABLE.read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    every = [line.split("|")[1:-1] for line in text[len(HEAD) :].splitlines()]
    found = [(row[0].strip(" `"), *map(str.strip, row[1:])) for row in every]
    return [row for row in found if name in (None, row[0])]


def test_the_table_has_a_row_for_each_and_nobody_gets_through():
    assert [row[:2] for row in told()] == [(name, why) for name, why, _ in FOUND]
    assert all(bool(run) != bool(check) for _, _, run, check in told())
    assert {name for name, _, run, _ in told() if run} == set(IDS)


@pytest.mark.parametrize("name", IDS)
def test_the_run_takes_a_wrong_answer_out(emulator, name):
    """The first that the table says it catches."""
    found = [make for exercise, _, make in FOUND if exercise == name]
    make, kind = next((make, row[2]) for make, row in zip(found, told(name), strict=True) if row[2])
    assert in_the_run(name, make()) == kind


@pytest.mark.parametrize("held", [math.nan, 1.0])
def test_a_kernel_without_a_guard_is_seen_whatever_lies_behind_its_array(emulator, held):
    name = "memory_layout.reorder_kernel"
    unguarded = next(
        make for _, why, make in wrong_answers([name]) if why == "only multiples of 32"
    )
    with caching():
        filled = [labkit.full((500_000,), held, device="cuda") for _ in range(12)]
        current_driver().synchronize()
        del filled
    assert in_the_run(name, unguarded()) == "differs"


@pytest.mark.full
@pytest.mark.parametrize("name", IDS)
def test_each_is_caught_as_the_table_says(emulator, name):
    for found, expected in zip(rows(wrong_answers([name])), told(name), strict=True):
        assert found == expected
