"""What a learner's kernel tells of itself: which cell of which chapter was run last.

And what it is told: where the teacher has called everybody to, below the next cell that is run.

An extension of IPython, loaded where `LABKIT_ROOM` names a file in the learner's own folder. No
code and no output is kept; the file stays on this machine, and the teacher's page reads it.
"""

import contextlib
import json
import os
import re
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from IPython.display import Markdown, display

from labkit.course.chapters.editions import CHECKED
from labkit.workshop.calls import CALLED, last_call, told

WHERE = "LABKIT_ROOM"
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def load_ipython_extension(shell: Any) -> None:
    """From here on every cell that has run is noted."""
    if os.environ.get(WHERE):
        noted = Noted()
        shell.events.register("post_run_cell", lambda result: _note(shell, result, noted))


@dataclass
class Noted:
    """What is remembered between cells: the headings above them, the last exercise and call."""

    places: dict[str, str] = field(default_factory=dict)
    exercise: str = ""
    called: float = 0.0


def _note(shell: Any, result: Any, noted: Noted) -> None:
    with contextlib.suppress(Exception):  # a learner's run never fails because of it
        name = os.environ.get("JPY_SESSION_NAME", "")
        cell = shell.kernel.get_parent("shell").get("metadata", {}).get("cellId", "")
        if cell and cell not in noted.places:
            with contextlib.suppress(OSError, ValueError):  # moved, or half a notebook
                noted.places.update(_sections(Path(name)))
        noted.exercise = next(iter(CHECKED.findall(result.info.raw_cell)), noted.exercise)
        error = result.error_before_exec or result.error_in_exec
        write_note(
            Path(os.environ[WHERE]),
            {
                "chapter": _chapter(name),
                "section": noted.places.get(cell, ""),
                "cell": cell,
                "exercise": noted.exercise,
                "failed": type(error).__name__ if error else "",
                "at": time.time(),
            },
        )
        _tell(noted, _chapter(name), noted.places.get(cell, ""))


def _tell(noted: Noted, chapter: str, section: str) -> None:
    """Where the room goes on, once for each call, to whoever is not there."""
    called = last_call(Path(os.environ.get(CALLED, "")))
    if called is None or called.at <= noted.called:
        return
    noted.called = called.at
    if (called.chapter, called.section) != (chapter, section):
        words = Markdown(told(called, chapter))  # type: ignore[no-untyped-call]
        display(words)  # type: ignore[no-untyped-call]


def write_note(file: Path, note: dict[str, Any]) -> None:
    """The file holds the note, or the one before, whole."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as new:
        json.dump(note, new)
    Path(new.name).replace(file)


def _chapter(name: str) -> str:
    folder, found = Path(name).parts[-2:-1], Path(name).stem
    return "/".join((*(f for f in folder if f != "notebooks"), found))


def _sections(notebook: Path) -> dict[str, str]:
    """Cell id -> the heading above it, of the notebook as it was saved last."""
    found, heading = {}, ""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and (named := HEADING.findall(source)):
            heading = named[-1]
        found[cell["id"]] = heading
    return found
