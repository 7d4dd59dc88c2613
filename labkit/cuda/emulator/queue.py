"""Streams as real queues: work runs when something waits for it, in any order that is legal.

Order between two pieces of work comes from four things and nothing else: the same stream, an event
one records and the other's stream waits for, the legacy default stream, and the host waiting.
"""

import bisect
import operator
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from labkit.cuda.errors import InvalidValueError
from labkit.cuda.operation import Node

MARKS = ("record", "wait", "graph")
"""Kinds of work that move and compute nothing."""
_PENDING_LIMIT = 1024  # then the oldest work runs: a queue has an end on a GPU, too


@dataclass(eq=False)
class Work:
    """One thing a stream will do.

    deps       work that must have run before; empty again once it has
    followers  work that has this among its `deps`
    blocked    how many of its `deps` have not run
    """

    id: int
    stream: int
    kind: str
    name: str
    run: Callable[[], None] | None
    deps: "list[Work]" = field(default_factory=list)
    followers: "list[Work]" = field(default_factory=list)
    blocked: int = 0
    dep_ids: tuple[int, ...] = ()
    done_as: int | None = None
    """How many others had run when this had; None while it has not."""

    def record(self) -> dict[str, Any]:
        """Plain data for a timeline."""
        return {
            "id": self.id, "stream": self.stream, "kind": self.kind, "name": self.name,
            "after": list(self.dep_ids), "ran_as": self.done_as,
        }  # fmt: skip


_age = operator.attrgetter("id")


class WorkQueue:
    """All queued work of a device.

    seed   None: as enqueued, and only what is waited for. An int: anything legal may run at any
           moment, chosen by this seed, so what is not ordered shows.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.reseed(seed)
        self._pending: dict[int, Work] = {}
        self._ready: list[Work] = []
        """What may run next, oldest first."""
        self._last: dict[int, Work] = {}
        self._streams: set[int] = set()
        self._blocking: set[int] = set()
        self._next_id = 0
        self._completed = 0
        self.log: deque[Work] = deque(maxlen=10_000)
        """Every piece of work enqueued, newest last."""
        self.listeners: list[Callable[[Work], None]] = []
        """Called with each piece of work when it is enqueued."""

    def reseed(self, seed: int | None) -> None:
        """Choose orders by this seed from now on."""
        self.seed = seed
        self._random = random.Random(seed)

    def follow(self, source: Any) -> None:
        """Choose orders by `source.choice(what may run next)` from now on."""
        self.seed, self._random = 0, source

    def add_stream(self, stream: int, *, blocking: bool) -> None:
        """A stream; a blocking one is ordered with the default stream."""
        self._streams.add(stream)
        if blocking:
            self._blocking.add(stream)

    def check_stream(self, stream: int) -> None:
        """Nothing, if the stream exists.

        Raises   InvalidValueError   it does not
        """
        if stream not in self._streams:
            raise InvalidValueError(
                f"there is no stream {stream}", "cudaErrorInvalidResourceHandle"
            )

    def forget_stream(self, stream: int) -> None:
        """Its work still runs, nothing follows it."""
        self._last.pop(stream, None)
        self._streams.discard(stream)
        self._blocking.discard(stream)

    def enqueue(
        self,
        stream: int,
        kind: str,
        name: str,
        run: Callable[[], None] | None,
        after: Iterable[Work] = (),
    ) -> Work:
        """The work is queued behind its stream's last, and behind `after`."""
        earlier = [*after]
        if stream in self._last:
            earlier.append(self._last[stream])
        if stream == 0:
            earlier += [self._last[s] for s in self._blocking if s in self._last]
        elif stream in self._blocking and 0 in self._last:
            earlier.append(self._last[0])
        work = Work(self._next_id, stream, kind, name, run)
        work.deps = [w for w in dict.fromkeys(earlier) if w.done_as is None]
        work.dep_ids = tuple(sorted({w.id for w in earlier}))
        self._next_id += 1
        work.blocked = len(work.deps)
        for dep in work.deps:
            dep.followers.append(work)
        if not work.blocked:
            self._ready.append(work)
        self._pending[work.id] = work
        self._last[stream] = work
        self.log.append(work)
        for each in self.listeners:
            each(work)
        if len(self._pending) > _PENDING_LIMIT:
            self._execute(next(iter(self._pending.values())))
        return work

    def enqueue_graph(
        self,
        stream: int,
        branches: Sequence[int],
        nodes: Sequence[Node],
        work: Sequence[Callable[[], None]],
    ) -> None:
        """Every node is queued; what follows on the stream follows all of them.

        branches   a queue of its own for each node, so that nothing but the edges orders them
        """
        root = self.enqueue(stream, "graph", "graph begins", None)
        made: list[Work] = []
        for branch, node, run in zip(branches, nodes, work, strict=True):
            after = [made[place] for place in node.after] or [root]
            one = node.operation
            made.append(self.enqueue(branch, one.kind, one.name, run, after))
            self.forget_stream(branch)
        self.enqueue(stream, "graph", "graph ends", None, made)

    def last(self, stream: int) -> Work | None:
        """The work a wait for `stream` waits for."""
        work = self._last.get(stream)
        return work if work is not None and work.done_as is None else None

    def step(self) -> None:
        """Let the device do one thing, if it has anything to do."""
        if self.seed is None:
            if self._pending:  # the oldest depends on nothing that is left
                self._execute(next(iter(self._pending.values())))
            return
        if self._ready:
            self._execute(self._random.choice(self._ready))

    def run_until(self, target: Work | None) -> None:
        """`target` has run, and all it needed; with None, everything has."""
        if target is None or self.seed is not None:
            while self._pending if target is None else target.done_as is None:
                self.step()
            return
        for work in self._needed_by(target):
            if work.done_as is None:  # a host function may have run it meanwhile
                self._execute(work)

    def _needed_by(self, target: Work) -> list[Work]:
        """Work that has not run and must, oldest first: that order is legal."""
        needed, stack = {target.id: target}, [target]
        while stack:
            for dep in stack.pop().deps:
                if dep.done_as is None and dep.id not in needed:
                    needed[dep.id] = dep
                    stack.append(dep)
        return [needed[i] for i in sorted(needed)]

    def _execute(self, work: Work) -> None:
        del self._pending[work.id]
        self._ready.remove(work)
        run, work.run, work.deps = work.run, None, []
        work.done_as = self._completed
        self._completed += 1
        for follower in work.followers:
            follower.blocked -= 1
            if not follower.blocked:
                bisect.insort(self._ready, follower, key=_age)
        work.followers = []
        if run is not None:
            run()

    @property
    def pending(self) -> int:
        """Pieces of work that have not run."""
        return len(self._pending)

    def drop_all(self) -> None:
        """Nothing is queued, what was never ran, and there is no stream."""
        for work in self._pending.values():
            work.run, work.deps, work.followers, work.done_as = None, [], [], self._completed
        self._pending.clear()
        self._ready.clear()
        self._last.clear()
        self._streams.clear()
        self._blocking.clear()
