"""A chapter cut at its headings: how long each section takes, what it asks and what it predicts."""

import ast
import re
from dataclasses import dataclass, field

from labkit.course import exercises
from labkit.course.chapters.chapter import Part, parts_of, reading_minutes, statements
from labkit.course.chapters.editions import CHECKED
from labkit.course.exercise import Exercise
from labkit.course.notebook_form import Notebook

HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
BLANK = re.compile(r"\{[A-Za-z_]\w*(?::[^{}]*)?\}")


@dataclass(frozen=True)
class Question:
    """A prediction of a chapter.

    reasons  choice -> why it is right or wrong; what only a run can measure is "…"
    """

    cell: str
    text: str
    reasons: dict[str, str]


@dataclass
class Section:
    """What stands between two headings; `name` is "" above the first one.

    minutes  to read, run and predict, without the exercises
    """

    name: str
    minutes: float = 0.0
    exercises: list[Exercise] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


def sections_of(notebook: Notebook) -> list[Section]:
    """The sections of a chapter, in order."""
    front, *parts = parts_of(notebook)
    tasks = statements([front, *parts])
    found, inside = [Section("")], [[front]]
    for part in parts:
        if not part.is_code and (heading := HEADING.search(part.source)):
            found.append(Section(heading[1]))
            inside.append([front])  # of which no minute is counted
        if part.id not in tasks:
            inside[-1].append(part)
        section = found[-1]
        section.exercises += [exercises.find(name) for name in _checked(part)]
        section.questions += [_question(part, call) for call in part.calls("predict")]
    for section, held in zip(found, inside, strict=True):
        section.minutes = reading_minutes(held)
    return found


def _checked(part: Part) -> list[str]:
    return CHECKED.findall(part.source) if "check" in part.tags else []


def _question(part: Part, call: ast.Call) -> Question:
    text, reasons = map(ast.literal_eval, call.args[:2])
    told = {str(choice): BLANK.sub("…", reason) for choice, reason in reasons.items()}
    return Question(part.id, text, told)
