"""What every notebook says of itself, once for readers (its first cell) and once for programs.

A chapter of form 2 declares `form: 2`: its first cell is a title and one line, and everything else
stands in the metadata alone. A chapter without `form` has the older, longer first cell.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

KEYS: dict[str, type | tuple[type, ...]] = {
    "title": str,
    "after": list,
    "minutes": int,
    "difficulty": int,
    "document": str,
    "sections": str,
    "needs": list,
    "claims": list,
    "anchors": list,
}
"""The keys of the notebook's metadata `labkit`, all of them required.

after        what the reader can do afterwards; the visible text puts "After this you can" before
minutes      for the whole notebook, exercises included; difficulty: 1 to 5
document     number and name of the document, or "none"; sections: its sections, in words
needs        notebooks to have done, as "folder/name"; claims: ids of the claims it owns
anchors      files of PyTorch, each with a symbol where one is meant: "torch/version.py"
"""


FORM_2: dict[str, type | tuple[type, ...]] = {
    "form": int,
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
"""The keys of a chapter of form 2; those it shares with `KEYS` mean the same.

title             a question or a failure, in the learner's words
builds            what grows through the chapter ("a 60-line engine"), or ""
minutes           for the chapter; exercise_minutes: for its exercises without the boss
goals             what the reader can do afterwards; they return as the recap
"""


def is_form_2(about: Any) -> bool:
    """Whether this metadata declares the form with one line of front matter."""
    return isinstance(about, Mapping) and about.get("form") == 2


def front_matter_keys(about: Any) -> dict[str, type | tuple[type, ...]]:
    """The keys that this metadata has to have."""
    return FORM_2 if is_form_2(about) else KEYS


def front_matter_problems(about: Any) -> list[str]:
    """What is missing or of the wrong kind in the metadata."""
    if not isinstance(about, dict):
        return ["metadata.labkit is missing"]
    keys = front_matter_keys(about)
    problems = [f"metadata.labkit has no {key!r}" for key in keys if key not in about]
    problems += [f"metadata.labkit has the unknown key {key!r}" for key in about if key not in keys]
    for key, kind in keys.items():
        if key in about and (not isinstance(about[key], kind) or isinstance(about[key], bool)):
            problems.append(f"metadata.labkit.{key} is {about[key]!r}")
    if not problems:
        if not 1 <= about["difficulty"] <= 5:
            problems.append(f"difficulty is {about['difficulty']}, not 1 to 5")
        if not 1 <= about["minutes"] <= 300:
            problems.append(f"minutes is {about['minutes']}")
        needed = ("title", "goals" if is_form_2(about) else "after", "anchors")
        problems += [f"{key} is empty" for key in needed if not about[key]]
    return problems


def front_matter_text(about: dict[str, Any]) -> str:
    """The first cell of a notebook, written from its metadata."""
    if front_matter_problems(about):
        return f"# {about.get('title', '')}"
    if is_form_2(about):
        return f"# {about['title']}\n\n{_one_line(about)}"
    after = "\n".join(f"- {line}" for line in about["after"])
    document = about["document"]
    if document != "none":
        document = f"{document}, sections: {about['sections']}"
    needs = ", ".join(f"`{name}`" for name in about["needs"]) or "nothing"
    anchors = ", ".join(_anchor_text(anchor) for anchor in about["anchors"])
    return (
        f"# {about['title']}\n\n"
        f"After this you can\n\n{after}\n\n"
        f"| | |\n|---|---|\n"
        f"| Time | about {about['minutes']} minutes |\n"
        f"| Difficulty | {about['difficulty']} of 5 |\n"
        f"| Document | {document} |\n"
        f"| Do first | {needs} |\n"
        f"| In PyTorch | {anchors} |"
    )


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
    """The chapter's name in words: "2_core_code/3_strides" is "Strides"."""
    words = notebook.rpartition("/")[2].split("_")
    return " ".join(word for word in words if not word.isdigit()).capitalize()


def _anchor_text(anchor: str) -> str:
    path, _, symbol = anchor.partition(" ")
    return f"`{path}`" + (f" (`{symbol}`)" if symbol else "")
