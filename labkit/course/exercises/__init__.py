"""One module per notebook, found by name: `find("tensors.promote")` reads `tensors.py`."""

import importlib
from pathlib import Path

from labkit.course.exercise import Exercise

FOLDER = Path(__file__).parent


class UnknownExercise(KeyError):
    """No exercise has this id."""

    def __str__(self) -> str:
        return str(self.args[0])


def modules() -> list[str]:
    """The names of the exercise modules."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def in_module(module: str) -> tuple[Exercise, ...]:
    """The exercises of one module, in the order the notebook asks them."""
    exercises: tuple[Exercise, ...] = importlib.import_module(f"{__name__}.{module}").EXERCISES
    for exercise in exercises:
        if exercise.id.partition(".")[0] != module:
            raise ValueError(f"exercise {exercise.id!r} lives in {module}.py; its id must say so")
    return exercises


def notebook_of(module: str) -> str:
    """The notebook an exercise module belongs to, as "folder/name"."""
    return str(importlib.import_module(f"{__name__}.{module}").NOTEBOOK)


def find(exercise_id: str) -> Exercise:
    """The exercise with this id.

    Raises   UnknownExercise   there is none; the message lists what there is
    """
    module, _, name = str(exercise_id).partition(".")
    known = modules()
    if module in known:
        for exercise in in_module(module):
            if exercise.name == name:
                return exercise
        known = [exercise.id for exercise in in_module(module)]
    raise UnknownExercise(f"no exercise {exercise_id!r}; there are {', '.join(known) or 'none'}")
