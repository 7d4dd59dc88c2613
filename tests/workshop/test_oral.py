"""The oral exams: one on every capstone that is written, five questions each, printed on a page."""

import re

import pytest

from labkit import cli
from labkit.course.notebook_form import ROOT
from labkit.workshop.oral import oral_exams, oral_text


def test_every_written_capstone_has_one():
    written = {f"6_capstones/{p.stem}" for p in (ROOT / "notebooks/6_capstones").glob("*.ipynb")}
    assert written == set(oral_exams())


@pytest.mark.parametrize("chapter", oral_exams())
def test_it_asks_five_questions_and_says_what_to_expect(chapter):
    questions = oral_exams()[chapter]
    assert [sorted(question) for question in questions] == [["ask", "expect"]] * 5
    assert all("?" in question["ask"] for question in questions)


@pytest.mark.parametrize("chapter", oral_exams())
def test_it_asks_about_the_proof_of_the_repair(chapter):
    said = " ".join(question["ask"] + question["expect"] for question in oral_exams()[chapter])
    assert {"red", "green"} <= set(re.findall(r"\w+", said))


@pytest.mark.parametrize("chapter", oral_exams())
def test_it_is_one_page(chapter, capsys):
    assert cli.main(["workshop", "oral", chapter]) == 0
    printed = capsys.readouterr().out
    assert f"notebooks/{chapter}.ipynb" in printed
    assert printed.count("   expect: ") == 5
    assert len(printed.splitlines()) <= 60
    assert max(map(len, printed.splitlines())) <= 100


def test_a_chapter_without_one_is_refused():
    with pytest.raises(ValueError, match="no oral exam on '0_start_here'"):
        oral_text("0_start_here")
