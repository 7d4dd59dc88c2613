"""Points: an exercise is worth one for each of its stages, one where it has none."""

import json
from collections.abc import Iterable

from labkit.course.chapters.editions import tasks
from labkit.course.exercises import find
from labkit.course.notebook_form import Notebook


def worth(exercise_id: str) -> int:
    """The points of one exercise, all of them."""
    return max(1, len(find(exercise_id).stages))


def exercises_of(notebook: Notebook) -> list[str]:
    """The exercises that a notebook checks, each once, in its order."""
    return list(dict.fromkeys(name for task in tasks(notebook) for name in task.ids))


def points(progress: bytes, exercise_ids: Iterable[str]) -> dict[str, int]:
    """The points earned, by exercise; a progress file that cannot be read earned none.

    progress   what the run left behind: an answer could write it, so nothing of it is believed
               beyond the points that there are
    """
    try:
        kept = json.loads(progress)["exercises"]
        states = {name: kept[name] for name in exercise_ids if isinstance(kept.get(name), dict)}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        states = {}
    return {name: _earned(states.get(name, {}), worth(name)) for name in exercise_ids}


def _earned(state: dict[str, object], most: int) -> int:
    if state.get("passed") is True:
        return most
    stages = state.get("stages")
    rows = stages if isinstance(stages, list) else []
    done = sum(isinstance(row, list) and row[1:] == ["done"] for row in rows)
    return min(done, most - 1)
