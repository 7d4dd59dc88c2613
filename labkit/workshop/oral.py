"""The oral exam on a capstone, as text to print: five questions and the answers to expect.

What is asked stands in labkit/course/oral_exams.yaml.
"""

import functools
import textwrap
from pathlib import Path

import yaml

from labkit import course
from labkit.course.notebook_form import ROOT, read_notebook

FILE = Path(course.__path__[0]) / "oral_exams.yaml"
WIDTH = 96


@functools.cache
def oral_exams() -> dict[str, list[dict[str, str]]]:
    """Chapter -> its questions, each with `ask` and `expect`."""
    read: dict[str, list[dict[str, str]]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return read


def oral_text(chapter: str) -> str:
    """One page: the questions in order, each with its answer.

    Raises   ValueError   there is no oral exam on this chapter
    """
    if chapter not in oral_exams():
        raise ValueError(f"no oral exam on {chapter!r}; there are {', '.join(oral_exams())}")
    notebook = read_notebook(ROOT / "notebooks" / f"{chapter}.ipynb")
    lines = [notebook["metadata"]["labkit"]["title"], f"notebooks/{chapter}.ipynb"]
    for number, question in enumerate(oral_exams()[chapter], 1):
        lines += ["", *_filled(f"{number}  ", question["ask"])]
        lines += _filled("   expect: ", question["expect"])
    return "\n".join(lines)


def _filled(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent="   ")
