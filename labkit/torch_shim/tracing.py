"""What emulated devices are given while PyTorch's profiler looks, and by which operator.

The emulator has no seconds: each kernel, copy and fill counts a microsecond. It begins when it is
queued, or when the last of its stream has ended.

Differs  a GPU's kernels are not heard of here: PyTorch's own tracer of that GPU sees them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from labkit.cuda.driver import Driver
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.emulator.queue import Work

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
        queues = [one.queue for one in drivers if isinstance(one, EmulatorDriver)]
        self._listeners = [
            (queue, partial(self._heard, index)) for index, queue in enumerate(queues)
        ]
        for queue, listener in self._listeners:
            queue.listeners.append(listener)

    def stopped(self) -> list[Traced]:
        """What was written down; nothing is any more."""
        for queue, listener in self._listeners:
            queue.listeners.remove(listener)
        return self.work

    def _heard(self, device: int, work: Work) -> None:
        if work.kind in KINDS:
            began = max(time.time_ns(), self._ends.get((device, work.stream), 0))
            self._ends[device, work.stream] = ended = began + NANOSECONDS
            kind, correlation = KINDS[work.kind], self._correlation()
            self.work.append(
                Traced(work.name, kind, device, work.stream, began, ended, correlation)
            )
