"""The one simulated clock: who did what when is exact, and no second of it takes a second.

    run = SimulatedRun()
    frame = run.do("loader", "frame 0", 3000, "input")
    copied = run.do("bus", "copy 0", 1000, "copy", after=[frame])

`emulator.clocked.ClockedQueue` gives the emulated device such a clock, and
`pipeline.profiling.queued_device.QueuedDevice` a device that has no memory.
"""

from collections.abc import Iterable
from typing import Any

Span = dict[str, Any]
"""One piece of work: lane, name, kind, start, end (µs) and after, the indices of what it waited
for; `show.timeline` draws it."""


class SimulatedRun:
    """Pieces of work in lanes: each begins when its lane is free and all it waits for has ended."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._last: dict[str, int] = {}

    def do(
        self,
        lane: str,
        name: str,
        us: float,
        kind: str = "",
        after: Iterable[int] = (),
        **about: Any,
    ) -> int:
        """The work stands behind all that its lane has; returns its index.

        kind   "host", "input", "copy", "kernel" or "wait"; a lane's work may be of several kinds
        after  indices of work that ends before this begins
        about  more to be known of it

        Raises   ValueError   it would end before it begins
        """
        if us < 0:
            raise ValueError(f"{name} would take {us} µs")
        causes = sorted({*after, *([self._last[lane]] if lane in self._last else [])})
        start = max((self.spans[cause]["end"] for cause in causes), default=0)
        self.spans.append(
            {"lane": lane, "name": name, "kind": kind, "start": start, "end": start + us,
             "after": causes, **about}
        )  # fmt: skip
        self._last[lane] = len(self.spans) - 1
        return self._last[lane]

    def wait(self, lane: str, on: Iterable[int], name: str = "wait") -> None:
        """The lane goes on when these have ended; where they have, nothing is written down."""
        begin, causes = self.until(lane), list(on)
        if max((self.spans[cause]["end"] for cause in causes), default=begin) > begin:
            self.spans[self.do(lane, name, 0, "wait", causes)]["start"] = begin

    def until(self, lane: str) -> float:
        """When the lane will have done all its work."""
        return self.spans[self._last[lane]]["end"] if lane in self._last else 0

    def last(self, lane: str) -> list[int]:
        """The newest work of the lane, in a list, or nothing."""
        return [self._last[lane]] if lane in self._last else []
