"""What every notebook says of itself: a title and one line for readers, all of it for programs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"
NUMBER = re.compile(r"\d+[a-z]?")

KEYS: dict[str, type | tuple[type, ...]] = {
    "title": str,
    "builds": str,
    "minutes": int,
    "exercise_minutes": int,
    "goals": list,
    "difficulty": int,
    "document": str,
    "sections": str,
    "needs": list,
    "claims": list,
    "anchors": list,
}
"""The keys of the notebook's metadata `labkit`, all of them required.

title       a question or a failure, in the learner's words
builds      what grows through the chapter ("a 60-line engine"), or ""
minutes     for the chapter; exercise_minutes: for its exercises without the boss
goals       what the reader can do afterwards; they return as the recap
difficulty  1 to 5
document    number and name of the document, or "none"; sections: its sections, in words
needs       notebooks to have done, as "folder/name"; claims: ids of the claims it owns
anchors     files of PyTorch, each with a symbol where one is meant: "torch/version.py"
"""


def front_matter_problems(about: Any) -> list[str]:
    """What is missing or of the wrong kind in the metadata."""
    if not isinstance(about, dict):
        return ["metadata.labkit is missing"]
    problems = [f"metadata.labkit has no {key!r}" for key in KEYS if key not in about]
    problems += [f"metadata.labkit has the unknown key {key!r}" for key in about if key not in KEYS]
    for key, kind in KEYS.items():
        if key in about and (not isinstance(about[key], kind) or isinstance(about[key], bool)):
            problems.append(f"metadata.labkit.{key} is {about[key]!r}")
    if not problems:
        if not 1 <= about["difficulty"] <= 5:
            problems.append(f"difficulty is {about['difficulty']}, not 1 to 5")
        if not 1 <= about["minutes"] <= 300:
            problems.append(f"minutes is {about['minutes']}")
        problems += [f"{key} is empty" for key in ("title", "goals", "anchors") if not about[key]]
    return problems


def front_matter_text(about: dict[str, Any]) -> str:
    """The first cell of a notebook, written from its metadata."""
    if front_matter_problems(about):
        return f"# {about.get('title', '')}"
    return f"# {about['title']}\n\n{_one_line(about)}"


def _one_line(about: Mapping[str, Any]) -> str:
    """`45 min + 30 min exercises · after: Strides · builds: a 60-line engine`.

    Chapters that are planned, and not written yet, are nothing to read before.
    """
    parts = [f"{about['minutes']} min + {about['exercise_minutes']} min exercises"]
    if written := [name for name in about["needs"] if (NOTEBOOKS / f"{name}.ipynb").is_file()]:
        parts.append(f"after: {', '.join(map(short_name, written))}")
    if about["builds"]:
        parts.append(f"builds: {about['builds']}")
    return " · ".join(parts)


def short_name(notebook: str) -> str:
    """The chapter's name in words: "3_strides" is "Strides", "6b_hooks" is "Hooks"."""
    words = notebook.rpartition("/")[2].split("_")
    name = " ".join(word for word in words if not NUMBER.fullmatch(word)).capitalize()
    return re.sub(r"\bc\b", "C", name)
