"""`step_log`: what happened in one training step, as a flat list without a single answer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from labkit.show.step.collect import StepRecord
    from labkit.widgets.step.step_view import StepView

Kind = Literal["enter", "leave", "node", "run", "block", "free", "queue"]


@dataclass(frozen=True)
class StepEvent:
    """One event of a step.

    kind    "enter" and "leave": an operator begins, the innermost one of the thread has ended
            "node" and "run": an autograd node is recorded, the engine runs it
            "block" and "free": the allocator hands out a block, it is free again
            "queue": a kernel, a copy or a fill is given to a stream
    thread  0 is the thread of the program
    line    the line of the program that runs on this thread, with its number in its function (whose
            `def` is line 1); "" if none does
    name    of the operator, the node or the kernel
    number  of the node; 0 for a leaf's, which nobody recorded
    at      where the block begins; nbytes: how many bytes were asked for
    stream  which stream was given the kernel
    reads   addresses of what it may read; writes: of what it may write
    """

    kind: Kind
    thread: int = 0
    line: str = ""
    name: str = ""
    number: int = 0
    at: int = 0
    nbytes: int = 0
    stream: int = 0
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return self.said(hex)

    def said(self, address: Callable[[int], str]) -> str:
        """The event as one line, its addresses written by `address`."""
        where = f"thread {self.thread}  {self.kind:5}"
        touched = [
            f"{verb} [{', '.join(map(address, some))}]"
            for verb, some in (("reads", self.reads), ("writes", self.writes))
            if some
        ]
        facts = {
            "node": f"{self.number} {self.name}", "run": f"{self.number} {self.name}",
            "block": f"{address(self.at)}, {self.nbytes} bytes", "free": address(self.at),
            "queue": ", ".join([f"{self.name} on stream {self.stream}", *touched]),
        }  # fmt: skip
        said = f"{where}  {facts.get(self.kind, self.name)}"
        return f"{said:<60}  | {self.line}" if self.line else said


class StepLog(list[StepEvent]):
    """The events of one step, in order, and the record that they were taken from."""

    def __init__(self, record: "StepRecord") -> None:
        super().__init__(_events(record))
        self.record = record

    def view(self, at: int | str | None = None) -> "StepView":
        """`show.training_step` of this very step, opened at an event or at words of its text."""
        from labkit.show.step.picture import picture_of

        return picture_of(self.record, "").open_at(at)


def step_log(step: Callable[[], Any]) -> StepLog:
    """The step has run, and this is what happened: nothing in it says what belongs to what.

    Raises   TypeError    `step` cannot be called
             ValueError   it ran no backward
    """
    from labkit.show.step.collect import record

    return StepLog(record(step))


def _events(record: "StepRecord") -> Iterator[StepEvent]:
    recording, walk = record.recording, record.walk
    numbers = {
        event: place for place, (_, event) in enumerate(sorted(recording.made_by.items()), 1)
    }
    known = {recording.events[event].node: number for event, number in numbers.items()}
    known.pop(-1, None)  # nodes that no backward call reached
    names = walk.names()
    ends: dict[int, list[int]] = {}
    for which, call in enumerate(recording.calls):
        ends.setdefault(call.end, []).append(which)
    said = 0
    for place, event in enumerate([*recording.events, None]):
        for which in reversed(ends.get(place, [])):
            begun = recording.events[recording.calls[which].begin]
            yield StepEvent("leave", begun.thread, _line(record, begun), "")
        if event is None:
            return
        thread, line = event.thread, _line(record, event)
        entry = recording.trace[event.memory - 1] if event.memory > said else {}
        said = event.memory
        if event.kind == "call":
            yield StepEvent("enter", thread, line, recording.calls[event.call].operator)
        elif event.kind == "node recorded":
            yield StepEvent("node", thread, line, _plain(names, event.node), numbers[place])
        elif event.kind == "node runs":
            yield StepEvent(
                "run", thread, line, _plain(names, event.node), known.get(event.node, 0)
            )
        elif event.kind == "allocation":
            yield StepEvent("block", thread, line, at=entry["addr"], nbytes=entry["size"])
        elif event.kind == "free":
            yield StepEvent("free", thread, line, at=entry["addr"])
        elif event.kind == "kernel queued":
            launch = recording.launches[event.kernel]
            yield StepEvent("queue", thread, line, launch.name, stream=launch.stream,
                            reads=tuple(launch.reads), writes=tuple(launch.writes))  # fmt: skip


def _line(record: "StepRecord", event: Any) -> str:
    """The innermost line that this thread runs itself."""
    lines = record.recording.lines
    if event.thread or event.line < 0:
        return ""
    function, number = lines.chains[event.line][0]
    text = lines.functions[function]
    place = number - text.first_line
    return f"{place + 1} {text.lines[place].strip()}"


def _plain(names: list[str], node: int) -> str:
    """The node's name without the number by which pictures tell equal ones apart."""
    return names[node].partition(" #")[0] if node >= 0 else "not reached by backward"
