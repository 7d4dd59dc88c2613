"""`labkit workshop plan`: for each chapter what to say, ask, expect, and leave out when late."""

import functools
import textwrap
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
class Stop:
    """One chapter of a programme: what is done of it, and what its teacher says.

    minutes  what the programme gives it
    done     the sections that are done; exercises: ids of those that are
    """

    chapter: str
    title: str
    minutes: int
    bridge: str
    say: str
    question: Question
    right: str
    expect: str
    late: str
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
    said = workshops()["chapters"][chapter]
    notebook = read_notebook(ROOT / "notebooks" / f"{chapter}.ipynb")
    done = _done(chapter, sections_of(notebook), entry["until"], entry.get("without", []))
    asked = [e for section in done for e in section.exercises if e.name in entry["exercises"]]
    _same(chapter, "exercises", entry["exercises"], [exercise.name for exercise in asked])
    questions = [q for section in done for q in section.questions if q.cell == said["ask"]]
    _same(chapter, "ask", [said["ask"]], [question.cell for question in questions])
    late = entry.get("late", said["late"])
    right, expect = str(said["right"]), str(said["expect"])
    known = [choice for choice in (right, expect) if choice in questions[0].reasons]
    _same(chapter, "choices", [right, expect], known)
    _same(chapter, "late", [late], [section.name for section in done if section.name == late])
    return Stop(
        chapter=chapter,
        title=notebook["metadata"]["labkit"]["title"],
        minutes=entry["minutes"],
        bridge=entry.get("bridge", ""),
        say=said["say"],
        question=questions[0],
        right=right,
        expect=expect,
        late=late,
        done=done,
        exercises=tuple(exercise.id for exercise in asked),
    )


def _done(
    chapter: str, found: list[Section], until: str, without: list[str]
) -> tuple[Section, ...]:
    names = [section.name for section in found]
    _same(chapter, "until", [until], [name for name in names if name == until])
    reached = found[: names.index(until) + 1]
    left_out = [section.name for section in reached if section.name in without]
    _same(chapter, "without", without, left_out)
    return tuple(section for section in reached if section.name not in without)


def _same(chapter: str, what: str, named: list[str], found: list[str]) -> None:
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
    late = next(section for section in stop.done if section.name == stop.late)
    reasons = stop.question.reasons
    done = [f"{_name(each)} {max(1, round(stop.minutes_of(each)))}" for each in stop.done]
    return [
        f"{head:<{WIDTH - 7}}{stop.minutes:>3} min",
        *_row("open", f"notebooks/{stop.chapter}.ipynb"),
        *(_row("bridge", stop.bridge) if stop.bridge else []),
        *_row("say", stop.say),
        *_row("do", "; ".join(done)),
        *_row("ask", f"{stop.question.text} ({' / '.join(reasons)})"),
        *_row("expect", f"{stop.expect}. {reasons[stop.expect]}"),
        *_row("right", f"{stop.right}. {reasons[stop.right]}"),
        *_row("when late", f"leave out: {_name(late)} ({stop.minutes_of(late):.0f} min)"),
    ]  # fmt: skip


def _name(section: Section) -> str:
    return section.name.replace("`", "") or "the puzzle"


def _row(label: str, text: str) -> list[str]:
    indent = " " * (6 + LABEL)
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"      {label:<{LABEL}}", subsequent_indent=indent
    )
