"""What emulated devices are given while PyTorch's profiler looks, and by which operator.

The emulator has no seconds: each kernel, copy and fill counts a microsecond. It begins when it is
queued, or when the last of its stream has ended.

Differs  a GPU's kernels are not heard of here: PyTorch's own tracer of that GPU sees them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.cuda.driver import Driver
from labkit.cuda.emulator.driver import EmulatorDriver

NANOSECONDS = 1000
KINDS = {"kernel": b"k", "memcpy": b"c", "memset": b"f"}


@dataclass(frozen=True)
class Traced:
    """One piece of work; times in nanoseconds since 1970, `correlation` the operator's number."""

    name: str
    kind: bytes
    device: int
    stream: int
    began: int
    ended: int
    correlation: int


class Tracing:
    """From here to `stopped`, the work that the devices are given is written down.

    correlation   the number of the operator that this thread is in
    """

    def __init__(self, drivers: Sequence[Driver], correlation: Callable[[], int]) -> None:
        self.work: list[Traced] = []
        self._correlation = correlation
        self._ends: dict[tuple[int, int], int] = {}
        self._queues = [one.queue for one in drivers if isinstance(one, EmulatorDriver)]
        for index, queue in enumerate(self._queues):
            vars(queue)["enqueue"] = self._heard(index, queue.enqueue)

    def stopped(self) -> list[Traced]:
        """What was written down; nothing is any more."""
        for queue in self._queues:
            del vars(queue)["enqueue"]  # the class's own is there again
        return self.work

    def _heard(self, device: int, enqueue: Callable[..., Any]) -> Callable[..., Any]:
        def enqueued(stream: int, kind: str, name: str, *how: Any) -> Any:
            if kind in KINDS:
                began = max(time.time_ns(), self._ends.get((device, stream), 0))
                self._ends[device, stream] = ended = began + NANOSECONDS
                self.work.append(
                    Traced(name, KINDS[kind], device, stream, began, ended, self._correlation())
                )
            return enqueue(stream, kind, name, *how)

        return enqueued
