"""Answers are run behind their learner's walls, and worth what the course's own checks say."""

import csv
import dataclasses
import json
import shutil
import sys

import pytest

from labkit import cli
from labkit.course.notebook_form import ROOT, text_of
from labkit.workshop.folders import Workshop
from labkit.workshop.grading.grade import Sheet, until_checked
from labkit.workshop.grading.handed_in import answered, as_handed_in
from labkit.workshop.grading.marks import points, worth
from labkit.workshop.roster import admit

NEEDED = """def needed(sizes, strides, offset):
    if 0 in sizes:
        return 0
    return offset + 1 + sum((n - 1) * s for n, s in zip(sizes, strides))"""
SPYING = f"""{NEEDED}

try:
    print(open("FILE").read() and "peeked")
except OSError:
    print("<script>")"""
CUT = "def cut_out(meta, dim, start, stop, step):\n    raise NotImplementedError"
CHAPTER = "2_core_code/3_strides"


def cell(name, source, tag=""):
    metadata = {"tags": [tag]} if tag else {}
    kind = {"cell_type": "code", "outputs": [], "execution_count": None}
    return {**kind, "id": name, "source": source, "metadata": metadata}


def notebook(needed=None, cut=CUT, extra=(), check='course.check("strides.needed", needed)'):
    """Two exercises; `needed` None leaves the first as it is given."""
    stub = "def needed(sizes, strides, offset):\n    raise NotImplementedError"
    cells = [
        cell("import", "from labkit import course"),
        *extra,
        cell("needed", needed or stub, "exercise"),
        cell("check-needed", check, "check"),
        cell("cut", cut, "exercise"),
        cell("check-cut", 'course.check("strides.cut_out", cut_out)', "check"),
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def sources(made):
    return {cell["id"]: cell["source"] for cell in made["cells"]}


def test_only_answers_and_added_cells_are_the_learner_s():
    given = notebook()
    theirs = notebook("def needed(*_): ...", extra=[cell("mine", "help_me = 1")], check="pass")
    theirs["cells"] = [each for each in theirs["cells"] if each["id"] not in ("check-cut", "cut")]
    made = as_handed_in(given, theirs)
    assert list(sources(made).values()) == [
        "from labkit import course", "help_me = 1", "def needed(*_): ...",
        'course.check("strides.needed", needed)', CUT, 'course.check("strides.cut_out", cut_out)',
    ]  # fmt: skip
    assert answered(given, made) == {"strides.needed"}


def test_a_cell_that_is_there_twice_counts_once():
    theirs = notebook(NEEDED)
    theirs["cells"].append(cell("needed", "def needed(*_): return 0", "exercise"))
    assert sources(as_handed_in(notebook(), theirs))["needed"] == NEEDED


def test_nothing_is_run_behind_the_last_check_that_counts():
    given = notebook()
    sheet = Sheet(CHAPTER, given, ("strides.needed",))
    run, rest = until_checked(notebook(NEEDED), sheet)
    assert list(sources(run)) == ["import", "needed", "check-needed"]
    assert [cell["id"] for cell in rest] == ["cut", "check-cut"]
    both = dataclasses.replace(sheet, names=("strides.cut_out", "strides.needed"))
    assert until_checked(notebook(NEEDED), both)[1] == []


@pytest.mark.parametrize("wrong", [3, {"id": "needed"}, {"id": "needed", "source": 5}])
def test_what_is_no_cell_is_refused(wrong):
    with pytest.raises(ValueError, match="a cell is none"):
        as_handed_in(notebook(), {**notebook(), "cells": [wrong]})


@pytest.mark.parametrize(
    ("progress", "earned"),
    [
        ({"passed": True}, 4),
        ({"stages": [["a", "done"], ["b", "wrong"], ["c", "done"]]}, 2),
        ({"stages": [["x", "done"]] * 99}, 3),
        ({"passed": "yes", "stages": {"a": "done"}}, 0),
        ({"stages": [3, ["done"], None]}, 0),
    ],
)
def test_points_are_believed_only_as_far_as_there_are_any(progress, earned):
    assert worth("strides.view_strides") == 4
    kept = json.dumps({"exercises": {"strides.view_strides": progress}}).encode()
    assert points(kept, ["strides.view_strides"]) == {"strides.view_strides": earned}


@pytest.mark.parametrize(
    "progress", [b"", b"[]", b"{", b"\xff", b'{"exercises": 3}', b"[" * 99_999]
)
def test_a_progress_file_that_cannot_be_read_earned_nothing(progress):
    assert points(progress, ["strides.needed"]) == {"strides.needed": 0}


@pytest.fixture
def room(tmp_path):
    """A workshop with a course of one small notebook, and what each learner made of it."""
    place = Workshop(tmp_path / "room")
    place.hub.mkdir(parents=True)
    place.compiled.mkdir()
    (place.compiled / "kernel.so").touch()
    (place.hub / "settings.json").write_text('{"hours": 2, "memory": 4294967296}')
    names = ["ana", "crash", "mallory"]
    admit(place.roster, names)
    ana = place.of("ana") / "notebooks" / f"{CHAPTER}.ipynb"
    spying = SPYING.replace("FILE", str(ana))
    works = {
        "course": notebook(),
        "ana": notebook(),
        "crash": notebook(NEEDED, cut="import os\nos._exit(3)"),
        "mallory": notebook(spying, check="print('passed')"),
    }
    for name, made in works.items():
        owner = place.course if name == "course" else place.of(name)
        file = owner / "notebooks" / f"{CHAPTER}.ipynb"
        file.parent.mkdir(parents=True)
        file.write_text(text_of(made), encoding="utf-8")
    for part in ("labkit", "kernels"):
        shutil.copytree(ROOT / part, place.course / part, ignore=shutil.ignore_patterns("*.pyc"))
    return place


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls are Linux's")
def test_answers_are_run_and_entered_into_nbgrader_s_book(room, tmp_path, capsys):
    pytest.importorskip("nbgrader")
    asked = ["workshop", "grade", str(tmp_path / "out"), "--folder", str(room.root)]
    asked += ["--chapters", CHAPTER]
    walls = cli.main(asked) == 0
    if not walls:
        assert "gives no walls" in capsys.readouterr().err
        assert cli.main([*asked, "--trust-learners"]) == 0
    with (tmp_path / "out" / "grades.csv").open() as file:
        rows = list(csv.DictReader(file))
    earned = {(row["learner"], row["exercise"]): int(row["points"]) for row in rows}
    assert {name: earned[name, "strides.needed"] for name, _ in earned} == {
        "ana": 0, "crash": 1, "mallory": 1,
    }, rows  # fmt: skip
    assert not any(earned[name, "strides.cut_out"] for name, _ in earned)
    remarks = {row["learner"]: row["remark"] for row in rows}
    assert remarks["crash"] == "cut: the kernel died"
    assert remarks["ana"] == "no answer"
    pages = {
        page.parents[1].name: page.read_text() for page in tmp_path.rglob("feedback/*/*/*.html")
    }
    assert sorted(pages) == ["ana", "crash", "mallory"]
    seen = pages["mallory"].partition("<body")[2]
    assert "&lt;script&gt;\n" in seen or not walls
    assert "peeked\n" not in seen or not walls
    assert not list((room.root / "grading").glob("*/*"))
