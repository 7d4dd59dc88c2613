"""What the learners' folders say, as plain data for the teacher's page.

Learners own the files that are read here, so nothing in them is believed: a link, a pipe, a file
too large or of another shape is as good as none.
"""

import functools
import json
import os
import stat
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labkit.course import exercises
from labkit.course.exercise import Exercise
from labkit.workshop.calls import last_call
from labkit.workshop.folders import Workshop
from labkit.workshop.plan import stops
from labkit.workshop.roster import TEACHER, read_roster

LARGEST = 4 << 20
LONGEST = 2000
"""Of a text that is shown: an answer may print a book."""
STUCK = 3
"""So many different wrong answers to an exercise, and none right."""
programme = functools.cache(stops)
"""The stops of a programme; a room's course is frozen, so its chapters are read once."""


def read_json(file: Path) -> dict[str, Any]:
    """The object in a learner's file, {} where there is none to be had."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST or found.st_nlink > 1:
                return {}
            read = json.loads(opened.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def observe(workshop: Workshop) -> dict[str, Any]:
    """Learners, exercises, the plan, and where all are called to, as they are now."""
    names = sorted(set(read_roster(workshop.roster)) - {TEACHER})
    kept = {name: _progress(workshop.of(name)) for name in names}
    learners = [_learner(workshop.of(name), name, kept[name]) for name in names]
    return {
        "learners": learners,
        "exercises": [row for e in _known() if (row := _exercise(e, kept))["tried"]],
        "plan": _plan(workshop.settings["hours"], learners),
        "called": asdict(called) if (called := last_call(workshop.called)) else None,
    }


def _plan(hours: int, learners: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "chapter": stop.chapter,
            "title": stop.title,
            "minutes": stop.minutes,
            "here": sum(one["chapter"] == stop.chapter for one in learners),
            "sections": [section.name for section in stop.done if section.name],
        }
        for stop in programme(hours)
    ]


def _known() -> list[Exercise]:
    return [e for module in exercises.modules() for e in exercises.in_module(module)]


def _progress(home: Path) -> dict[str, dict[str, Any]]:
    """Exercise id -> what is kept of it, of the shape that it should have."""
    found = read_json(home / "progress.json").get("exercises")
    if not isinstance(found, dict):
        return {}
    return {str(key): _state(value) for key, value in found.items() if isinstance(value, dict)}


def _state(kept: dict[str, Any]) -> dict[str, Any]:
    hints = [text(pair[1]) for pair in _pairs(kept.get("hints"))]
    history = kept.get("history")
    last = history[-1] if isinstance(history, list) and history else {}
    failures = last.get("failures") if isinstance(last, dict) else None
    rows = failures[0] if isinstance(failures, list) and failures else {}
    attempts = kept.get("attempts")
    return {
        "passed": kept.get("passed") is True,
        "gave_up": kept.get("gave_up") is True,
        "attempts": attempts if isinstance(attempts, int) else 0,
        "hints": hints,
        "stages": [[text(name), text(state)] for name, state in _pairs(kept.get("stages"))],
        "case": [[text(k), text(v)] for k, v in rows.items()] if isinstance(rows, dict) else [],
    }


def _pairs(value: Any) -> list[Any]:
    rows = value if isinstance(value, list) else []
    return [row for row in rows if isinstance(row, list) and len(row) == 2]


def text(value: Any) -> str:
    """A text that may be shown."""
    return str(value)[:LONGEST]


def _learner(home: Path, name: str, kept: dict[str, dict[str, Any]]) -> dict[str, Any]:
    note = read_json(home / "room.json")
    at = note.get("at")
    doing = text(note.get("exercise", ""))
    state = kept.get(doing)
    return {
        "name": name,
        "chapter": text(note.get("chapter", "")),
        "section": text(note.get("section", "")),
        "failed": text(note.get("failed", "")),
        "seconds": max(0, round(time.time() - at)) if isinstance(at, int | float) else None,
        "passed": sum(one["passed"] for one in kept.values()),
        "exercise": doing if state else "",
        "state": state,
        "stuck": sorted(
            key for key, one in kept.items() if not one["passed"] and one["attempts"] >= STUCK
        ),
    }


def _exercise(exercise: Exercise, kept: dict[str, dict[str, dict[str, Any]]]) -> dict[str, Any]:
    states = {name: each[exercise.id] for name, each in kept.items() if exercise.id in each}
    failing = {name: s for name, s in states.items() if s["attempts"] and not s["passed"]}
    return {
        "id": exercise.id,
        "chapter": exercises.notebook_of(exercise.id.partition(".")[0]),
        "tried": len(states),
        "passed": sum(state["passed"] for state in states.values()),
        "gave_up": sum(state["gave_up"] for state in states.values()),
        "stages": _wrong_stages(exercise, list(failing.values())) if exercise.stages else [],
        "failing": [
            {"name": name, "attempts": s["attempts"], "hints": s["hints"], "case": s["case"]}
            for name, s in sorted(failing.items())
        ],
    }


def _wrong_stages(exercise: Exercise, failing: list[dict[str, Any]]) -> list[list[Any]]:
    """[stage, for how many it is wrong]; stages are kept once one of them is done."""
    none = sum(not state["stages"] for state in failing)
    return [
        ["no stage done yet", none],
        *(
            [stage.name, sum([stage.name, "wrong"] in state["stages"] for state in failing)]
            for stage in exercise.stages
        ),
    ]
