"""Calls on which a part failed in the machine: from then on its check asks them, too."""

import ast
import contextlib
from typing import Any

from labkit.course import exercises
from labkit.course.your_machine.kept_parts import folder, write
from labkit.course.your_machine.written_down import is_plain

KEPT = 20
_in_memory: dict[tuple[str, str], list[tuple[Any, ...]]] = {}


def can_ask(exercise_id: str, inputs: Any) -> bool:
    """Whether the inputs of a call are those of a case: plain data, and the exercise takes them."""
    exercise = exercises.find(exercise_id)
    is_question = exercise.drive is None and exercise.expected is not None
    return is_question and isinstance(inputs, tuple) and is_plain(inputs)


def keep_case(name: str, inputs: Any) -> bool:
    """The call is a case of its exercise from now on; False where it cannot be one."""
    if not can_ask(name, inputs):
        return False
    cases = [*(one for one in cases_of(name) if one != inputs), inputs][-KEPT:]
    where = folder()
    _in_memory[str(where), name] = cases
    if where is not None:
        write(where / f"{name}.cases", "".join(f"{one!r}\n" for one in cases))
    return True


def cases_of(exercise_id: str) -> list[tuple[Any, ...]]:
    """The inputs of these cases; lines that are none are left out."""
    where = folder()
    if where is None:
        return list(_in_memory.get((str(where), exercise_id), []))
    try:
        text = (where / f"{exercise_id}.cases").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return list(_in_memory.get((str(where), exercise_id), []))
    found = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            inputs = ast.literal_eval(line)
            if can_ask(exercise_id, inputs):
                found.append(inputs)
    return found[-KEPT:]
