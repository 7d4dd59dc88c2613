"""What is written down of one step: events in the order in which they happened.

The clock counts events and nothing else: event 17 is the one at which it showed 17. Operator calls
last from one event to another, a CUDA kernel has an event where it is queued and one where it has
run, every entry of the allocator's trace has one; so each lane of the picture is drawn from this
list, up to any event.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from labkit.show.step.source_lines import SourceLines

Kind = Literal[
    "call", "hop", "node recorded", "backward", "node runs", "gradient", "accumulation", "error",
    "allocation", "free", "segment", "out of memory", "kernel queued", "kernel runs",
]  # fmt: skip
Phase = Literal["forward", "backward", "update"]
PHASES: tuple[Phase, ...] = ("forward", "backward", "update")


@dataclass
class Event:
    """One event; numbers are places in the recording's lists, -1 where there is none.

    line    the chain of source lines that was running, in `SourceLines.chains`
    call    the innermost operator call that was running
    hop     which hop of it has just been entered
    node    the autograd node it is about, in the order of the walk
    edge    the edge of the graph along which a gradient came
    came    what came along it, as few characters
    kernel  the CUDA kernel it is about
    memory  how many entries the allocator's trace has by now
    thread  the thread on which it was seen, counted from 0 in the order of their first events
    """

    kind: Kind
    text: str
    phase: Phase = "forward"
    line: int = -1
    call: int = -1
    hop: int = -1
    node: int = -1
    edge: int = -1
    came: str = ""
    kernel: int = -1
    memory: int = 0
    thread: int = 0


@dataclass
class Hop:
    """One kernel of the dispatcher that a call went through.

    observed  False: it follows from the operator's table and was not seen
    event     when it was entered; -1 where that was not seen
    """

    slot: str
    kernel: str
    observed: bool = True
    event: int = -1


@dataclass
class Call:
    """One call of an operator, or of a function of the Python interface, and the hops it took."""

    operator: str
    parent: int
    begin: int
    end: int = -1
    hops: list[Hop] = field(default_factory=list)


@dataclass
class Launch:
    """One piece of work that a stream was given: a CUDA kernel, a copy, a fill.

    reads, writes  device addresses; a kernel's own signature says which pointers it may write
    ran            the event at which it had run; -1 where nobody can tell
    """

    name: str
    kind: str
    stream: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    reads: list[int]
    writes: list[int]
    queued: int = -1
    ran: int = -1
    call: int = -1


class Recording:
    """The events so far, of all threads; calls nest within a thread."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.calls: list[Call] = []
        self.launches: list[Launch] = []
        self.trace: list[dict[str, Any]] = []
        """The allocator's entries, as a snapshot has them."""
        self.lines = SourceLines()
        self.phase: Phase = "forward"
        self.made_by: dict[int, int] = {}
        """Sequence number of an autograd node -> the event at which it was recorded."""
        self.runs_in: dict[int, int] = {}
        """Thread -> the autograd node it runs, in the order of the walk."""
        self.outer_line = -1
        """The line of the program that waits for the threads which have none of their own."""
        self.settle: Callable[[], None] = lambda: None
        """What PyTorch has given up is free: it tells of it when it is asked."""
        self._running: dict[int, list[int]] = {}
        self._threads: dict[int, int] = {}
        self._lock = threading.RLock()

    def tick(self, kind: Kind, text: str, **facts: Any) -> int:
        """One more event; what it does not say is as this thread is."""
        with self._lock:
            if "line" not in facts:
                line = self.lines.running()
                facts["line"] = self.outer_line if line < 0 else line
            facts.setdefault("call", self.call)
            facts.setdefault("node", self.runs_in.get(threading.get_ident(), -1))
            thread = self._threads.setdefault(threading.get_ident(), len(self._threads))
            event = Event(kind, text, self.phase, memory=len(self.trace), thread=thread, **facts)
            self.events.append(event)
            return len(self.events) - 1

    @property
    def call(self) -> int:
        """The innermost call that runs on this thread."""
        running = self._running.get(threading.get_ident())
        return running[-1] if running else -1

    def enter(self, operator: str, hop: Hop | None = None) -> int:
        """A call has begun; `hop` is the kernel it entered first, if that was seen."""
        self.settle()
        with self._lock:
            place = len(self.calls)
            self.calls.append(Call(operator, self.call, len(self.events)))
            self._running.setdefault(threading.get_ident(), []).append(place)
            where = f" enters at {hop.slot}" if hop else " is called"
            self.tick("call", f"{operator}{where}", call=place, hop=0 if hop else -1)
            if hop:
                hop.event = self.calls[place].begin
                self.calls[place].hops.append(hop)
            return place

    def hop(self, place: int, hop: Hop, text: str = "") -> None:
        """The call has gone on to another kernel."""
        with self._lock:
            call = self.calls[place]
            call.hops.append(hop)
            text = text or f"{call.operator} goes on to {hop.slot}"
            hop.event = self.tick("hop", text, call=place, hop=len(call.hops) - 1)

    def leave(self, place: int) -> None:
        """The call has ended, whether or not with an error."""
        self.settle()
        with self._lock:
            running = self._running[threading.get_ident()]
            del running[running.index(place) :]
            self.calls[place].end = len(self.events)

    def finish(self, places: dict[int, int], names: list[str]) -> None:
        """Nodes have their places in the walk; those that no backward call reached have none.

        places  sequence number -> place
        names   of the nodes, by place
        """
        for number, event in self.made_by.items():
            place = places.get(number, -1)
            self.events[event].node = place
            if place >= 0:
                self.events[event].text = f"{names[place]} is recorded"
