"""Two editions of one notebook: solved, which the tests run, and student, without solutions.

An exercise is a stub cell (`exercise`) below the markdown cell that says what to do, the cell that
checks it (`check`) and a solution. The solution stands in the stub's metadata, where no page shows
it: it opens on the exercise's card. The solved edition puts its code in the stub's place.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from labkit.course.notebook_form import Cell, Notebook, canonical, tags

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CHECKED = re.compile(r"\bcheck\(\s*[\"']([\w.]+)[\"']")
HEADING = re.compile(r"^#+ ", re.MULTILINE)
TELLING = 16
"""A line this long gives something away inside another line too; "continue" does not."""
ALONE = """import os

os.environ["LABKIT_PROGRESS"] = "off"  # this run is nobody's progress
os.environ["LABKIT_UNFINISHED"] = "fails"  # and every answer has to be there"""


@dataclass
class Task:
    """One exercise of a notebook: its stub with the solution, and its checks.

    statement  the markdown cell above the stub, from its last heading on
    """

    stub: Cell
    statement: str = ""
    checks: list[Cell] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        """The exercise ids that its check cells ask for."""
        return [found for cell in self.checks for found in CHECKED.findall(cell["source"])]

    @property
    def solution(self) -> str:
        """What is said about the solution, as markdown."""
        return "".join(self.stub["metadata"].get("solution", []))

    @property
    def solution_code(self) -> str:
        """The code of the solution."""
        return "\n".join(PYTHON.findall(self.solution)).strip("\n")

    @property
    def solution_words(self) -> str:
        """Why the solution is as it is."""
        return PYTHON.sub("", self.solution).strip()


def tasks(notebook: Notebook) -> list[Task]:
    """The exercises of a notebook, in order; checks belong to the stub above them."""
    found: list[Task] = []
    above = ""
    for cell in notebook["cells"]:
        if "exercise" in tags(cell):
            found.append(Task(cell, _from_last_heading(above)))
        elif found and "check" in tags(cell):
            found[-1].checks.append(cell)
        above = cell["source"] if cell["cell_type"] == "markdown" else ""
    return found


def _from_last_heading(markdown: str) -> str:
    """What came before the heading belongs to the lesson, not to the task."""
    headings = [found.start() for found in HEADING.finditer(markdown)]
    return markdown[headings[-1] :] if headings else markdown


def solved(notebook: Notebook) -> Notebook:
    """The edition in which every check passes; it leaves the reader's progress alone.

    Raises   ValueError   an exercise has no solution
    """
    answers = {task.stub["id"]: task.solution_code for task in tasks(notebook)}
    cells: list[Cell] = [{"cell_type": "code", "id": "alone", "metadata": {}, "source": ALONE}]
    for cell in notebook["cells"]:
        if cell["id"] in answers:
            if not answers[cell["id"]].strip():
                raise ValueError(f"the exercise in cell {cell['id']} has no solution")
            cell = {**without_solution(cell), "source": answers[cell["id"]]}
        if "check" in tags(cell):
            kept = [tag for tag in tags(cell) if tag != "raises-exception"]
            cell = {**cell, "metadata": {**cell["metadata"], "tags": kept}}
        cells.append(cell)
    front = 1 if cells[1:2] and cells[1]["cell_type"] == "markdown" else 0
    if front:
        cells[0], cells[1] = cells[1], cells[0]  # the front matter stays the first cell
    return canonical({**notebook, "cells": cells})


def student(notebook: Notebook) -> Notebook:
    """The edition without solutions, for a workshop."""
    cells = [without_solution(cell) for cell in notebook["cells"]]
    return canonical({**notebook, "cells": cells})


def without_solution(cell: Cell) -> Cell:
    """The cell with nothing in its metadata that gives the answer away."""
    kept = {key: value for key, value in cell["metadata"].items() if key != "solution"}
    return {**cell, "metadata": kept}


def leaks(notebook: Notebook, edition: str) -> list[str]:
    """Lines that only the solutions hold and that an edition shows all the same.

    edition  the text of its file: cells, metadata and outputs are searched
    """
    solutions: set[str] = set()
    elsewhere: set[str] = set()
    for cell in notebook["cells"]:
        elsewhere.update(_normal(line) for line in cell["source"].splitlines())
        solutions.update(_normal(line) for line in cell["metadata"].get("solution", []))
    secret = {line for line in solutions - elsewhere if line and not line.startswith("```")}
    shown = {_normal(line) for text in _texts(json.loads(edition)) for line in text.splitlines()}
    whole = " ".join(sorted(shown))
    return sorted(x for x in secret if x in shown or (len(x) >= TELLING and x in whole))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _normal(line: str) -> str:
    return " ".join(line.split())
