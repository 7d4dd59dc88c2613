"""A program of labkit tensors at work on a device of its own, and what its allocator saw."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import labkit as lab
from labkit import cuda
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.history import TraceEntry
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.storages import cuda_storages

FILE = "case.py"
KINDS = {
    "alloc": "alloc",
    "free_completed": "free",
    "segment_alloc": "segment",
    "segment_free": "segment back",
    "oom": "out of memory",
}
"""Entries of an allocator's trace -> what they are called here; other entries are left out."""


class Event(NamedTuple):
    """One entry of a recording.

    kind     one of the values of KINDS
    step     of the program, from 0; -1 before the first
    line     of the program that asked for it, 0 where that is not known
    address  of the block or segment; for "out of memory", the free bytes of the device
    size     in bytes; for "out of memory", of the request
    """

    kind: str
    step: int
    line: int
    address: int
    size: int

    @property
    def room(self) -> int:
        """Of "out of memory": the free bytes of the device."""
        return self.address


class Op(NamedTuple):
    """An operator that PyTorch ran, and the bytes of new memory that it filled."""

    step: int
    name: str
    made: int


@dataclass(frozen=True)
class Chart:
    """What is known of a program without reading it.

    events    what it asked the allocator for, and the allocator the device
    snapshot  for `show.memory`
    error     what ended it, "" if nothing did
    races     pairs of work on one block that nothing orders
    ops       the operators that it ran, where they were recorded
    """

    events: tuple[Event, ...] = ()
    snapshot: dict[str, Any] | None = None
    error: str = ""
    races: tuple[tuple[str, str], ...] = ()
    ops: tuple[Op, ...] = ()


def record(text: str, capacity: int = 1 << 28, settings: str = "") -> Chart:
    """The program has run on a simulated GPU of `capacity` bytes, to its end or out of memory.

    text      finds `lab`, `steps(count)`, which counts and marks the steps, `empty(bytes)` and
              `empty_cache()`
    settings  of the allocator
    """
    driver = EmulatorDriver(capacity=capacity, why="each case has a device of its own")
    with cuda.use(driver):
        storages = cuda_storages.install(settings)
        try:
            return _run(text, storages.allocator)
        finally:
            cuda_storages.uninstall()


def _run(text: str, allocator: CachingAllocator) -> Chart:
    allocator.record_memory_history("all", "all")
    history = allocator.history
    assert history is not None

    def steps(count: int) -> Iterator[int]:
        for step in range(count):
            history.user_metadata = f"step {step}"
            yield step

    names: dict[str, Any] = {
        "lab": lab, "steps": steps, "empty": _empty, "empty_cache": allocator.empty_cache,
    }  # fmt: skip
    error = ""
    try:
        exec(compile(text, FILE, "exec"), names)
    except OutOfMemoryError as raised:
        error = str(raised)
    chart = Chart(events_of(history.since()), _only_of_the_program(allocator.snapshot()), error)
    allocator.record_memory_history(None)  # what is dropped from here on is not its doing
    names.clear()
    return chart


def _empty(nbytes: int) -> Any:
    return lab.empty(nbytes, dtype=lab.uint8, device="cuda")


def events_of(entries: Iterable[TraceEntry]) -> tuple[Event, ...]:
    """The entries of a trace that tell of memory, with the program's own line and step."""
    return tuple(_event(entry) for entry in entries if entry.action in KINDS)


def _event(entry: TraceEntry) -> Event:
    step = int(entry.user_metadata.removeprefix("step ") or -1)
    lines = [line for _, file, line in entry.frames or () if file == FILE]
    return Event(KINDS[entry.action], step, lines[0] if lines else 0, entry.address, entry.size)


def _only_of_the_program(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The snapshot, whose stacks end where the program begins."""
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    entries = [entry for trace in snapshot["device_traces"] for entry in trace]
    for one in [*snapshot["segments"], *blocks, *entries]:
        if "frames" in one:
            one["frames"] = [frame for frame in one["frames"] if frame["filename"] == FILE]
    return snapshot
