"""`card` shows where one exercise stands, `progress` where all of them do."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from labkit.course import exercises
from labkit.course.chapters.editions import Task, tasks
from labkit.course.course_map import exercises_passed
from labkit.course.exercise import Exercise
from labkit.course.notebook_form import ROOT, read_notebook
from labkit.course.plan import planned
from labkit.course.progress_file import path, record_give_up, state_of
from labkit.widgets.lesson.exercise_card import ExerciseCard

HEADING = re.compile(r"^#+ .*\n*", re.MULTILINE)
NOT_SHIPPED = "# This edition of the notebook holds no solution: ask whoever gave it to you."


def card(exercise_id: str) -> ExerciseCard:
    """The exercise's card: statement, rules, last evidence, hints earned, solution after the gate.

    Raises   UnknownExercise   there is no such exercise
    """
    exercise = exercises.find(exercise_id)
    return ExerciseCard(on_ask=_asked, **_traits(exercise))


def _traits(exercise: Exercise) -> dict[str, Any]:
    state, task = state_of(exercise.id), task_of(exercise)
    last: dict[str, Any] = state.history[-1] if state.history else {"seed": 0, "failures": []}
    is_open = state.solution_open(len(exercise.hints))
    return {
        "exercise": exercise.id,
        "statement": HEADING.sub("", task.statement) if task else "",
        "rules": list(exercise.rules) or _forbidden(exercise.banned),
        "about": f"{exercise.rung}, about {exercise.minutes} minutes",
        "stages": state.stages,
        "status": state.status,
        "attempts": state.attempts,
        "seed": last["seed"],
        "failures": _in_order(last["failures"]),
        "hints": [text for _, text in state.hints],
        "hints_left": len(exercise.hints) - len(state.hints),
        "solution": (task.solution_code if task else "") or NOT_SHIPPED if is_open else "",
        "reason": task.solution_words if task and is_open else "",
    }


def _forbidden(banned: Sequence[str]) -> list[str]:
    """What may not be called, without names that another one, such as labkit.*, covers."""
    whole = tuple(name.removesuffix("*") for name in banned if name.endswith(".*"))
    told = [name for name in banned if name.endswith(".*") or not name.startswith(whole)]
    return [f"may not call {name}" for name in told]


def task_of(exercise: Exercise) -> Task | None:
    """The exercise in its notebook: the statement above the stub, and the solution."""
    notebook = ROOT / "notebooks" / f"{exercises.notebook_of(exercise.id.partition('.')[0])}.ipynb"
    try:
        found = [task for task in tasks(read_notebook(notebook)) if exercise.id in task.ids]
    except (OSError, ValueError, KeyError):
        found = []
    return found[0] if found else None


def _asked(shown: ExerciseCard, question: str) -> Sequence[dict[str, Any]]:
    exercise = exercises.find(shown.exercise)
    if question == "give up":
        record_give_up(exercise.id)
        with shown.hold_sync():
            for name, value in _traits(exercise).items():
                setattr(shown, name, value)
        return ()
    state = state_of(exercise.id)
    first = state.attempts - len(state.history) + 1
    return [
        {"number": first + at, "seed": one["seed"], "failures": _in_order(one["failures"])}
        for at, one in enumerate(state.history)
    ]


def _in_order(failures: Sequence[Mapping[str, str]]) -> list[list[list[str]]]:
    """The rows of every failing case as lists: a saved notebook sorts the names of a mapping."""
    return [[[name, text] for name, text in rows.items()] for rows in failures]


class Overview:
    """Every written chapter with its exercises and where they stand."""

    def rows(self) -> list[tuple[str, int, int, str]]:
        """(notebook, passed, asked, what is still open); a boss is open, and not asked for."""
        passed = exercises_passed()
        asked = {exercises.notebook_of(module): module for module in exercises.modules()}
        rows = []
        for name in planned():
            if name in asked:
                every = exercises.in_module(asked[name])
                left = [f"{e.name} ({_standing(e)})" for e in every if not state_of(e.id).passed]
                rows.append((name, *passed[name], ", ".join(left)))
        return rows

    def __repr__(self) -> str:
        lines = [f"{name:<44}{done} of {asked}  {left}" for name, done, asked, left in self.rows()]
        return "\n".join([*(line.rstrip() for line in lines), f"kept in {path() or 'memory'}"])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left;padding-right:14px'>{escape(name)}</td>"
            f"<td style='white-space:nowrap'>{done} of {asked}</td>"
            f"<td style='text-align:left'>{escape(left)}</td></tr>"
            for name, done, asked, left in self.rows()
        )
        return (
            "<table><tr><th>chapter</th><th>passed</th><th>open</th></tr>"
            f"{rows}</table><small>kept in {escape(str(path() or 'memory'))}</small>"
        )


def _standing(exercise: Exercise) -> str:
    state = state_of(exercise.id)
    if exercise.stages and state.stages_done:
        return f"{state.stages_done} of {len(exercise.stages)} stages"
    if exercise.rung == "boss" and state.status == "not tried":
        return "optional"
    return state.status


def progress() -> Overview:
    """What is passed and what is open, chapter by chapter."""
    return Overview()
