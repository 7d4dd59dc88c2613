"""Claim boxes, cards and the map: what the reader sees of the course."""

import json

import pytest

from labkit import course
from labkit.course import progress_file
from labkit.course.claims import ClaimFailed, all_claims
from labkit.course.progress_file import Attempt, record_attempt, record_pass
from labkit.widgets.lesson.exercise_card import wrapped
from tests.course.test_progress_file import EVIDENCE

HOLDS = next(i for i, e in all_claims().items() if e["verdict"] == "holds")
WRONG = next(i for i, e in all_claims().items() if e["verdict"] == "wrong")
OPINION = next(i for i, e in all_claims().items() if e["verdict"] == "unverifiable")


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(progress_file, "_in_memory", {})
    monkeypatch.setenv("LABKIT_PROGRESS", "off")


def test_every_claim_has_a_box():
    for claim_id, entry in all_claims().items():
        box = course.claim(claim_id)
        assert entry["verdict"].upper() in repr(box) and claim_id in box._repr_html_()
        assert "0x" not in repr(box).replace("0x0", "") or "0x" in entry["evidence"]


def test_a_box_never_contradicts_the_run():
    assert repr(course.claim(HOLDS, holds=True)) == repr(course.claim(HOLDS, holds=True))
    course.claim(WRONG, holds=False, evidence={"found": 3})
    with pytest.raises(ClaimFailed, match="does not hold"):
        course.claim(HOLDS, holds=False)
    with pytest.raises(ClaimFailed, match="found: 3"):
        course.claim(WRONG, holds=True, evidence={"found": 3})
    with pytest.raises(ClaimFailed, match="a run cannot settle it"):
        course.claim(OPINION, holds=True)


def test_evidence_is_escaped_and_carries_no_addresses():
    box = course.claim(WRONG, evidence={"<b>": object()})
    assert "&lt;b&gt;" in box._repr_html_() and "<b>:" not in box._repr_html_()
    assert "at 0x0>" in repr(box)
    assert "here: seen" in repr(course.claim(WRONG, evidence="seen"))


def test_a_claim_that_is_none_and_a_flag_that_is_none():
    with pytest.raises(KeyError, match="D4-0-a"):
        course.claim("D4-99-z")
    with pytest.raises(TypeError, match="True or False"):
        course.claim(WRONG, holds=0)


def fail(times):
    exercise = course.card("start_here.places").exercise
    from labkit.course.exercises import find

    for number in range(times):
        record_attempt(
            find(exercise), f"code {number}", Attempt(7, [EVIDENCE.rows()] * 2), EVIDENCE
        )


def test_a_card_shows_what_was_earned_and_no_more():
    from labkit.course.exercises.start_here import places

    locked = json.dumps(course.card("start_here.places").get_state(), default=str)
    assert all(hint[:20] not in locked for hint in map(str, places.hints))
    fail(2)
    card = course.card("start_here.places")
    assert repr(card) == "ExerciseCard(start_here.places: tried, 2 failed attempts)"
    left = len(places.hints) - 2
    assert len(card.hints) == 2 and card.hints_left == left and card.solution == ""
    assert card.failures == [EVIDENCE.rows()] * 2 and card.seed == 7
    assert "the value is right" in card.svg()
    fail(len(places.hints) + 1)
    assert course.card("start_here.places").solution


def test_giving_up_opens_the_solution():
    assert course.give_up("start_here.read_the_banner").status == "gave up"
    card = course.card("start_here.places")
    card._answer(card, {"ask": "give up"}, [])
    assert card.status == "gave up" and card.solution


def test_a_card_sends_all_attempts_when_asked(monkeypatch):
    fail(3)
    sent = []
    card = course.card("start_here.places")
    monkeypatch.setattr(card, "send", sent.append)
    card._answer(card, {"ask": "attempts"}, [])
    card._answer(card, {"ask": "something else"}, [])
    assert [a["number"] for a in sent[0]["attempts"]] == [1, 2, 3] and len(sent) == 1


def test_progress_lists_what_is_open():
    record_pass("start_here.places")
    text = repr(course.progress())
    assert "0_start_here" in text
    assert "1 of 2  repair_the_race (not tried), read_the_banner (optional)" in text
    assert "places" not in text
    assert ">1 of 2</td>" in course.progress()._repr_html_()


def test_the_map_is_a_graph():
    assert "GraphView" in repr(course.map())


def test_long_words_are_broken_and_nothing_is_lost():
    text = "a" * 200 + " " + "bc " * 60
    assert all(len(line) <= 76 for line in wrapped(text))
    assert "".join("".join(wrapped(text)).split()) == "".join(text.split())
