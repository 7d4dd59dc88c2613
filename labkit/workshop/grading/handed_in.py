"""What a learner hands in, put into the course's own notebook: answers and added cells.

A check that was edited, moved or deleted is the course's again, and a cell that the learner has
added stays where it stands: an answer may call a function that is defined there.
"""

from labkit.course.chapters.editions import tasks
from labkit.course.notebook_form import Cell, Notebook, canonical


def as_handed_in(given: Notebook, theirs: Notebook) -> Notebook:
    """The course's notebook `given` with the learner's answers and added cells.

    Raises   ValueError   a cell of `theirs` is none
    """
    ours = {cell["id"]: cell for cell in given["cells"]}
    answers = {task.stub["id"] for task in tasks(given)}
    added: dict[str, list[Cell]] = {"": []}
    written: dict[str, str] = {}
    above = ""
    for cell in theirs["cells"]:
        name, source = _name_and_source(cell)
        if name in ours:
            above = name
            if name in answers:
                written.setdefault(name, source)
        elif cell.get("cell_type") == "code":
            new = {"cell_type": "code", "id": "", "metadata": {}, "source": source}
            added.setdefault(above, []).append(new)
    cells = list(added[""])
    for name, cell in ours.items():
        cells.append({**cell, "source": written.get(name, cell["source"])})
        cells.extend(added.get(name, []))
    return canonical({**given, "cells": cells})


def answered(given: Notebook, handed_in: Notebook) -> set[str]:
    """The ids of the exercises whose stub is no longer as it was given."""
    sources = {cell["id"]: cell["source"] for cell in handed_in["cells"]}
    return {
        exercise
        for task in tasks(given)
        if sources[task.stub["id"]] != task.stub["source"]
        for exercise in task.ids
    }


def _name_and_source(cell: Cell) -> tuple[str, str]:
    if not isinstance(cell, dict) or not isinstance(cell.get("source"), str):
        raise ValueError("a cell is none")
    return str(cell.get("id", "")), cell["source"]
