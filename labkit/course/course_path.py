"""`path`: which chapter comes next, and why; one straight line per goal.

    course.path()              # every goal, the one begun open
    course.path("memory")      # that of "I debug memory"

A stop is a question and a link that opens the notebook. Chapters not written yet are left out; the
graph of what needs what stands behind "all chapters".
"""

import functools
import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import yaml

from labkit.course import exercises
from labkit.course.exercise import Exercise
from labkit.course.notebook_form import ROOT, notebook_name, read_notebook
from labkit.course.plan import planned
from labkit.course.progress_file import state_of

FILE = Path(__file__).with_name("paths.yaml")
HERE = "JPY_SESSION_NAME"
"""Where Jupyter tells a kernel which notebook it runs."""


@functools.cache
def lines() -> dict[str, dict[str, Any]]:
    """Name -> its goal and its stops, in the order recommended."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Stop:
    """One chapter of a line, with how far its reader has come.

    passed, asked  its exercises without the boss
    """

    name: str
    question: str
    time: str
    passed: int
    asked: int

    @property
    def done(self) -> bool:
        """Whether every exercise but the boss is passed."""
        return self.passed == self.asked > 0

    def link(self) -> str:
        """The address of the notebook, seen from the one that runs."""
        target = ROOT / "notebooks" / f"{self.name}.ipynb"
        return Path(os.path.relpath(target, Path.cwd())).as_posix()


@functools.cache
def _about(name: str) -> dict[str, Any] | None:
    """What the notebook says of itself, None when it is not written."""
    file = ROOT / "notebooks" / f"{name}.ipynb"
    about: dict[str, Any] | None = (
        read_notebook(file)["metadata"].get("labkit") if file.exists() else None
    )
    return about


def stops_of(line: str) -> list[Stop]:
    """The written chapters of a line, with the reader's progress."""
    return [
        _stop(name, about) for name in lines()[line]["stops"] if (about := _about(name)) is not None
    ]


def _stop(name: str, about: dict[str, Any]) -> Stop:
    asked = [e for e in _exercises().get(name, ()) if e.rung != "boss"]
    return Stop(
        name=name,
        question=about["title"],
        time=f"{about['minutes']} min + {about['exercise_minutes']} min exercises",
        passed=sum(state_of(exercise.id).passed for exercise in asked),
        asked=len(asked),
    )


@functools.cache
def _exercises() -> dict[str, tuple[Exercise, ...]]:
    return {exercises.notebook_of(m): exercises.in_module(m) for m in exercises.modules()}


def here() -> str:
    """The chapter whose kernel this is, "" when it is none of the course."""
    running = Path.cwd() / Path(os.environ.get(HERE, "")).name  # it runs where its file lies
    folder = ROOT / "notebooks"
    if running.suffix == ".ipynb" and running.resolve().is_relative_to(folder):
        return notebook_name(running, folder)
    return ""


class CoursePath:
    """The lines of the course: the one of a goal, or all of them with the one begun open."""

    def __init__(self, goal: str | None = None) -> None:
        if goal is not None and goal not in lines():
            raise KeyError(f"no goal {goal!r}; there are {', '.join(lines())}")
        self.stops = {name: stops_of(name) for name in ([goal] if goal else lines())}
        self.here = here()
        self.line = goal or max(self.stops, key=self._begun)

    def _begun(self, line: str) -> tuple[bool, float]:
        """Whether this chapter is on a line past its start, and how far it was gone past it."""
        stops = self.stops[line][1:]
        share = sum(stop.passed for stop in stops) / max(1, sum(stop.asked for stop in stops))
        return self.here in [stop.name for stop in stops], share

    @property
    def is_fork(self) -> bool:
        """Whether no line has been chosen: all are shown, and none is begun past its start."""
        begun = any(stop.passed for stops in self.stops.values() for stop in stops[1:])
        return len(self.stops) > 1 and not begun and self.here in {"", *self._starts}

    @property
    def _starts(self) -> set[str]:
        return {stops[0].name for stops in self.stops.values() if stops}

    def next_of(self, line: str) -> Stop | None:
        """The first stop of a line behind this chapter that is not done, else any not done.

        The start that all lines share is nobody's next once he has begun a stop behind it.
        """
        stops = self.stops[line]
        begun = any(stop.passed for stop in stops[1:])
        passed_by = {self.here, *(self._starts if self.is_fork or begun else ())}
        names = [stop.name for stop in stops]
        after = names.index(self.here) + 1 if self.here in names else 0
        waiting = [
            s for s in (*stops[after:], *stops[:after]) if not s.done and s.name not in passed_by
        ]
        return waiting[0] if waiting else None

    @property
    def next(self) -> Stop | None:
        """The next stop of the line that is open."""
        return self.next_of(self.line)

    def beside(self, line: str, stop: Stop) -> list[Stop]:
        """What a stop needs that is not done and lies on other lines only; of one done, nothing."""
        if stop.done:
            return []
        on_line = lines()[line]["stops"]
        needed = [name for name in planned()[stop.name]["needs"] if name not in on_line]
        found = [_stop(name, about) for name in needed if (about := _about(name)) is not None]
        return [one for one in found if not one.done]

    def __repr__(self) -> str:
        rows = []
        for line, stops in self.stops.items():
            rows.append(f"{lines()[line]['goal']} ({line})")
            for stop in stops:
                chosen = self.next_of(line) if self.is_fork else self.next
                mark = "✓" if stop.done else "→" if stop == chosen else " "
                here = "  you are here" if stop.name == self.here else ""
                rows.append(f"  {mark} {stop.question}  {stop.passed} of {stop.asked}{here}")
                rows += [
                    f"      needs, from another line: {b.name}" for b in self.beside(line, stop)
                ]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        graph = _graph_html()
        first = self._fork_html() if self.is_fork else self._next_html()
        parts = [first, *map(self._line_html, self.stops), graph]
        return f'<div class="lk-path">{"".join(parts)}</div>'

    def _fork_html(self) -> str:
        """One link for each line: whoever has chosen none is not sent along one."""
        rows = []
        for line in self.stops:
            if (stop := self.next_of(line)) is not None:
                rows.append(
                    f"<li><b>{escape(str(lines()[line]['goal']))}</b>: "
                    f'<a href="{escape(stop.link())}">{escape(stop.question)}</a></li>'
                )
        return f"<p><b>Next</b>, as you choose:</p><ul>{''.join(rows)}</ul>"

    def _next_html(self) -> str:
        stop = self.next
        goal = escape(str(lines()[self.line]["goal"]))
        if stop is None:
            return f"<p>“{goal}”: every stop is done. Choose another line.</p>"
        about = _about(stop.name) or {}
        builds = f", and you build {escape(about['builds'])}" if about.get("builds") else ""
        return (
            f'<p style="font-size:115%"><b>Next:</b> <a href="{escape(stop.link())}">'
            f"{escape(stop.question)}</a></p>"
            f"<p>{escape(stop.time)}. It is the next stop of “{goal}”{builds}."
            f"{self._beside_html(self.line, stop)}</p>"
        )

    def _beside_html(self, line: str, stop: Stop) -> str:
        links = ", ".join(
            f'<a href="{escape(one.link())}">{escape(one.question)}</a>'
            for one in self.beside(line, stop)
        )
        return f"<br><small>Needs, from another line: {links}</small>" if links else ""

    def _line_html(self, line: str) -> str:
        stops = self.stops[line]
        done = sum(stop.done for stop in stops)
        rows = "".join(self._stop_html(line, stop) for stop in stops)
        opened = " open" if line == self.line and not self.is_fork else ""
        return (
            f"<details{opened}><summary><b>{escape(str(lines()[line]['goal']))}</b>: "
            f"{len(stops)} stops, {done} done</summary><ol>{rows}</ol></details>"
        )

    def _stop_html(self, line: str, stop: Stop) -> str:
        mark = "✓ done, " if stop.done else ""
        place = " <b>← you are here</b>" if stop.name == self.here else ""
        return (
            f'<li><a href="{escape(stop.link())}">{escape(stop.question)}</a>{place}<br>'
            f"<small>{mark}{stop.passed} of {stop.asked} exercises, {escape(stop.time)}</small>"
            f"{self._beside_html(line, stop)}</li>"
        )


def _graph_html() -> str:
    from labkit.course.course_map import map_html

    return f"<details><summary>All chapters</summary>{map_html()}</details>"


def path(goal: str | None = None) -> CoursePath:
    """The next chapter and why, and the stops of every goal or of one.

    goal  a key of `labkit/course/paths.yaml`: views, memory, gradients, kernels or source

    Raises   KeyError   there is no such goal
    """
    return CoursePath(goal)
