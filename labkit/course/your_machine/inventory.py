"""What sits in the machine's seats: a part that passed, a file that is refused, or nobody."""

from dataclasses import dataclass
from typing import Any

from labkit.course.exercise import Exercise
from labkit.course.progress_file import record_open
from labkit.course.your_machine.kept_parts import Part, Refused, keep, kept
from labkit.course.your_machine.seat import Seat
from labkit.course.your_machine.seats import SEATS, seat_of
from labkit.course.your_machine.written_down import CannotBeKept


@dataclass
class Sitting:
    """One seat and who sits there.

    part     None where the seat is labkit's
    answer   of the part, ready to be asked
    refused  "" or why the kept file is no part
    """

    seat: Seat
    part: Part | None = None
    answer: Any = None
    refused: str = ""


def inventory() -> list[Sitting]:
    """Every seat, from the Python call down; the exercise of a refused file is open again."""
    return [_sitting(seat) for seat in SEATS]


def _sitting(seat: Seat) -> Sitting:
    try:
        part = kept(seat.exercise)
        answer = None if part is None else part.load()
    except Refused as error:
        record_open(seat.exercise)
        return Sitting(seat, refused=str(error))
    return Sitting(seat, part, answer)


def keep_for_seat(exercise: Exercise, answer: Any) -> str:
    """The answer sits in its exercise's seat, if there is one; says so in a line.

    It passed, whatever becomes of the part: one that cannot be kept is no failure.
    """
    if seat_of(exercise.id) is None:
        return ""
    try:
        keep(exercise, answer)
    except (CannotBeKept, Refused) as error:
        return f"It is no part of your machine: {error}"
    count = sum(_has_part(seat) for seat in SEATS)
    return f"Your machine now has {count} of {len(SEATS)} parts"


def _has_part(seat: Seat) -> bool:
    try:
        return kept(seat.exercise) is not None
    except Refused:
        return False
