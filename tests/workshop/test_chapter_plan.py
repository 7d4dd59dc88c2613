"""The plan of one chapter: every chapter has one, and what it names is in the chapter."""

import pytest

from labkit import cli
from labkit.course.notebook_form import ROOT, read_notebook
from labkit.workshop import plan
from labkit.workshop.sections import sections_of

NOTEBOOKS = ROOT / "notebooks"
CHAPTERS = [str(p.relative_to(NOTEBOOKS).with_suffix("")) for p in NOTEBOOKS.rglob("*.ipynb")]


def test_every_chapter_is_described():
    assert sorted(plan.workshops()["chapters"]) == sorted(CHAPTERS)


@pytest.mark.parametrize("chapter", sorted(CHAPTERS))
def test_a_lesson_is_taken_from_its_chapter(chapter):
    sections = sections_of(read_notebook(NOTEBOOKS / f"{chapter}.ipynb"))
    lesson = plan.lesson_of(chapter, sections)
    assert lesson.right != lesson.expect
    assert lesson.question not in lesson.late.questions
    assert lesson.late.alone >= 1


@pytest.mark.parametrize("chapter", sorted(CHAPTERS))
def test_it_is_two_pages(chapter, capsys):
    assert cli.main(["workshop", "plan", chapter]) == 0
    printed = capsys.readouterr().out
    assert f"notebooks/{chapter}.ipynb" in printed
    for row in ("say", "in a hurry", "when late", "ask", "many say", "right"):
        assert printed.count(f"\n      {row} ") == 1
    assert "\n      reach " in printed
    assert len(printed.splitlines()) <= 120
    assert max(map(len, printed.splitlines())) <= 100


@pytest.mark.parametrize("chapter", sorted(CHAPTERS))
def test_the_short_version_has_a_question_and_fits_twenty_minutes(chapter, capsys):
    cli.main(["workshop", "plan", chapter])
    short = capsys.readouterr().out.split("in a hurry")[1].split()
    assert 8 <= int(short[0]) <= 20


def test_no_such_chapter(capsys):
    assert cli.main(["workshop", "plan", "2_core_code/strides"]) == 1
    assert "'2_core_code/strides' is no chapter" in capsys.readouterr().err
