"""The workshop plan: what it names is in the chapters, and their own minutes fit into the hours."""

import pytest

from labkit import cli
from labkit.course.chapters.chapter import parts_of, reading_minutes
from labkit.course.notebook_form import ROOT, read_notebook
from labkit.workshop import plan
from labkit.workshop.sections import sections_of

HOURS = list(plan.workshops()["programmes"])


@pytest.mark.parametrize("hours", HOURS)
def test_the_stops_and_the_breaks_are_the_hours(hours):
    breaks = plan.workshops()["programmes"][hours]["breaks"]
    assert sum(stop.minutes for stop in plan.stops(hours)) + breaks == 60 * hours


@pytest.mark.parametrize("hours", HOURS)
def test_no_stop_is_given_less_than_a_reader_needs(hours):
    short = [(s.chapter, s.minutes, s.needed) for s in plan.stops(hours) if s.minutes < s.needed]
    assert short == []


@pytest.mark.parametrize("hours", HOURS)
def test_the_wrong_answer_is_another_one_than_the_right_one(hours):
    assert all(stop.lesson.right != stop.lesson.expect for stop in plan.stops(hours))


@pytest.mark.parametrize("hours", HOURS)
def test_what_is_left_out_when_late_is_not_where_the_question_is_asked(hours):
    asked_there = [
        stop.chapter
        for stop in plan.stops(hours)
        for section in stop.done
        if section is stop.lesson.late and stop.lesson.question in section.questions
    ]
    assert asked_there == []


def test_a_section_s_minutes_add_up_to_the_chapter_s():
    notebook = read_notebook(ROOT / "notebooks" / "2_core_code" / "3_strides.ipynb")
    stated = notebook["metadata"]["labkit"]
    found = sections_of(notebook)
    whole = reading_minutes(parts_of(notebook))
    assert sum(section.minutes for section in found) == pytest.approx(whole)
    asked = [e.minutes for s in found for e in s.exercises if e.rung != "boss"]
    assert sum(asked) == stated["exercise_minutes"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("until", "No such heading", "until are \\['No such heading'\\]"),
        ("without", ["Ten operations"], "without are"),
        ("exercises", ["best_fit"], "exercises are \\['best_fit'\\]"),
        ("late", "Recap", "late are \\['Recap'\\]"),
    ],
)
def test_what_is_not_in_the_chapter_is_refused(monkeypatch, key, value, said):
    programme = plan.workshops()["programmes"][2]
    stop = next(s for s in programme["stops"] if s["chapter"] == "0_start_here") | {key: value}
    monkeypatch.setitem(programme, "stops", [stop])
    with pytest.raises(ValueError, match=said):
        plan.stops(2)


def test_the_plan_says_all_of_it(capsys):
    assert cli.main(["workshop", "plan", "--hours", "2"]) == 0
    printed = capsys.readouterr().out
    for stop in plan.stops(2):
        assert stop.title in printed
        assert f"notebooks/{stop.chapter}.ipynb" in printed
    for row in ("say", "do", "ask", "many say", "right", "when late"):
        assert printed.count(f"\n      {row} ") == len(plan.stops(2))
    assert len(printed.splitlines()) <= 120  # two pages
    assert max(map(len, printed.splitlines())) <= 100
