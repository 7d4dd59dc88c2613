"""Cards and progress: what the reader sees of the exercises."""

import json

import pytest

from labkit.course import progress_file
from labkit.course.cards import card as card_of
from labkit.course.cards import progress
from labkit.course.exercises import find
from labkit.course.progress_file import Attempt, record_attempt, record_pass
from labkit.widgets.lesson.exercise_card import wrapped
from tests.course.test_progress_file import EVIDENCE


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(progress_file, "_in_memory", {})
    monkeypatch.setenv("LABKIT_PROGRESS", "off")


def fail(times):
    for number in range(times):
        attempt = Attempt(7, [EVIDENCE.rows()] * 2)
        record_attempt(find("start_here.places"), f"code {number}", attempt, EVIDENCE)


def test_a_card_shows_what_was_earned_and_no_more():
    places = find("start_here.places")
    locked = json.dumps(card_of("start_here.places").get_state(), default=str)
    assert all(hint[:20] not in locked for hint in map(str, places.hints))
    fail(2)
    card = card_of("start_here.places")
    assert repr(card) == "ExerciseCard(start_here.places: tried, 2 failed attempts)"
    left = len(places.hints) - 2
    assert len(card.hints) == 2 and card.hints_left == left and card.solution == ""
    rows = [list(row) for row in EVIDENCE.rows().items()]
    assert card.failures == [rows] * 2 and card.seed == 7, "in order, however it is saved"
    assert "the value is right" in card.svg() and "`" not in card.svg()
    fail(len(places.hints) + 1)
    assert card_of("start_here.places").solution


def test_a_card_names_no_function_that_its_library_covers():
    rules = card_of("first_kernel.predict_sectors").rules
    assert rules == ["may not call torch.*", "may not call labkit.*"]


def test_giving_up_opens_the_solution():
    card = card_of("start_here.places")
    card._answer(card, {"ask": "give up"}, [])
    assert card.status == "gave up" and card.solution


def test_a_card_sends_all_attempts_when_asked(monkeypatch):
    fail(3)
    sent = []
    card = card_of("start_here.places")
    monkeypatch.setattr(card, "send", sent.append)
    card._answer(card, {"ask": "attempts"}, [])
    card._answer(card, {"ask": "something else"}, [])
    assert [a["number"] for a in sent[0]["attempts"]] == [1, 2, 3] and len(sent) == 1


def test_progress_lists_what_is_open():
    record_pass("start_here.places")
    text = repr(progress())
    assert "0_start_here" in text
    assert "1 of 2  repair_the_race (not tried), read_the_banner (optional)" in text
    assert " places" not in text
    assert ">1 of 2</td>" in progress()._repr_html_()


def test_long_words_are_broken_and_nothing_is_lost():
    text = "a" * 200 + " " + "bc " * 60
    assert all(len(line) <= 76 for line in wrapped(text))
    assert "".join("".join(wrapped(text)).split()) == "".join(text.split())
