"""All seats of the machine, from the Python call down to the kernel."""

from labkit.course.your_machine import (
    dispatch,
    engine,
    kernels,
    matrices,
    memory,
    scaling,
    shapes,
)
from labkit.course.your_machine.seat import LAYERS, Seat

_GROUPS = (scaling, dispatch, engine, shapes, memory, kernels, matrices)
_ALL = [seat for group in _GROUPS for seat in group.SEATS]
SEATS: tuple[Seat, ...] = tuple(sorted(_ALL, key=lambda seat: LAYERS.index(seat.layer)))


def seat_of(exercise_id: str) -> Seat | None:
    """The seat that this exercise fills; None where it fills none."""
    return next((seat for seat in SEATS if seat.exercise == exercise_id), None)
