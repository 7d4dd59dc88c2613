"""Predictions: judged by what the run measured, with nothing told before it is asked for."""

import base64
import json

import pytest

from labkit import course
from labkit.widgets.saved_state import keep_own_code
from labkit.widgets.static_page import STATE


def nodes():
    return course.predict(
        "How many nodes?",
        {3: "one per tensor, and `x` is a leaf", 4: "one per call: {calls:,} calls"},
    )


def state_of(widget):
    """What travels to the page, as it stands in a saved notebook."""
    return json.dumps(widget.get_state(), default=str, ensure_ascii=False)


def test_a_choice_is_judged_with_its_own_reason():
    guess = nodes()
    assert repr(guess.choose(3).reveal(4, calls=4)) == (
        "not right: 3: one per tensor, and `x` is a leaf"
    )
    assert not guess.right
    assert repr(guess.choose(4).reveal(4, calls=4000)) == "right: 4: one per call: 4,000 calls"
    assert guess.right


def test_before_the_run_the_page_holds_no_explanation_at_all():
    state = state_of(nodes())
    assert "leaf" not in state and base64.b64encode(b"leaf").decode()[:4] not in state
    assert nodes().sealed == ""


def test_without_a_choice_the_answer_is_kept_and_not_told():
    guess = nodes()
    told = guess.reveal(4, calls=4)
    assert repr(told) == "Answer above first"
    for text in (repr(told), told.svg(), state_of(told), repr(guess), guess.svg()):
        assert "per call" not in text and "leaf" not in text
    assert '"actual"' not in state_of(guess) and "per call" not in state_of(guess)
    assert json.loads(base64.b64decode(guess.sealed)) == {
        "actual": "4",
        "reasons": {"3": "one per tensor, and `x` is a leaf", "4": "one per call: 4 calls"},
    }
    guess.choose(4)
    assert repr(told) == "right: 4: one per call: 4 calls"


def test_truth_finds_yes_and_no():
    guess = course.predict("Is it a view?", {"yes": "it shares its bytes", "no": "it was copied"})
    assert repr(guess.choose("yes").reveal(True)) == "right: yes: it shares its bytes"
    assert not guess.reveal(False).asked.right
    both = course.predict("x > 2?", {True: "so it is", False: "it is not"})
    assert repr(both.choose(False).reveal(1 > 2)) == "right: False: it is not"


def test_a_measured_value_has_to_be_named_and_given():
    with pytest.raises(ValueError, match="'calls'"):
        nodes().reveal(4)
    with pytest.raises(ValueError, match="'other'"):
        nodes().reveal(4, calls=1, other=2)
    braces = course.predict("?", {"a": "prints {1: 2} and {}", "b": "raises"})
    assert repr(braces.choose("a").reveal("a")) == "right: a: prints {1: 2} and {}"


def test_predictions_refuse_what_makes_no_sense():
    with pytest.raises(ValueError, match="two or more"):
        course.predict("?", {"yes": "why"})
    with pytest.raises(ValueError, match="two or more"):
        course.predict("?", {"1": "a text", 1: "a number"})
    with pytest.raises(ValueError, match="no explanation for"):
        course.predict("?", {1: "why", 2: " "})
    with pytest.raises(ValueError, match="not among"):
        nodes().choose(5)
    with pytest.raises(ValueError, match="not among"):
        nodes().reveal(5, calls=1)


def test_the_lab_keeps_saved_predictions_as_its_own():
    guess = nodes().choose(3)
    asked = [guess, guess.reveal(4, calls=4)]
    models = {
        str(number): {
            "model_name": "AnyModel",
            "model_module": "anywidget",
            "model_module_version": "~0.11.*",
            "state": widget.get_state(),
        }
        for number, widget in enumerate(asked)
    }
    saved = {"cells": [], "metadata": {"widgets": {STATE: {"state": models}}}}
    assert keep_own_code(saved) == 0
    kept = saved["metadata"]["widgets"][STATE]["state"]
    assert kept["0"]["state"]["choice"] == "3" and kept["1"]["state"]["prediction"]
