"""A queue with a clock: work takes the microseconds that are stated for it, and none of them pass.

    queue = ClockedQueue({"memcpy host to device": 4, "memcpy device to device": 6}, asks=1)
    device = EmulatorDriver(queue=queue, why="to have a clock")

The host's clock goes on when it asks for work, when it waits, and by `host`. The device has one
engine for copies from the host and one for everything else; each does what it is given in the order
in which it was asked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from labkit.cuda.emulator.queue import Work, WorkQueue
from labkit.cuda.operation import Node

FROM_HOST = "memcpy host to device"
MARKS = ("record", "wait", "graph")
LEAST_ASK = 1.0
"""Microseconds of a question whether something is done, where asking is free."""


@dataclass(frozen=True)
class Span:
    """What the host or an engine did from one moment to another, in microseconds."""

    lane: str
    name: str
    start: float
    end: float


class ClockedQueue(WorkQueue):
    """A `WorkQueue` in which each piece of work has a beginning and an end.

    takes  microseconds of a piece of work by its name; what is not named takes none
    asks   microseconds that the host needs to queue one; a graph is one, a mark costs nothing
    now    the host's clock

    Differs  a copy moves all its bytes at its end, and a kernel uses its whole engine.
    """

    def __init__(self, takes: Mapping[str, float], asks: float = 0.0) -> None:
        super().__init__(None)
        self.takes, self.asks = dict(takes), asks
        self.now = 0.0
        self.spans: list[Span] = []
        self._ends: dict[int, float] = {}
        self._free_at: dict[str, float] = {}
        self._in_graph = False

    def host(self, microseconds: float, name: str = "host") -> None:
        """The host has worked for so long; the device went on."""
        if microseconds:
            self.spans.append(Span("host", name, self.now, self.now + microseconds))
        self._pass_to(self.now + microseconds)

    def enqueue(
        self,
        stream: int,
        kind: str,
        name: str,
        run: Callable[[], None] | None,
        after: Iterable[Work] = (),
    ) -> Work:
        """The work is queued behind its stream's last, and behind `after`; its end is known."""
        if not self._in_graph and kind not in MARKS:
            self.host(self.asks, "asks")
        work = super().enqueue(stream, kind, name, run, after)
        begin = max([self.now, *(self._ends.get(earlier, 0.0) for earlier in work.dep_ids)])
        if kind in MARKS:
            self._ends[work.id] = begin
        else:
            lane = "copies" if name == FROM_HOST else "work"
            begin = max(begin, self._free_at.get(lane, 0.0))
            end = self._ends[work.id] = self._free_at[lane] = begin + self.takes.get(name, 0.0)
            self.spans.append(Span(lane, name, begin, end))
        self._pass_to(self.now)
        return work

    def enqueue_graph(
        self,
        stream: int,
        branches: Sequence[int],
        nodes: Sequence[Node],
        work: Sequence[Callable[[], None]],
    ) -> None:
        """Every node is queued; the host has asked once."""
        self.host(self.asks, "asks for a graph")
        self._in_graph = True
        try:
            super().enqueue_graph(stream, branches, nodes, work)
        finally:
            self._in_graph = False

    def run_until(self, target: Work | None) -> None:
        """The host has waited for `target`, or for everything."""
        waited_for = list(self._pending) if target is None else [target.id]
        until = max([self.now, *(self._ends.get(one, 0.0) for one in waited_for)])
        if until > self.now:
            self.spans.append(Span("host", "waits", self.now, until))
        self._pass_to(until)

    def step(self) -> None:
        """The host has asked how far the device is."""
        self.host(self.asks or LEAST_ASK, "asks how far it is")

    def _pass_to(self, moment: float) -> None:
        """It is this moment, and what ends by then has run."""
        self.now = moment
        due = [one for one in self._pending.values() if self._ends[one.id] <= moment]
        for work in sorted(due, key=lambda one: (self._ends[one.id], one.id)):
            self._execute(work)

    def _execute(self, work: Work) -> None:
        self.now = max(self.now, self._ends[work.id])  # also where the queue was full
        super()._execute(work)

    def restart(self) -> None:
        """Nothing is queued any more, and it is 0 again."""
        self.run_until(None)
        self.now, self.spans = 0.0, []
        self._ends.clear()
        self._free_at.clear()
