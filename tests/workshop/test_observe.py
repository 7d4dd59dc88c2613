"""What the teacher's page is told; learners own the files it is told from."""

import json
import os
import time

import pytest

from labkit.course.notebook_form import read_notebook
from labkit.workshop import folders, plan
from labkit.workshop.calls import call
from labkit.workshop.folders import Workshop
from labkit.workshop.room.observe import LARGEST, LONGEST, observe, programme, read_json
from labkit.workshop.roster import admit

HOLDING = "<img src=x onerror=alert(1)>"


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "own_users", lambda: False)
    place = Workshop(tmp_path)
    place.hub.mkdir()
    (place.hub / "settings.json").write_text(json.dumps({"hours": 2}), encoding="utf-8")
    admit(place.roster, ["ana", "ben", "mallory"])
    for name in ("ana", "ben", "mallory"):
        place.of(name).mkdir(parents=True)
    return place


def keep(workshop, name, **exercises):
    file = workshop.of(name) / "progress.json"
    found = {key.replace("__", "."): value for key, value in exercises.items()}
    file.write_text(json.dumps({"version": 1, "exercises": found}), encoding="utf-8")


def by_name(workshop):
    return {one["name"]: one for one in observe(workshop)["learners"]}


def test_stages_are_counted_and_the_failing_case_is_open(workshop):
    case = {"input": "(2, 3)", "expected": "6", "got": "5"}
    failing = {
        "attempts": 2, "passed": False, "hints": [[0, "count again"]],
        "history": [{"seed": 1, "failures": [case]}],
        "stages": [["one view", "done"], ["overlap", "wrong"]],
    }  # fmt: skip
    keep(workshop, "ana", start_here__places=failing)
    keep(workshop, "ben", start_here__places={"attempts": 0, "passed": True})
    (row,) = observe(workshop)["exercises"]
    assert (row["tried"], row["passed"]) == (2, 1)
    assert dict(row["stages"])["overlap"] == 1
    (shown,) = row["failing"]
    assert shown["name"] == "ana"
    assert dict(shown["case"]) == case
    assert shown["hints"] == ["count again"]


def test_who_is_where(workshop):
    note = {"chapter": "0_start_here", "section": "Out of memory", "at": time.time() - 61}
    (workshop.of("ana") / "room.json").write_text(json.dumps(note), encoding="utf-8")
    found = by_name(workshop)
    assert found["ana"]["section"] == "Out of memory"
    assert 60 <= found["ana"]["seconds"] < 300
    assert found["ben"]["seconds"] is None
    here = {stop["chapter"]: stop["here"] for stop in observe(workshop)["plan"]}
    assert here["0_start_here"] == 1
    assert sum(here.values()) == 1


def test_the_page_may_ask_often_for_chapters_are_read_once(workshop, monkeypatch):
    programme.cache_clear()
    read = []
    monkeypatch.setattr(
        plan, "read_notebook", lambda path: read.append(path) or read_notebook(path)
    )
    for _ in range(3):
        rows = observe(workshop)["plan"]
    assert len(read) == len(rows) == 5


def test_three_wrong_answers_are_stuck(workshop):
    keep(workshop, "ana", start_here__places={"attempts": 3, "passed": False})
    keep(workshop, "ben", start_here__places={"attempts": 3, "passed": True})
    found = by_name(workshop)
    assert (found["ana"]["stuck"], found["ben"]["stuck"]) == (["start_here.places"], [])


def test_a_learner_s_file_leads_to_nobody_else_s(workshop, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"exercises": {"start_here.places": {"attempts": 9}}}))
    file = workshop.of("mallory") / "progress.json"
    for plant in (file.symlink_to, file.hardlink_to):
        plant(secret)
        assert read_json(file) == {}
        file.unlink()
    os.mkfifo(file)
    assert read_json(file) == {}  # and it does not wait for a writer
    file.unlink()
    file.mkdir()
    assert read_json(file) == {}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{", "[" * 100_000, '{"exercises": 3}', '{"exercises": {"a": 3}}',
        '{"exercises": {"start_here.places": {"hints": 3, "stages": [3], "history": [3]}}}',
        '{"exercises": {"start_here.places": {"history": [{"failures": [3]}], "attempts": "9"}}}',
        '{"chapter": {"a": 1}, "at": "now", "exercise": ["x"], "section": null}',
        " " * (LARGEST + 1) + "{}",
    ],
)  # fmt: skip
def test_no_file_of_a_learner_stops_the_page(workshop, text):
    for name in ("progress.json", "room.json"):
        (workshop.of("mallory") / name).write_text(text, encoding="utf-8")
    keep(workshop, "ana", start_here__places={"attempts": 1})
    assert by_name(workshop)["ana"]["state"] is None
    assert json.dumps(observe(workshop))


def test_what_is_shown_is_text_and_not_too_long(workshop):
    case = {"input": HOLDING, "got": "x" * 10_000}
    keep(
        workshop, "mallory",
        start_here__places={"attempts": 1, "history": [{"failures": [case]}]},
    )  # fmt: skip
    (row,) = observe(workshop)["exercises"]
    shown = dict(row["failing"][0]["case"])
    assert shown["input"] == HOLDING
    assert len(shown["got"]) == LONGEST


def test_everybody_is_called_to_a_section_of_the_programme(workshop):
    workshop.called.parent.mkdir()
    assert observe(workshop)["called"] is None
    stop = observe(workshop)["plan"][1]
    call(workshop.called, stop["chapter"], stop["sections"][-1])
    seen = observe(workshop)["called"]
    assert (seen["chapter"], seen["section"]) == (stop["chapter"], stop["sections"][-1])
    workshop.called.write_text('{"chapter": 3}')
    assert observe(workshop)["called"] is None
