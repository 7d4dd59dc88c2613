"""A check in stages, easy ones first: a half-done answer is worth something.

    view_machine = Exercise(
        ...,
        case=chain,                                             # every operation
        stages=(
            Stage("select", case=chain_of("select")),           # cases of its own
            Stage("empty", only=lambda sizes, *_: 0 in sizes),  # or those of `case` that fit
            Stage("together"),                                  # last: every case there is
        ),
    )

Each stage is asked on its own. Where the answer still raises NotImplementedError the stage is
open, not wrong, and says nothing about the others.
"""

import dataclasses
from typing import Any

from labkit.course.exercise import Case, Exercise, Rng, Stage

TRIES = 400
"""Cases made, at most, to find one that a stage's `only` takes."""
GROWS = 20
"""After so many tries the size asked for grows by one."""
SIGNS = {"done": "✓", "wrong": "✗", "open": "·"}


def stage_exercises(exercise: Exercise) -> list[tuple[str, Exercise]]:
    """(name, exercise) of every stage; an exercise without stages is one stage without a name."""
    if not exercise.stages:
        return [("", exercise)]
    *parts, whole = exercise.stages
    return [*((stage.name, _part(exercise, stage)) for stage in parts), (whole.name, exercise)]


def stage_row(stages: list[list[str]]) -> str:
    """`transpose ✓  select ✓  expand ✗  view ·`."""
    return "  ".join(f"{name} {SIGNS[state]}" for name, state in stages)


def _part(exercise: Exercise, stage: Stage) -> Exercise:
    make = stage.case or exercise.case

    def case(rng: Rng, size: int) -> Case | tuple[Any, ...]:
        for tried in range(TRIES):
            made = make(rng, min(size + tried // GROWS, exercise.sizes))
            if stage.only is None or stage.only(*(made.inputs if isinstance(made, Case) else made)):
                return made
        raise ValueError(f"{exercise.id}: no case for the stage {stage.name!r} in {TRIES} tries")

    case.__module__ = exercise.case.__module__  # there the guard looks for what to put away
    return dataclasses.replace(exercise, case=case, cases=stage.cases, stages=())
