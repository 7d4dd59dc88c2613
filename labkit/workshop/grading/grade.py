"""`labkit workshop grade`: every learner's answers are run and entered into nbgrader's book."""

import csv
import dataclasses
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.core import compile_cache
from labkit.course.notebook_form import Notebook, read_notebook, text_of
from labkit.launcher.problem import Problem
from labkit.workshop.cell.walls import Cell
from labkit.workshop.collect import own_bytes
from labkit.workshop.folders import Workshop, cell_of, own_users
from labkit.workshop.grading.handed_in import answered, as_handed_in
from labkit.workshop.grading.marks import points, worth
from labkit.workshop.grading.walled import run_walled
from labkit.workshop.roster import TEACHER, Person, read_roster

SECONDS = 900
"""On the wall, for one notebook: what is left of a run that does not end is ended."""
GRADES = "grades.csv"
GIVEN = "given.ipynb"
RUNNER = "labkit.workshop.grading.runner"  # a program: its nbclient is not needed here


@dataclass(frozen=True)
class Sheet:
    """A chapter as learners got it, and the ids of its exercises that count."""

    chapter: str
    given: Notebook
    names: tuple[str, ...]


@dataclass(frozen=True)
class Grade:
    """What one learner earned in one chapter, and what is to be said about it."""

    learner: str
    chapter: str
    earned: dict[str, int]
    remark: str = ""


def grade(
    workshop: Workshop,
    out: Path,
    asked: Mapping[str, Sequence[str]],
    walls: bool = True,
    say: Callable[[str], None] = print,
) -> list[Grade]:
    """The folder `out` is nbgrader's book of the chapters, with the points in `grades.csv` too.

    asked   the ids of the exercises that count, by chapter
    walls   run every answer behind its learner's walls; else as who asks, who trusts them

    Raises   Problem      nbgrader is not installed, or this machine gives no walls
             ValueError   nbgrader refuses
    """
    if importlib.util.find_spec("nbgrader") is None:
        raise Problem(
            "nbgrader, which keeps the points, is not installed.",
            f"{sys.executable} -m pip install -c constraints.txt -e '.[workshop]'",
        )
    from labkit.workshop.grading.book import Book

    book = Book(out)
    grades = []
    learners = [p for name, p in sorted(read_roster(workshop.roster).items()) if name != TEACHER]
    for chapter, names in asked.items():
        given = read_notebook(workshop.course / "notebooks" / f"{chapter}.ipynb")
        book.open_assignment(chapter, given, names)
        for person in learners:
            executed, result = _of_one(workshop, person, Sheet(chapter, given, tuple(names)), walls)
            book.enter(chapter, person.name, executed, result.earned)
            book.feedback(chapter, person.name)
            grades.append(result)
            most = sum(worth(name) for name in result.earned)
            told = f"{person.name:<20}{chapter:<44}{sum(result.earned.values())}/{most}"
            say(f"{told}  {result.remark}".rstrip())
    _write_grades(grades, out / GRADES)
    return grades


def _of_one(
    workshop: Workshop, person: Person, sheet: Sheet, walls: bool
) -> tuple[Notebook, Grade]:
    """The notebook as it ran, and its points."""
    given = sheet.given
    none = Grade(person.name, sheet.chapter, dict.fromkeys(sheet.names, 0))
    held = own_bytes(workshop.of(person.name) / "notebooks" / f"{sheet.chapter}.ipynb")
    if held is None:
        return given, dataclasses.replace(none, remark="no notebook")
    try:
        handed_in = as_handed_in(given, _parsed(held))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        return given, dataclasses.replace(none, remark=f"not a notebook: {error}"[:200])
    if not answered(given, handed_in) & set(sheet.names):
        return given, dataclasses.replace(none, remark="no answer")
    desk = workshop.root / "grading" / person.name
    try:
        work = _lay_out(workshop, desk, sheet, handed_in)
        cell = _walls_around(workshop, desk, person) if walls else None
        executed, remark = _run(workshop, desk, work, cell)
        earned = points(own_bytes(desk / "progress.json") or b"", sheet.names)
    finally:
        shutil.rmtree(desk, ignore_errors=True)
    return executed or handed_in, Grade(person.name, sheet.chapter, earned, remark)


def _lay_out(workshop: Workshop, desk: Path, sheet: Sheet, handed_in: Notebook) -> Path:
    """A new desk with the course's notebooks and the one that is graded; returns that one."""
    shutil.rmtree(desk, ignore_errors=True)
    shutil.copytree(workshop.course / "notebooks", desk / "notebooks")
    shutil.copytree(workshop.compiled, desk / ".cache" / "labkit" / compile_cache.COMPILED)
    work = desk / "notebooks" / f"{sheet.chapter}.ipynb"
    work.write_text(text_of(handed_in), encoding="utf-8")
    (desk / GIVEN).write_text(text_of(sheet.given), encoding="utf-8")
    return work


def _walls_around(workshop: Workshop, desk: Path, person: Person) -> Cell:
    """What the answers see: the course, and the desk as their own."""
    if own_users():
        for path in (desk, *desk.rglob("*")):
            os.chown(path, person.user, person.user)
    desk.chmod(0o700)
    whole = cell_of(workshop, person, workshop.settings["memory"])
    notebooks = (str(desk / "notebooks"), whole.notebooks[1])
    return dataclasses.replace(whole, own=(str(desk),), notebooks=notebooks)


def _run(
    workshop: Workshop, desk: Path, work: Path, cell: Cell | None
) -> tuple[Notebook | None, str]:
    """The notebook as it ran, None where the run came to no end; and what went wrong in it."""
    done = desk / "done.ipynb"
    command = [sys.executable, "-m", RUNNER, *map(str, (work, desk / GIVEN, done))]
    try:
        trouble = run_walled(cell, command, _environment(workshop, desk), SECONDS)
    except OSError as error:
        raise Problem(
            f"This machine gives no walls to run learners' answers behind: {error}.",
            "run it as root (sudo), or with --trust-learners: answers then run as you.",
        ) from None
    try:
        executed = _parsed(own_bytes(done) or b"")
    except ValueError:
        return None, trouble
    return executed, "; ".join(filter(None, [trouble, *_taken_out(executed)]))


def _environment(workshop: Workshop, desk: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ}
    return {
        **kept, "HOME": str(desk), "PYTHONPATH": str(workshop.course), "OMP_NUM_THREADS": "1",
        "LABKIT_PROGRESS": str(desk / "progress.json"), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip


def _parsed(held: bytes) -> Notebook:
    """A notebook's bytes as plain dictionaries.

    Raises   ValueError   they are none of format 4
    """
    notebook = json.loads(held)
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        raise ValueError("it is not of format 4")
    for cell in notebook["cells"]:
        if isinstance(cell, dict) and isinstance(cell.get("source"), list):
            cell["source"] = "".join(map(str, cell["source"]))
    return notebook


def _taken_out(executed: Notebook) -> Iterator[str]:
    for cell in executed["cells"]:
        if reason := cell["metadata"].get("taken_out"):
            yield f"{cell['id']}: {reason}"


def _write_grades(grades: Sequence[Grade], target: Path) -> None:
    with target.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["learner", "chapter", "exercise", "points", "of", "remark"])
        for each in grades:
            for name, got in each.earned.items():
                row = [each.learner, each.chapter, name, got, worth(name), each.remark]
                rows.writerow([_plain(value) for value in row])


def _plain(value: object) -> object:
    """A text that a spreadsheet would take for a formula is quoted."""
    formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if formula else value
