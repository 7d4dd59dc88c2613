"""`labkit workshop grade`: every learner's answers are run and entered into nbgrader's book."""

import csv
import dataclasses
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil

from labkit.core import compile_cache
from labkit.course.chapters.editions import tasks
from labkit.course.notebook_form import Cell as NotebookCell
from labkit.course.notebook_form import Notebook, read_notebook, text_of
from labkit.launcher.problem import Problem
from labkit.workshop.cell.walls import Cell
from labkit.workshop.collect import own_bytes
from labkit.workshop.folders import Workshop, cell_of
from labkit.workshop.grading.handed_in import answered, as_handed_in
from labkit.workshop.grading.marks import points, worth
from labkit.workshop.grading.meter import Bounds
from labkit.workshop.grading.walled import run_walled
from labkit.workshop.roster import TEACHER, Person, read_roster

CPU_SECONDS, WAITING_SECONDS = 600, 300
"""Of one paper: what is left of a run that does not end is ended."""
SCRATCH = 256 << 20
"""Bytes that a paper's files may take: they are in memory, and gone with its run."""
RESERVE = 1 << 30
"""Bytes of memory that stay free beside the papers that are run."""
GRADES = "grades.csv"
HANDED_IN, GIVEN, DONE = "handed_in.ipynb", "given.ipynb", "done.ipynb"
PROGRESS = "progress.json"
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
    out.chmod(0o700)  # nobody reads there what others have handed in
    learners = [p for name, p in sorted(read_roster(workshop.roster).items()) if name != TEACHER]
    sheets = [
        Sheet(chapter, read_notebook(workshop.course / "notebooks" / f"{chapter}.ipynb"), (*names,))
        for chapter, names in asked.items()
    ]
    for sheet in sheets:
        book.open_assignment(sheet.chapter, sheet.given, sheet.names)
    papers = [Paper(workshop, person, sheet, out) for sheet in sheets for person in learners]
    grades = []
    with ThreadPoolExecutor(at_once(workshop.settings["memory"])) as desks:
        try:
            for executed, result in desks.map(lambda paper: paper.graded(walls), papers):
                book.enter(result.chapter, result.learner, executed, result.earned)
                book.feedback(result.chapter, result.learner)
                grades.append(result)
                most = sum(worth(name) for name in result.earned)
                told = f"{result.learner:<20}{result.chapter:<44}{sum(result.earned.values())}"
                say(f"{told}/{most}  {result.remark}".rstrip())
        finally:
            desks.shutdown(cancel_futures=True)
    _write_grades(grades, out / GRADES)
    return grades


def at_once(memory: int) -> int:
    """How many papers may run at the same time: as memory allows, one for each processor.

    memory   bytes that one of them may hold
    """
    free = psutil.virtual_memory().available - RESERVE
    return int(max(1, min(len(os.sched_getaffinity(0)), free // (memory + SCRATCH))))


@dataclass(frozen=True)
class Paper:
    """What one learner made of one chapter; `out` is where nobody's answer may look."""

    workshop: Workshop
    person: Person
    sheet: Sheet
    out: Path

    def graded(self, walls: bool) -> tuple[Notebook, Grade]:
        """The notebook as it ran, and its points."""
        given, names = self.sheet.given, self.sheet.names
        none = Grade(self.person.name, self.sheet.chapter, dict.fromkeys(names, 0))
        file = f"{self.sheet.chapter}.ipynb"
        held = own_bytes(self.workshop.of(self.person.name) / "notebooks" / file)
        if held is None:
            return given, dataclasses.replace(none, remark="no notebook")
        try:
            handed_in = as_handed_in(given, _parsed(held))
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            return given, dataclasses.replace(none, remark=f"not a notebook: {error}"[:200])
        if not answered(given, handed_in) & set(names):
            return given, dataclasses.replace(none, remark="no answer")
        tray = self._named("tray")
        try:
            executed, remark = self._run(handed_in, tray, walls)
            earned = points(own_bytes(tray / PROGRESS) or b"", names)
        finally:
            shutil.rmtree(tray, ignore_errors=True)
            shutil.rmtree(self._desk, ignore_errors=True)
        return executed or handed_in, dataclasses.replace(none, earned=earned, remark=remark)

    @property
    def _desk(self) -> Path:
        """Where the answers run: with walls an empty folder stands there, which goes with them."""
        return self._named("desk")

    def _named(self, what: str) -> Path:
        name = f"{self.person.name}-{self.sheet.chapter.replace('/', '-')}"
        return self.workshop.root / "grading" / what / name

    def _run(self, handed_in: Notebook, tray: Path, walls: bool) -> tuple[Notebook | None, str]:
        """The notebook as it ran, None where the run came to no end; and what went wrong in it.

        tray   what the run is given, and later what it leaves
        """
        shutil.rmtree(tray, ignore_errors=True)
        tray.mkdir(parents=True)
        tray.parents[1].chmod(0o700)
        tray.chmod(0o755)  # the learner's own user reads it
        asked, rest = until_checked(handed_in, self.sheet)
        (tray / HANDED_IN).write_text(text_of(asked), encoding="utf-8")
        (tray / GIVEN).write_text(text_of(self.sheet.given), encoding="utf-8")
        desk, course = self._desk, self.workshop.course
        desk.mkdir(parents=True, exist_ok=True)
        work, done = desk / "notebooks" / f"{self.sheet.chapter}.ipynb", desk / DONE
        cache = desk / ".cache" / "labkit" / compile_cache.COMPILED
        memory = self.workshop.settings["memory"]
        try:
            trouble = run_walled(
                self._cell(tray) if walls else None,
                [sys.executable, "-m", RUNNER, str(work), str(tray / GIVEN), str(done)],
                _environment(self.workshop, desk),
                Bounds(CPU_SECONDS, WAITING_SECONDS, memory),
                brought={
                    str(desk / "notebooks"): str(course / "notebooks"),
                    str(work): str(tray / HANDED_IN),
                    str(cache): str(self.workshop.compiled),
                },
                kept={str(desk / name): tray / name for name in (DONE, PROGRESS)},
            )
        except OSError as error:
            raise Problem(
                f"This machine gives no walls to run learners' answers behind: {error}.",
                "run it as root (sudo), or with --trust-learners: answers then run as you.",
            ) from None
        try:
            executed = _parsed(own_bytes(tray / DONE) or b"")
        except ValueError:
            return None, trouble
        remark = "; ".join(filter(None, [trouble, *_taken_out(executed)]))
        return {**executed, "cells": [*executed["cells"], *rest]}, remark

    def _cell(self, tray: Path) -> Cell:
        """What the answers see: the course, their paper, and a desk that is empty and small."""
        desk = str(self._desk)
        whole = cell_of(self.workshop, self.person, self.workshop.settings["memory"])
        return dataclasses.replace(
            whole,
            hidden=(*whole.hidden, str(self.out)),
            seen=(*whole.seen, str(self.workshop.compiled), str(tray)),
            own=(desk,),
            notebooks=(f"{desk}/notebooks", whole.notebooks[1]),
            scratch=SCRATCH,
        )


def until_checked(notebook: Notebook, sheet: Sheet) -> tuple[Notebook, list[NotebookCell]]:
    """The notebook up to the last check that counts, which is all that is run; and the rest."""
    checks = {
        check["id"]
        for task in tasks(sheet.given)
        if set(task.ids) & set(sheet.names)
        for check in task.checks
    }
    cells = notebook["cells"]
    end = 1 + max(place for place, cell in enumerate(cells) if cell["id"] in checks)
    return {**notebook, "cells": cells[:end]}, cells[end:]


def _environment(workshop: Workshop, desk: Path) -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ}
    return {
        **kept, "HOME": str(desk), "PYTHONPATH": str(workshop.course), "OMP_NUM_THREADS": "1",
        "LABKIT_PROGRESS": str(desk / PROGRESS), "PYTHONDONTWRITEBYTECODE": "1",
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
