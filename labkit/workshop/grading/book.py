# mypy: disallow-untyped-calls=False
"""nbgrader's book of a workshop: one assignment for each chapter, its answers run already.

nbgrader keeps the points, the teacher's comments and corrections, and writes feedback. It does not
run what learners wrote: that has been done behind walls, and its preprocessors that execute are
left out of the configuration. Where nbgrader is read, its words are used: a notebook is an
assignment, a check cell an autograder test, a stub a solution.
"""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labkit.course.chapters.editions import tasks
from labkit.course.notebook_form import Cell, Notebook, is_hidden, text_of
from labkit.workshop.grading.marks import worth

SCHEMA = 3
LARGEST_TEXT = 20_000
CONFIG = '''\
"""nbgrader's settings for this folder: `nbgrader formgrader` and `nbgrader export` read them."""

c = get_config()  # noqa: F821  (nbgrader's, while it reads this)
c.CourseDirectory.course_id = "labkit"
c.Exchange.root = "."  # nothing is exchanged: labkit workshop releases and collects
# Answers were run behind walls before nbgrader saw them: nothing here executes one.
c.Autograde.sanitize_preprocessors = [
    "nbgrader.preprocessors.DeduplicateIds",
    "nbgrader.preprocessors.OverwriteKernelspec",
    "nbgrader.preprocessors.OverwriteCells",
    "nbgrader.preprocessors.CheckCellMetadata",
]
c.Autograde.autograde_preprocessors = [
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.CheckCellMetadata",
]
'''


class Book:
    """The folder of a book that `nbgrader` opens."""

    def __init__(self, folder: Path) -> None:
        from nbgrader.apps.api import NbGraderAPI
        from nbgrader.coursedir import CourseDirectory
        from traitlets.config.loader import PyFileConfigLoader

        # nbgrader looks for alembic, which lies beside this Python, on the search path.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
        config = PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()
        config.CourseDirectory.root = config.Exchange.root = str(folder)
        course = CourseDirectory(config=config)
        self.api = NbGraderAPI(course, config=config, log_level=logging.WARNING)

    def open_assignment(self, chapter: str, given: Notebook, asked: Sequence[str]) -> None:
        """The book has an assignment for the chapter: `asked` are its exercises that count."""
        name = assignment(chapter)
        _write(marked(given, dict.fromkeys(asked)), self.folder / "source" / name / f"{name}.ipynb")
        self._do(self.api.generate_assignment, name)

    def enter(self, chapter: str, learner: str, executed: Notebook, earned: dict[str, int]) -> None:
        """The learner's points and notebook are in the book; what stood there is replaced."""
        name = assignment(chapter)
        target = self.folder / "submitted" / learner / name / f"{name}.ipynb"
        _write(marked(executed, dict(earned)), target)
        self._do(self.api.autograde, name, learner)

    def feedback(self, chapter: str, learner: str) -> None:
        """The folder `feedback` holds the learner's page."""
        self._do(self.api.generate_feedback, assignment(chapter), learner)

    def _do(self, what: Callable[..., dict[str, Any]], *names: str) -> None:
        """Raises   ValueError   nbgrader could not do it, with its own words."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what its database library thinks of its queries
            answer = what(*names)
        if not answer["success"]:
            said = answer.get("log") or answer["error"]
            raise ValueError(f"nbgrader: {said}".strip()[-LARGEST_TEXT:])


def assignment(chapter: str) -> str:
    """Nbgrader's name of a chapter: "2_core_code/3_strides" is "2_core_code-3_strides"."""
    return chapter.replace("/", "-")


def marked(notebook: Notebook, earned: Mapping[str, int | None]) -> Notebook:
    """The notebook with nbgrader's metadata; points that were earned are what its checks put out.

    earned   by exercise that counts: points, or None where nothing has run

    Outputs of learners' code are kept as text only: a page of theirs is opened by the teacher.
    """
    counted = {task.stub["id"]: [n for n in task.ids if n in earned] for task in tasks(notebook)}
    checks = {t.checks[0]["id"]: counted[t.stub["id"]] for t in tasks(notebook) if t.checks}
    cells = []
    for cell in notebook["cells"]:
        if is_hidden(cell):
            continue  # nobody reads it there
        metadata: dict[str, Any] = {"tags": list(cell["metadata"].get("tags", []))}
        new = {**cell, "metadata": metadata}
        if cell["cell_type"] == "code":
            new["execution_count"] = None
            new["outputs"] = _as_text(cell.get("outputs", []))
        if counted.get(cell["id"]):
            metadata["nbgrader"] = _about(cell, solution=True)
        elif names := checks.get(cell["id"]):
            points = sum(worth(name) for name in names)
            metadata["nbgrader"] = _about(cell, grade=True, locked=True, points=points)
            got = [count for name in names if (count := earned[name]) is not None]
            new["outputs"] += [_result(str(sum(got)))] if got else []
        cells.append(new)
    return {**notebook, "cells": cells}


def _about(cell: Cell, **said: Any) -> dict[str, Any]:
    kind = {"grade": False, "solution": False, "locked": False, "task": False, **said}
    return {**kind, "grade_id": cell["id"], "cell_type": "code", "schema_version": SCHEMA}


def _as_text(outputs: list[Any]) -> list[dict[str, Any]]:
    """What was printed or raised, and the text of what was shown; never an answer's own points."""
    kept: list[dict[str, Any]] = []
    for output in outputs:
        kind = output.get("output_type")
        if kind == "stream":
            kept.append(_printed(_joined(output.get("text", ""))))
        elif kind == "error":
            kept.append(_printed(f"{output.get('ename')}: {output.get('evalue')}"))
        elif kind in ("display_data", "execute_result"):
            kept.append(_printed(_joined(output.get("data", {}).get("text/plain", ""))))
    return kept


def _printed(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": f"{text[:LARGEST_TEXT]}\n"}


def _result(text: str) -> dict[str, Any]:
    data = {"text/plain": text}
    return {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def _write(notebook: Notebook, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text_of(notebook), encoding="utf-8")
