"""The machine as its owner meets it: the picture, a run, a new case, a folder, a command."""

import os
import re
import subprocess
import sys
from html import escape

import pytest

from labkit import course
from labkit.cli import main
from labkit.core.host_compiler import CompilerMissing
from labkit.course import progress_file
from labkit.course.checks import CheckFailed
from labkit.course.exercises import find, notebook_of
from labkit.course.notebook_form import ROOT, read_notebook, tags
from labkit.course.progress_file import state_of
from labkit.course.sources import anchor_problem, installed_file
from labkit.course.your_machine import kept_parts, last_run, new_cases, page
from labkit.course.your_machine.kept_parts import keep
from labkit.course.your_machine.last_run import LastRun
from labkit.course.your_machine.picture import curves, pytorchs_code
from labkit.course.your_machine.seats import SEATS

ID = "strides.needed"
CHAPTERS = {}
for one in SEATS:
    CHAPTERS.setdefault(notebook_of(one.exercise.partition(".")[0]), []).append(one.name)


@pytest.fixture(autouse=True)
def progress(monkeypatch, tmp_path):
    for module in (progress_file, kept_parts, last_run, new_cases):
        monkeypatch.setattr(module, "_in_memory", {})
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path


def needed(sizes, strides, offset):
    """The elements a storage must hold: right, with < and > to be escaped."""
    if 0 in sizes:
        return 0
    return 1 + offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


def nearly(sizes, strides, offset):
    """Wrong for images in batches, which no small case is."""
    return needed(sizes, strides, offset) + (len(sizes) == 4 and sizes[0] > 30)


def test_the_picture_shows_every_seat_with_labkits_code_and_pytorchs_file():
    html = course.machine()._repr_html_()
    assert f"0 of {len(SEATS)} parts are yours" in html
    for seat in SEATS:
        assert escape(seat.title) in html and escape(seat.pytorch) in html
    assert html.count("<details") == len(SEATS) and "def compute_cell(" in html


@pytest.mark.parametrize("seat", SEATS, ids=[seat.exercise for seat in SEATS])
def test_pytorchs_file_is_there_and_names_the_symbol(seat):
    path, _, symbols = seat.pytorch.partition("  ")
    assert [anchor_problem(f"{path} {one.strip()}") for one in symbols.split(",")] == [""] * len(
        symbols.split(",")
    )
    ships = installed_file(path) is not None
    assert bool(pytorchs_code(seat)) == ships


@pytest.mark.parametrize("chapter", sorted(CHAPTERS))
def test_a_chapter_with_a_seat_ends_with_a_cell_that_runs_the_machine(chapter):
    """It stands behind the exercises that have a seat, and its text names them."""
    cells = read_notebook(ROOT / "notebooks" / f"{chapter}.ipynb")["cells"]
    ids = [cell["id"] for cell in cells]
    asked = [f'course.check("{one.exercise}"' for one in SEATS if one.name in CHAPTERS[chapter]]
    checks = [
        at
        for at, cell in enumerate(cells)
        if "check" in tags(cell) and any(one in cell["source"] for one in asked)
    ]
    at = ids.index("machine-step")
    assert at > max(checks) and cells[at]["source"] == "course.machine().step()"
    text = cells[ids.index("machine-text")]["source"]
    assert all(f"`{name}`" in text for name in CHAPTERS[chapter])


def test_a_part_is_shown_with_its_code_beside_labkits_and_pytorchs():
    keep(find(ID), needed)
    assert "<b>yours</b>" in course.machine()._repr_html_()
    mine = course.machine()
    assert "with &lt; and &gt;" in mine._repr_html_() and f"1 of {len(SEATS)} parts" in repr(mine)
    assert "your code, passed 20" in mine._repr_html_()


def test_a_part_that_the_check_let_through_is_found_at_work_and_becomes_a_case(emulator):
    assert course.check(ID, nearly, seed=3).kept
    trained = course.machine().train(steps=2)
    (trouble,) = trained.troubles
    assert trouble.seat.exercise == ID and trouble.inputs[0][0] > 30
    assert trained.done.is_equal and "taken out: strides.needed" in repr(trained)
    assert "✗" in course.machine()._repr_html_().partition("your part was taken out")[0]
    assert not state_of(ID).passed
    with pytest.raises(CheckFailed, match=re.escape(str(trouble.inputs[0]))):
        course.check(ID, nearly, seed=3)
    assert course.check(ID, needed, seed=3)
    trained = course.machine().train(steps=1)
    assert trained.troubles == [] and trained.done.run.tallies[ID].yours > 50


def test_one_step_says_how_much_of_it_is_yours(emulator):
    assert repr(course.machine().step()).startswith(
        f"Your machine now has 0 of {len(SEATS)} parts: an"
    )
    keep(find(ID), needed)
    share = course.machine().step()
    assert f"1 of {len(SEATS)} parts; " in repr(share) and 0.05 < share.run.share < 0.6
    calls = share.first.calls[ID][1] + share.run.calls[ID][1]
    assert f"Called in the first two steps: needed {calls:,} times." in repr(share)


def test_without_a_compiler_a_chapter_still_comes_to_its_end(monkeypatch):
    def missing(*_):
        raise CompilerMissing("no C++ compiler was found")

    keep(find(ID), needed)
    monkeypatch.setattr(page, "caching", missing)
    assert f"1 of {len(SEATS)} parts: no C++ compiler was found" in repr(course.machine().step())


def test_percent_never_says_all_where_one_call_is_missing():
    assert LastRun(calls={"a": [1000, 999]}).percent == "99 %"
    assert LastRun(calls={"a": [1000, 1000]}).percent == "100 %"
    assert LastRun(calls={"a": [1000, 1]}).percent == "under 1 %"


@pytest.mark.parametrize("text", ["", "[]", '{"calls": {"a": [1]}}', '{"new": 1}', "[" * 9])
def test_a_damaged_last_run_is_no_run(progress, text):
    (progress / "parts").mkdir()
    file = progress / "parts" / "last_run.json"
    file.write_text(text, encoding="utf-8")
    assert last_run.last_run() == LastRun()
    assert "<details" in course.machine()._repr_html_()


def test_the_curves_lie_on_one_another_and_say_so_in_words():
    svg = curves({"yours": [2.0, 1.0], "labkit": [2.0, 1.0], "torch": [2.0, 1.0]})
    assert svg.count("<polyline") == 3 and "Loss over 2 steps" in svg
    assert curves({}) == "" == curves({"yours": [1.0]})


def test_the_exported_folder_trains_and_tests_itself(progress):
    keep(find(ID), needed)
    folder = progress / "mine"
    assert main(["course", "machine", "--export", str(folder)]) == 0
    ran = subprocess.run(
        [sys.executable, "-m", "my_machine", "1"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "LABKIT_PROGRESS": "off"},
    )  # fmt: skip
    assert ran.returncode == 0 and f"1 of {len(SEATS)} parts are yours" in ran.stdout, ran.stderr
    assert "course.check(exercise" in (folder / "tests" / "test_parts.py").read_text()
    assert "| bytes of a storage | `strides.needed` |" in (folder / "README.md").read_text()
    assert main(["course", "machine", "--export", str(folder)]) == 0, "again, over itself"


def test_a_folder_with_something_else_in_it_is_left_alone(progress, capsys):
    (progress / "mine").mkdir()
    (progress / "mine" / "thesis.tex").write_text("all of it")
    assert main(["course", "machine", "--export", str(progress / "mine")]) == 1
    assert "not empty" in capsys.readouterr().err
    assert [one.name for one in (progress / "mine").iterdir()] == ["thesis.tex"]


def test_reset_forgets_parts_too(progress):
    keep(find(ID), needed)
    assert main(["course", "reset", ID]) == 0
    assert [*(progress / "parts").iterdir()] == []


def test_a_part_that_only_the_first_step_calls_is_said_to_be_of_that_step():
    only_first = page.Share(1, 22, LastRun(calls={"a": [900, 0]}), LastRun(calls={"a": [1000, 53]}))
    assert "your code runs in the first training step" in repr(only_first)
    assert "0 %" not in repr(only_first)
