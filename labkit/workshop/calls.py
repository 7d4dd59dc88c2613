"""The teacher's word to everybody: where the room goes on. One small file that learners read."""

import json
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path

CALLED = "LABKIT_CALLED"
"""The variable that names the file to a learner's kernel."""


@dataclass(frozen=True)
class Call:
    """A section of a chapter, and when everybody was called to it, in seconds since 1970."""

    chapter: str
    section: str
    at: float


def call(file: Path, chapter: str, section: str) -> Call:
    """The file says where the room goes on; a reader finds this call or the one before, whole."""
    made = Call(chapter, section, time.time())
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(made)), encoding="utf-8")
    new.replace(file)
    return made


def last_call(file: Path) -> Call | None:
    """Where the room goes on; None before the first call."""
    try:
        return Call(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def told(called: Call, chapter: str) -> str:
    """The call as Markdown, its link from a notebook of `chapter`.

    JupyterLab finds a heading by its text as drawn, with `-` for each space.
    """
    up = "../" * chapter.count("/")
    anchor = re.sub(r"[`*<>]", "", called.section).replace(" ", "-")
    name = called.section or called.chapter
    return f"**The room goes on at** [{name}](<{up}{called.chapter}.ipynb#{anchor}>)."
