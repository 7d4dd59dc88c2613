"""The training run: the learner's parts, labkit alone and PyTorch, on the same digits."""

import contextlib
import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.course.your_machine import network
from labkit.course.your_machine.seat import Seat
from labkit.course.your_machine.seating import SeatedRun, StepLost, seated

STEPS = 24
TOLERANCE = 1e-3
"""How far a loss may be from labkit's and from PyTorch's: float32 sums in another order."""


@dataclass
class Trained:
    """What came of a run.

    losses  per step, of "yours", "labkit" and "torch"
    run     who sat where, and what went through
    """

    losses: dict[str, list[float]]
    run: SeatedRun

    @property
    def apart(self) -> float:
        """The largest distance between a loss of yours and one of the other two."""
        others = [self.losses["labkit"], self.losses["torch"]]
        pairs = [pair for other in others for pair in zip(self.losses["yours"], other, strict=True)]
        return max(abs(a - b) for a, b in pairs)

    @property
    def is_equal(self) -> bool:
        """Whether all three went the same way."""
        return self.apart <= TOLERANCE


def trained(
    seats: Sequence[Seat], answers: Mapping[str, Any], steps: int = STEPS, compares: bool = True
) -> Trained:
    """The network has been trained three times, from the same numbers.

    Calls at the empty seats are counted in the run of labkit alone: in the learner's run they are
    labkit's own functions, and cost nothing.
    """
    losses: dict[str, list[float]] = {"torch": _losses(network.torchs(steps), steps)}
    with caching(), seated(seats, {}) as empty:
        losses["labkit"] = _losses(network.labkits(steps), steps)
    filled = [seat for seat in seats if seat.exercise in answers]
    with caching(), seated(filled, answers, compares) as run:
        losses["yours"] = _losses(network.labkits(steps), steps)
    run.seats, run.tallies = seats, {**empty.tallies, **run.tallies}
    return Trained(losses, run)


def _losses(step: network.Step, steps: int) -> list[float]:
    """The loss of every step."""
    return [done_step(step, number) for number in range(steps)]


def done_step(step: network.Step, number: int) -> float:
    """The loss of a step; one in whose middle a part was taken out is done again."""
    try:
        return step(number)
    except StepLost:
        return step(number)


@contextlib.contextmanager
def caching() -> Iterator[None]:
    """Inside, memory on "cuda" comes from labkit's caching allocator, as in PyTorch."""
    from labkit.cuda import current_driver
    from labkit.memory.storages.serving import allocator_on_device, serve_cupy

    allocator = allocator_on_device()
    with serve_cupy(allocator):
        yield
    if allocator.allocated_bytes:  # an error on the way keeps what it passed
        gc.collect()
    current_driver().synchronize()
    allocator.empty_cache()
