"""Which queued work must come before which, and which pairs may race.

A program is what the host does, in order, each step one tuple:

    ("run", stream, reads, writes)      work is queued; reads and writes name buffers
    ("record", stream, event)           a mark behind everything queued on the stream
    ("wait", stream, event)             what is queued there from now on runs behind the mark
    ("host wait", event)                the host waits for the mark
    ("synchronize", stream)             the host waits for a stream; None: for the device
    ("host", reads, writes)             the host itself touches memory

Order comes from three things and nothing else: one stream, an event that is waited for, and the
host having waited. Streams are those of PyTorch's pool: the default stream does not order them.

Source   torch/cuda/_sanitizer.py  EventHandler, StreamSynchronizations
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Step = tuple[Any, ...]
Clock = dict[Any, int]
"""stream -> how much of its work is known to have run"""

HOST = "host"
FORMS = {"run": 4, "record": 3, "wait": 3, "host wait": 2, "synchronize": 2, "host": 3}


@dataclass(frozen=True)
class Access:
    """A step that touches memory: the place in its queue, and what must have run before it."""

    position: int
    queue: Any
    number: int
    clock: Clock
    reads: frozenset[Any]
    writes: frozenset[Any]

    def is_before(self, other: "Access") -> bool:
        """True when `other`, which was given later, cannot run before this has."""
        return self.queue == HOST or other.clock.get(self.queue, 0) >= self.number

    def conflicts(self, other: "Access") -> frozenset[Any]:
        """The buffers that both touch and at least one of them writes."""
        return (self.writes & (other.reads | other.writes)) | (self.reads & other.writes)


def accesses(program: Sequence[Step]) -> list[Access]:
    """Every step that touches memory, with its vector clock.

    Raises   ValueError   a step that is none of the six
    """
    queues: dict[Any, Clock] = {}
    events: dict[Any, Clock] = {}
    host: Clock = {}
    counts: Clock = {}
    found = []
    for position, step in enumerate(program):
        if FORMS.get(step[0]) != len(step):
            raise ValueError(f"step {position} is {step!r}; {_forms()}")
        kind = step[0]
        if kind == "run":
            _, stream, reads, writes = step
            clock = _joined(queues.get(stream, {}), host)
            number = counts[stream] = counts.get(stream, 0) + 1
            found.append(
                Access(position, stream, number, clock, frozenset(reads), frozenset(writes))
            )
            queues[stream] = {**clock, stream: number}
        elif kind == "host":
            _, reads, writes = step
            found.append(Access(position, HOST, 0, dict(host), frozenset(reads), frozenset(writes)))
        elif kind == "record":
            events[step[2]] = _joined(queues.get(step[1], {}), host)
        elif kind == "wait":
            queues[step[1]] = _joined(queues.get(step[1], {}), events.get(step[2], {}))
        elif kind == "host wait":
            host = _joined(host, events.get(step[1], {}))
        else:
            waited = list(queues.values()) if step[1] is None else [queues.get(step[1], {})]
            for clock in waited:
                host = _joined(host, clock)
    return found


def races(program: Sequence[Step]) -> list[tuple[int, int]]:
    """Pairs of positions that touch one buffer, one of them writing, with nothing between."""
    touched: dict[Any, list[Access]] = {}
    pairs = set()
    for one in accesses(program):
        for buffer in one.reads | one.writes:
            earlier = touched.setdefault(buffer, [])
            for other in earlier:
                if buffer in one.conflicts(other) and not other.is_before(one):
                    pairs.add((other.position, one.position))
            earlier.append(one)
    return sorted(pairs)


def repaired(program: Sequence[Step], edges: Sequence[tuple[int, int]]) -> list[Step]:
    """The program with an event per edge: recorded behind the first, waited for by the second."""
    behind: dict[int, list[Step]] = {}
    ahead: dict[int, list[Step]] = {}
    for first, second in edges:
        event = ("repair", first)
        record = ("record", program[first][1], event)
        if record not in behind.setdefault(first, []):
            behind[first].append(record)
        is_host = program[second][0] == "host"
        wait = ("host wait", event) if is_host else ("wait", program[second][1], event)
        ahead.setdefault(second, []).append(wait)
    return [
        step
        for position, one in enumerate(program)
        for step in (*ahead.get(position, ()), one, *behind.get(position, ()))
    ]


def _joined(one: Clock, other: Clock) -> Clock:
    joined = dict(one)
    for queue, number in other.items():
        if joined.get(queue, 0) < number:
            joined[queue] = number
    return joined


def _forms() -> str:
    return "a step is one of " + ", ".join(f"({name!r}, ...{n - 1})" for name, n in FORMS.items())
