"""What the last training run of the machine told, kept beside the parts as one readable file."""

import contextlib
import json
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from labkit.course.your_machine.kept_parts import folder, write
from labkit.course.your_machine.seating import SeatedRun
from labkit.course.your_machine.training import Trained

_in_memory: dict[str, "LastRun"] = {}


@dataclass
class LastRun:
    """Plain data of one run.

    calls     exercise -> [calls of its seat, those that its part answered]
    seconds   exercise -> [of the part, of labkit for the same calls]
    losses    of "yours", "labkit" and "torch", per step
    troubles  exercise -> why its part was taken out
    """

    day: str = ""
    calls: dict[str, list[int]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The part of all calls at seats that went through the learner's code, 0 to 1."""
        every = sum(calls for calls, _ in self.calls.values())
        return sum(yours for _, yours in self.calls.values()) / every if every else 0.0

    @property
    def percent(self) -> str:
        """The share in whole percent, rounded down: 100 % are all calls."""
        return f"{int(100 * self.share)} %" if self.share >= 0.01 or not self.share else "under 1 %"


def told(run: SeatedRun, done: Trained | None = None) -> LastRun:
    """The run as plain data."""
    tallies = run.tallies.items()
    return LastRun(
        date.today().isoformat(),
        {name: [tally.calls, tally.yours] for name, tally in tallies},
        {name: [tally.seconds, tally.labkits_seconds] for name, tally in tallies},
        {} if done is None else done.losses,
        {trouble.seat.exercise: str(trouble) for trouble in run.troubles},
    )


def keep_run(run: LastRun) -> None:
    """The run is kept, in memory at least."""
    where = folder()
    _in_memory[str(where)] = run
    if where is not None:
        write(where / "last_run.json", json.dumps(asdict(run), indent=1))


def last_run() -> LastRun:
    """The last run; an empty one where there is none, or its file cannot be understood."""
    where = folder()
    if where is not None:
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            return _checked(json.loads((where / "last_run.json").read_text(encoding="utf-8")))
    return _in_memory.get(str(where), LastRun())


def _checked(data: Any) -> LastRun:
    """The run that a file tells of.

    Raises   TypeError, ValueError, AttributeError   it has another shape
    """
    run = LastRun(**data)
    for pairs in (run.calls, run.seconds):
        if not all(len(pair) == 2 and min(pair) >= 0 for pair in pairs.values()):
            raise ValueError(f"pairs of numbers, got {pairs}")
    if not all(isinstance(x, float) for losses in run.losses.values() for x in losses):
        raise ValueError("losses are numbers")
    if not all(isinstance(text, str) for text in (run.day, *run.troubles.values())):
        raise ValueError("texts")
    return run
