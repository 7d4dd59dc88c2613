"""Watch a launch on the emulator: `kernel(grid, block, args, trace=Trace())` returns a `Report`."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.cuda.arguments import Extent, as_operand
from labkit.cuda.driver import Dim3
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.emulator.launching import failure, launch_message
from labkit.cuda.emulator.module import Module
from labkit.cuda.emulator.worker import Command, WorkerDied, WorkerRefused
from labkit.cuda.errors import CudaError, InvalidValueError
from labkit.cuda.operation import Operation
from labkit.cuda.report import Report
from labkit.cuda.report_reader import ReportReader

_REQUEST = struct.Struct("<IIIIQQII")
_ALL = 0xFFFFFFFF
TRACING = 3
"""Times the driver's limit: a traced launch takes longer."""


@dataclass(frozen=True)
class Trace:
    """What to watch.

    blocks      None for every block, a count to spread evenly over the grid, or linear indices
    races       look for races; off makes a trace about twice as fast
    requests    raw requests to keep per access, for drawing
    max_events  then the rest runs unwatched, and the report says so
    also        arrays the kernel reaches through pointers in memory, not through an argument
    adversary   a seed: at each watched access, maybe let another thread go first
    watch       sites (from a finding) to interfere with; empty for all
    """

    blocks: int | Sequence[int] | None = None
    races: bool = True
    requests: int = 8
    max_events: int = 200_000_000
    also: Sequence[Any] = ()
    adversary: int | None = None
    watch: Sequence[int] = ()

    def sampled(self, grid: Dim3) -> list[int] | None:
        """Linear block indices to watch, None for all.

        Raises   InvalidValueError   a block is not in the grid
        """
        count = grid[0] * grid[1] * grid[2]
        if self.blocks is None:
            return None
        if isinstance(self.blocks, int):
            if self.blocks < 1:
                raise InvalidValueError(f"Trace.blocks is at least 1, not {self.blocks}")
            wanted = min(self.blocks, count)
            return sorted({i * count // wanted for i in range(wanted)})
        outside = [b for b in self.blocks if not 0 <= b < count]
        if outside:
            raise InvalidValueError(f"the grid has blocks 0 to {count - 1}, not {outside}")
        return list(self.blocks)

    def run(
        self,
        driver: Any,
        operation: Operation,
        extents: Sequence[Extent],
        stream: int,
    ) -> Report:
        """The launch has run, after all work queued on its stream.

        extents  what its arguments let it touch

        Raises   KernelFailure   the worker did not survive it
        """
        if not isinstance(driver, EmulatorDriver):
            raise InvalidValueError("only the emulator traces; this device is a GPU")
        driver.stream_synchronize(stream)
        known = self._extents(driver, extents)
        sampled = self.sampled(operation.grid)
        adversary = self.adversary is not None
        tail = _REQUEST.pack(
            int(self.races), int(adversary), max(1, self.requests),
            _ALL if sampled is None else len(sampled), self.max_events, self.adversary or 0,
            len(known), len(self.watch),
        )  # fmt: skip
        ranges = (n for e in known for n in (e.address, e.size_bytes))
        numbers = [*(sampled or ()), *ranges, *self.watch]
        tail += struct.pack(f"<{len(numbers)}Q", *numbers)
        body = launch_message(operation, trace=True, tail=tail)
        module: Module = operation.function.module
        module.carry_variables(into_trace=True)
        try:
            answer = driver.worker.request(
                Command.TRACE, body, operation.timeout_s or TRACING * driver.timeout_s
            )
        except WorkerDied as death:
            raise failure(operation, death.report, trace=True) from None
        except WorkerRefused as refusal:
            raise CudaError(str(refusal)) from None
        module.carry_variables(into_trace=False)
        return ReportReader(
            operation, known, json.loads(answer), self.requests, driver.arena.freed_at
        ).report()

    def _extents(self, driver: EmulatorDriver, named: Sequence[Extent]) -> list[Extent]:
        """What the kernel may touch: its arrays, and allocations that none of them lies in."""
        known = {(e.address, e.size_bytes): e for e in reversed(named) if e.size_bytes}
        for array in self.also:
            operand = as_operand(array)
            if operand is None:
                raise InvalidValueError(f"Trace.also holds arrays, not {type(array).__name__}")
            known.setdefault(
                (operand.low, operand.high - operand.low),
                Extent("(also)", operand.low, operand.high - operand.low),
            )
        claimed = list(known.values())
        allocations = [*driver.arena.allocations.items()]
        allocations += [(start, size) for start, (size, _) in driver.arena.mapped.items()]
        for start, size in allocations:
            if not any(start <= e.address < start + size for e in claimed):
                known[start, size] = Extent(f"allocation {start:#x}", start, size)
        return list(known.values())
