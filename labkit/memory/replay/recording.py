"""Recorded programs of PyTorch's allocator: run one here and stop at the first difference."""

import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.mem_pool import MemPool
from labkit.memory.out_of_memory import OutOfMemoryError

SUPPORTED_FORMAT = 1


def load_recording(path: Path) -> dict[str, Any]:
    """A recording as it was written, gzip and JSON.

    Raises   ValueError   not such a file, or of a format this reader does not know
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            data: dict[str, Any] = json.load(file)
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path} is not a recording (gzip, JSON): {error}") from error
    if not isinstance(data, dict) or data.get("format_version") != SUPPORTED_FORMAT:
        found = data.get("format_version") if isinstance(data, dict) else type(data).__name__
        raise ValueError(f"{path} has format {found!r}, this reader knows {SUPPORTED_FORMAT}")
    return data


@dataclass
class Outcome:
    """What the comparison of one program found.

    compared    answers compared, by kind
    equal       answers that were equal, by kind
    difference  the first one that was not, ready to reproduce; the program stopped there
    """

    compared: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    difference: str | None = None

    def check(self, kind: str, where: str, ours: Any, recorded: Any) -> bool:
        """Count one comparison; False when it differs."""
        self.compared[kind] += 1
        if ours == recorded:
            self.equal[kind] += 1
            return True
        self.difference = f"{where}, {kind}\n  recorded {recorded}\n  labkit   {ours}"
        return False


class ProgramRun:
    """An allocator on a simulated device, driven by a program's operations."""

    def __init__(
        self,
        head: dict[str, Any],
        program: dict[str, Any],
        kind: type[CachingAllocator] = CachingAllocator,
    ) -> None:
        about = {**head, **program}  # the tutorial keeps settings with each program
        streams = about["streams"]
        self._handles = [stream["handle"] for stream in streams]
        self._index_of = {handle: index for index, handle in enumerate(self._handles)}
        self._device = SimulatedDevice(
            about["device_total_bytes"],
            {stream["handle"]: stream["stream_id"] for stream in streams},
        )
        fraction = about["memory_fraction"]
        self.allocator = kind(self._device, about["settings"], fraction)
        self.allocator.record_memory_history("all", None, clock=lambda: 0)
        self.addresses: dict[Any, int] = {}
        self._pools: dict[int, MemPool] = {}

    def run(self, operation: list[Any]) -> dict[str, Any]:
        """The outcome of one operation, in the words of the recording."""
        kind, *arguments = operation
        operation_of_kind = getattr(self, f"_{kind}", None)
        if operation_of_kind is None:
            raise KeyError(f"no operation is called {kind!r}")
        result: dict[str, Any] = operation_of_kind(*arguments) or {}
        return result

    def trace_since(self, total: int) -> list[list[Any]]:
        """[action, address, size, stream, pool] of the entries recorded since."""
        history = self.allocator.history
        assert history is not None, "recording was switched on"
        return [
            [entry.action, entry.address, entry.size, self._index_of[entry.stream], entry.pool[1]]
            for entry in history.since(total)
        ]

    def memory(self) -> list[int]:
        """[requested, allocated, active, reserved, inactive_split] bytes."""
        metrics = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes",
                   "inactive_split_bytes")  # fmt: skip
        return [self.allocator.stats.arrays[metric].current for metric in metrics]

    def segments(self) -> list[dict[str, Any]]:
        """The memory map in the words of the recording."""
        same = ("address", "total_size", "allocated_size", "active_size", "requested_size",
                "segment_type", "is_expandable")  # fmt: skip
        return [
            {name: segment[name] for name in same}
            | {
                "stream": self._index_of[segment["stream"]],
                "pool": segment["segment_pool_id"][1],
                "blocks": [
                    [
                        block["address"],
                        block["size"],
                        None if block["state"] == "inactive" else block["requested_size"],
                        block["state"],
                    ]
                    for block in segment["blocks"]
                ],
            }
            for segment in self.allocator.memory_map()
        ]

    def pool_reserved(self) -> dict[str, dict[str, int]]:
        """Reserved bytes per private pool that ever had any."""
        return {
            str(pool[1]): array.flat()
            for pool, array in self.allocator.stats.reserved_bytes_by_private_pools.items()
        }

    def _alloc(self, name: Any, size: int, stream: int) -> dict[str, Any]:
        try:
            address = self.allocator.malloc(size, self._handles[stream])
        except OutOfMemoryError as error:
            return {"oom": True, "message": str(error)}
        self.addresses[name] = address
        return {"addr": address}

    def _free(self, name: Any) -> None:
        self.allocator.free(self.addresses.pop(name))

    def _record_stream(self, name: Any, stream: int) -> None:
        self.allocator.record_stream(self.addresses[name], self._handles[stream])

    def _complete(self, stream: int) -> None:
        self._device.complete(self._handles[stream])

    def _empty_cache(self) -> None:
        self.allocator.empty_cache()

    def _pool_create(self, number: int) -> dict[str, Any]:
        pool = self._pools[number] = MemPool(self.allocator)
        return {"pool": pool.id[1]}

    def _pool_begin(self, number: int) -> None:
        self._pools[number].__enter__()

    def _pool_end(self, number: int) -> None:
        self._pools[number].__exit__(None, None, None)

    def _pool_drop(self, number: int) -> None:
        self._pools.pop(number).drop()

    def _set_fraction(self, fraction: float) -> None:
        self.allocator.set_memory_fraction(fraction)

    def _reset_peak(self) -> None:
        self.allocator.stats.reset_peak()

    def _reset_accumulated(self) -> None:
        self.allocator.stats.reset_accumulated()


def compare_program(
    head: dict[str, Any],
    program: dict[str, Any],
    kind: type[CachingAllocator] = CachingAllocator,
) -> Outcome:
    """Run a recorded program and compare after every operation; stop at the first difference.

    kind   the allocator that runs it

    Later differences would only be consequences. The recorded text of an out-of-memory error is
    the first part of PyTorch's; ours must start with it.
    """
    outcome = Outcome()
    run = ProgramRun(head, program, kind)
    history = run.allocator.history
    assert history is not None, "recording was switched on"
    title = f"{head['config']}: program {program.get('name', program.get('seed'))!r}"
    for index, (operation, expected) in enumerate(
        zip(program["ops"], program["expect"], strict=True)
    ):
        where = f"{title}, operation {index} {operation}"
        total = history.total
        answer = run.run(operation)
        message = answer.pop("message", None)
        recorded = {key: expected[key] for key in ("addr", "oom", "pool") if key in expected}
        if not (
            outcome.check("request outcomes", where, answer, recorded)
            and _same_trace(outcome, where, run.trace_since(total), expected.get("trace", []))
            and outcome.check("memory totals", where, run.memory(), expected["mem"])
        ):
            return outcome
        if message is not None and "message" in expected:
            start = message[: len(expected["message"])]
            if not outcome.check("error messages", where, start, expected["message"]):
                return outcome
        if "segments" in expected and not outcome.check(
            "memory maps", where, run.segments(), expected["segments"]
        ):
            return outcome
    _compare_final(outcome, f"{title}, at the end", run, program["final"])
    return outcome


def _same_trace(
    outcome: Outcome, where: str, ours: list[list[Any]], recorded: list[list[Any]]
) -> bool:
    for index in range(max(len(ours), len(recorded))):
        entries = [trace[index] if index < len(trace) else None for trace in (ours, recorded)]
        if not outcome.check("trace entries", f"{where}, entry {index}", *entries):
            return False
    return True


def _compare_final(outcome: Outcome, where: str, run: ProgramRun, final: dict[str, Any]) -> None:
    trace = run.trace_since(0)
    counts = {
        "entries": len(trace),
        "by_action": dict(sorted(Counter(entry[0] for entry in trace).items())),
    }
    if not (
        outcome.check("memory maps", where, run.segments(), final["segments"])
        and outcome.check("trace totals", where, counts, final["trace"])
        and outcome.check("pool statistics", where, run.pool_reserved(), final["pool_reserved"])
    ):
        return
    stats = run.allocator.memory_stats()
    for name in sorted(stats.keys() | final["stats"].keys()):
        if not outcome.check(
            "statistics", f"{where}, {name}", stats.get(name), final["stats"].get(name)
        ):
            return
