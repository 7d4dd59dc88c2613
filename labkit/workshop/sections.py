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
RULE = re.compile(r"\*\*(Rule \d+\..+?)\*\*", re.DOTALL)
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
    rules    its numbered rules, as the chapter words them
    """

    name: str
    minutes: float = 0.0
    exercises: list[Exercise] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    @property
    def alone(self) -> float:
        """Minutes for a reader who also solves its exercises, the optional one left out."""
        return self.minutes + sum(each.minutes for each in self.exercises if each.rung != "boss")


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
        if not part.is_code:
            section.rules += [" ".join(rule.split()) for rule in RULE.findall(part.source)]
        section.exercises += [exercises.find(name) for name in _checked(part)]
        section.questions += [_question(part, call) for call in part.calls("predict")]
    for section, held in zip(found, inside, strict=True):
        section.minutes = reading_minutes(held)
    return found


def _checked(part: Part) -> list[str]:
    return CHECKED.findall(part.source) if "check" in part.tags else []


def _question(part: Part, call: ast.Call) -> Question:
    text, reasons = call.args[:2]
    assert isinstance(reasons, ast.Dict)
    choices = [str(ast.literal_eval(choice)) for choice in reasons.keys if choice is not None]
    told = [BLANK.sub("…", _told(reason)) for reason in reasons.values]
    return Question(part.id, _told(text), dict(zip(choices, told, strict=True)))


def _told(text: ast.expr) -> str:
    """A text of the chapter, with "…" for what an f-string measures."""
    if isinstance(text, ast.JoinedStr):
        parts = [_told(each) if isinstance(each, ast.Constant) else "…" for each in text.values]
        return "".join(parts)
    return str(ast.literal_eval(text))
