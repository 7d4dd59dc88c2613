"""A queue with a clock: work takes the microseconds that are stated for it, and none of them pass.

    queue = ClockedQueue({"memcpy host to device": 4, "memcpy device to device": 6}, asks=1)
    device = EmulatorDriver(queue=queue, why="to have a clock")

The host's clock goes on when it asks for work, when it waits, and by `host`. The device has one
engine for copies from the host and one for everything else; each does what it is given in the order
in which it was asked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from labkit.cuda.emulator.queue import MARKS, Work, WorkQueue
from labkit.cuda.operation import Node
from labkit.cuda.simulated_run import SimulatedRun, Span

FROM_HOST = "memcpy host to device"
LEAST_ASK = 1.0
"""Microseconds of a question whether something is done, where asking is free."""


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
        self._run, self._span = SimulatedRun(), dict[int, int]()
        self._in_graph = False

    @property
    def now(self) -> float:
        """The host's clock."""
        return self._run.until("host")

    @property
    def spans(self) -> list[Span]:
        """What the host and the engines did, in the order in which it was asked for."""
        return self._run.spans

    def host(self, microseconds: float, name: str = "host") -> None:
        """The host has worked for so long; the device went on."""
        if microseconds:
            self._run.do("host", name, microseconds, "host")
        self._run_what_has_ended()

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
        causes = [*self._run.last("host"), *self._spans_of(work.dep_ids)]
        if kind not in MARKS:
            lane, of = ("copies", "copy") if name == FROM_HOST else ("work", "kernel")
            self._span[work.id] = self._run.do(lane, name, self.takes.get(name, 0), of, causes)
        elif causes:  # a mark is passed when the last of these has ended
            self._span[work.id] = max(causes, key=self._end)
        self._run_what_has_ended()
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
        self._run.wait("host", self._spans_of(waited_for), "waits")
        self._run_what_has_ended()

    def step(self) -> None:
        """The host has asked how far the device is."""
        self.host(self.asks or LEAST_ASK, "asks how far it is")

    def _spans_of(self, works: Iterable[int]) -> list[int]:
        return [self._span[one] for one in works if one in self._span]

    def _end(self, span: int) -> float:
        end: float = self.spans[span]["end"]
        return end

    def _ended(self, work: Work) -> float:
        return self._end(self._span[work.id]) if work.id in self._span else 0

    def _run_what_has_ended(self) -> None:
        """The bytes are what they are at this moment."""
        due = [one for one in self._pending.values() if self._ended(one) <= self.now]
        for work in sorted(due, key=lambda one: (self._ended(one), one.id)):
            self._execute(work)

    def _execute(self, work: Work) -> None:
        self._run.wait("host", self._spans_of([work.id]), "waits")  # where the queue was full
        super()._execute(work)

    def restart(self) -> None:
        """Nothing is queued any more, and it is 0 again."""
        self.run_until(None)
        self._run, self._span = SimulatedRun(), {}
