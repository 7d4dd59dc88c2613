"""Runs on a simulated clock: who did what when is exact, and no second of it takes a second.

    run = SimulatedRun()
    frame = run.do("loader", "frame 0", 3000, "input")
    copied = run.do("bus", "copy 0", 1000, "copy", after=[frame])

A `QueuedDevice` is a host and a device on such a clock, with the calls that a program makes.
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

    def wait(self, lane: str, on: Iterable[int]) -> None:
        """The lane goes on when these have ended; where they have, nothing is written down."""
        begin, causes = self.until(lane), list(on)
        if max((self.spans[cause]["end"] for cause in causes), default=begin) > begin:
            self.spans[self.do(lane, "wait", 0, "wait", causes)]["start"] = begin

    def until(self, lane: str) -> float:
        """When the lane will have done all its work."""
        return self.spans[self._last[lane]]["end"] if lane in self._last else 0

    def last(self, lane: str) -> list[int]:
        """The newest work of the lane, in a list, or nothing."""
        return [self._last[lane]] if lane in self._last else []


class Event:
    """A mark in the queue of a `QueuedDevice`: when the device came to it.

    Source   torch/cuda/streams.py  Event
    """

    def __init__(self, device: "QueuedDevice") -> None:
        self._device = device
        self._at = max(device.run.until("device"), device.now())

    def query(self) -> bool:
        """Whether the device has come to it by now."""
        return self._at <= self._device.now()

    def elapsed_time(self, end: "Event") -> float:
        """The device's µs from this mark to that one.

        Raises   RuntimeError   the device has not come to both
        """
        if not (self.query() and end.query()):
            raise RuntimeError("the device has not come to this event yet: synchronize first")
        return end._at - self._at


class QueuedDevice:
    """A host, and a device that works off a queue in order; one clock in µs.

    queueing  µs of the host that it takes to put one piece of work into the queue
    """

    def __init__(self, queueing: float = 20) -> None:
        self.run, self.queueing = SimulatedRun(), queueing

    def now(self) -> float:
        """The host's clock."""
        return self.run.until("host")

    def host(self, name: str, us: float) -> None:
        """The host works."""
        self.run.do("host", name, us, "host")

    def launch(self, name: str, us: float, kind: str = "kernel") -> None:
        """Work for the device is in its queue; the host goes on."""
        queued = self.run.do("host", f"queue {name}", self.queueing, "host")
        self.run.do("device", name, us, kind, [queued])

    def copy(self, name: str, us: float) -> None:
        """A copy is in the queue; the host goes on."""
        self.launch(name, us, "copy")

    def synchronize(self) -> None:
        """The host waits until the queue is empty."""
        self.run.wait("host", self.run.last("device"))

    def event(self) -> Event:
        """A mark behind all that is in the queue now."""
        return Event(self)
