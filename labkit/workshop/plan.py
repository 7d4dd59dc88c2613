"""`labkit workshop plan`: what to say, ask, expect, and leave out when late, stop by stop."""

import functools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from labkit import course
from labkit.course.notebook_form import ROOT, read_notebook
from labkit.workshop.sections import Question, Section, sections_of

FILE = Path(course.__path__[0]) / "workshops.yaml"
WIDTH = 96
LABEL = 11


@functools.cache
def workshops() -> dict[str, Any]:
    """What the file says: `programmes` by hours, and `chapters` by name."""
    read: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return read


@dataclass(frozen=True)
class Lesson:
    """What a teacher says of a chapter, and asks the room.

    say       the one sentence to remember
    question  a prediction of the chapter; `right` and `expect` are two of its choices
    late      the section to leave out
    """

    say: str
    question: Question
    right: str
    expect: str
    late: Section


@dataclass(frozen=True)
class Stop:
    """One chapter of a programme, and what is done of it.

    minutes  what the programme gives it
    done     the sections that are done; exercises: ids of those that are
    """

    chapter: str
    title: str
    minutes: int
    bridge: str
    lesson: Lesson
    done: tuple[Section, ...]
    exercises: tuple[str, ...]

    @property
    def needed(self) -> float:
        """Minutes that a reader alone needs for it, by the chapter's own count."""
        return sum(map(self.minutes_of, self.done))

    def minutes_of(self, section: Section) -> float:
        """Minutes for one section, with the exercises that are done in it."""
        asked = [e.minutes for e in section.exercises if e.id in self.exercises]
        return section.minutes + sum(asked)


def stops(hours: int) -> list[Stop]:
    """The stops of a programme.

    Raises   ValueError   the file names what the chapter does not hold
    """
    return [_stop(entry) for entry in workshops()["programmes"][hours]["stops"]]


def _stop(entry: dict[str, Any]) -> Stop:
    chapter = entry["chapter"]
    notebook = read_notebook(ROOT / "notebooks" / f"{chapter}.ipynb")
    done = _done(chapter, sections_of(notebook), entry["until"], entry.get("without", []))
    asked = [e for section in done for e in section.exercises if e.name in entry["exercises"]]
    same(chapter, "exercises", entry["exercises"], [exercise.name for exercise in asked])
    return Stop(
        chapter=chapter,
        title=notebook["metadata"]["labkit"]["title"],
        minutes=entry["minutes"],
        bridge=entry.get("bridge", ""),
        lesson=lesson_of(chapter, done, entry.get("late")),
        done=done,
        exercises=tuple(exercise.id for exercise in asked),
    )


def lesson_of(chapter: str, done: Sequence[Section], late: str | None = None) -> Lesson:
    """What the file says of a chapter, found in those of its sections that are done.

    late     a section to leave out instead of the one that the file names
    Raises   ValueError   the file names what these sections do not hold
    """
    said = workshops()["chapters"][chapter]
    questions = [q for section in done for q in section.questions if q.cell == said["ask"]]
    same(chapter, "ask", [said["ask"]], [question.cell for question in questions])
    right, expect = str(said["right"]), str(said["expect"])
    known = [choice for choice in (right, expect) if choice in questions[0].reasons]
    same(chapter, "choices", [right, expect], known)
    late = late or said["late"]
    left_out = [section for section in done if section.name == late]
    same(chapter, "late", [late], [section.name for section in left_out])
    return Lesson(said["say"], questions[0], right, expect, left_out[0])


def _done(
    chapter: str, found: list[Section], until: str, without: list[str]
) -> tuple[Section, ...]:
    names = [section.name for section in found]
    same(chapter, "until", [until], [name for name in names if name == until])
    reached = found[: names.index(until) + 1]
    left_out = [section.name for section in reached if section.name in without]
    same(chapter, "without", without, left_out)
    return tuple(section for section in reached if section.name not in without)


def same(chapter: str, what: str, named: list[str], found: list[str]) -> None:
    """Raise ValueError if the file names anything else than what the chapter holds."""
    if named != found:
        raise ValueError(f"{FILE.name}: {chapter}: {what} are {named}, in the chapter {found}")


def plan_text(hours: int) -> str:
    """The plan as text to print: two pages for two hours."""
    programme = workshops()["programmes"][hours]
    lines = [
        f"{programme['title']}: {hours} hours, {programme['breaks']} minutes of them breaks",
        f"For {programme['audience']}.",
    ]
    clock = 0
    for stop in stops(hours):
        lines += ["", *_stop_lines(stop, clock)]
        clock += stop.minutes
    return "\n".join([*lines, "", f"{clock // 60}:{clock % 60:02}  The end, breaks not counted."])


def _stop_lines(stop: Stop, clock: int) -> list[str]:
    head = f"{clock // 60}:{clock % 60:02}  {stop.title}"
    done = [f"{name_of(each)} {max(1, round(stop.minutes_of(each)))}" for each in stop.done]
    lesson = stop.lesson
    return [
        f"{head:<{WIDTH - 7}}{stop.minutes:>3} min",
        *row("open", f"notebooks/{stop.chapter}.ipynb"),
        *(row("bridge", stop.bridge) if stop.bridge else []),
        *row("say", lesson.say),
        *row("do", "; ".join(done)),
        *asked(lesson),
        *row("when late", leave_out(lesson.late, stop.minutes_of(lesson.late))),
    ]  # fmt: skip


def asked(lesson: Lesson) -> list[str]:
    """The question for the room, the wrong answer to expect, and the right one."""
    reasons = lesson.question.reasons
    return [
        *row("ask", f"{lesson.question.text} ({' / '.join(reasons)})"),
        *row("many say", f"{lesson.expect}. {reasons[lesson.expect]}"),
        *row("right", f"{lesson.right}. {reasons[lesson.right]}"),
    ]


def leave_out(section: Section, minutes: float) -> str:
    """What a teacher who is late does without, and how long that took."""
    return f"leave out: {name_of(section)} ({minutes:.0f} min)"


def name_of(section: Section) -> str:
    """Its heading, as plain text."""
    return section.name.replace("`", "") or "the puzzle"


def row(label: str, text: str) -> list[str]:
    """Lines of one labelled text."""
    indent = " " * (6 + LABEL)
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"      {label:<{LABEL}}", subsequent_indent=indent
    )
