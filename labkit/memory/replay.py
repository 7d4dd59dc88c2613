"""A recorded history once more: exactly as it was, or under other settings.

`replay_exactly` feeds the recorded addresses of segments to the allocator and compares every entry.
`replay` answers "what if": same requests, other settings or another device.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from labkit.memory.block import ALLOCATED, FREE, PENDING, MempoolId
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.restore import waiting_stream
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import format_size
from labkit.memory.trace import (
    Request,
    Snapshot,
    entries_of,
    requests,
    segments_before,
    settings_of,
)

UNBOUNDED = 2**46
"""Bytes of a device that never runs out: what a replay uses unless it is told a size."""


class Replayer:
    """Makes the requests of a trace on an allocator whose device never completes by itself."""

    def __init__(self, allocator: CachingAllocator, device: SimulatedDevice) -> None:
        self.allocator = allocator
        self._device = device
        self._addresses: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        self._marks = 0

    def start_with(self, segments: list[dict[str, Any]]) -> set[int]:
        """The allocator already has the blocks of these segments, as `restore` makes them.

        Returns the addresses of those that are pending.
        """
        for segment in segments:
            for block in segment["blocks"]:
                address = block["address"]
                if block["state"] == ALLOCATED:
                    self._addresses[address] = address
                elif block["state"] == PENDING:
                    self._waiting[address] = waiting_stream(address)
        return set(self._waiting)

    def make(self, request: Request) -> None:
        """One request of the recording.

        Raises   OutOfMemoryError   it found no room
        """
        allocator = self.allocator
        if request.kind == "malloc":
            address = self._in_pool(
                request.pool, lambda: allocator.malloc(request.size, request.stream)
            )
            if request.address:
                self._addresses[request.address] = address
        elif request.kind == "free":
            if request.address not in self._addresses:
                return  # allocated before anything that is known
            address = self._addresses.pop(request.address)
            if request.waits:
                self._marks -= 1  # a stream of its own for each: they complete in recorded order
                allocator.record_stream(address, self._marks)
                self._waiting[request.address] = self._marks
            allocator.free(address)
        elif request.kind == "complete":
            if request.address in self._waiting:
                self._device.complete(self._waiting.pop(request.address))
                allocator.process_events()
            else:  # it was pending before the trace, and made anew without its stream
                allocator.free(self._addresses.pop(request.address))
        elif request.pool != (0, 0) and request.pool in allocator.private_pools:
            self._drop(request.pool)
        else:
            allocator.empty_cache()

    def _in_pool(self, pool: MempoolId, action: Callable[[], int]) -> int:
        if pool == (0, 0):
            return action()
        self.allocator.begin_allocate_to_pool(pool)
        try:
            return action()
        finally:
            self.allocator.end_allocate_to_pool(pool)
            if self.allocator.private_pools[pool].use_count > 1:
                self.allocator.release_pool(pool)

    def _drop(self, pool: MempoolId) -> None:
        if self.allocator.private_pools[pool].use_count:
            self.allocator.release_pool(pool)
        self.allocator.empty_cache(pool)


@dataclass
class ReplayResult:
    """What became of a recorded history. Sizes are bytes.

    ran_out          the first request that found no room, as a sentence; None when all did
    ran_out_at       index of its trace entry, or None
    requests         requests and frees that were made
    peak_reserved    the most the device had to give
    peak_allocated   the most that was in use at once, rounding included
    idle_at_peak     cached but not in use when `peak_reserved` was reached first
    fragmentation    `idle_at_peak` as a part of `peak_reserved`, 0 to 1
    reserved, allocated, largest_free   at the end
    retries, device_allocs, device_frees  how often the device was asked, and the cache emptied
    """

    settings: AllocatorSettings
    device_total: int
    ran_out: str | None = None
    ran_out_at: int | None = None
    requests: int = 0
    peak_reserved: int = 0
    peak_allocated: int = 0
    idle_at_peak: int = 0
    reserved: int = 0
    allocated: int = 0
    largest_free: int = 0
    retries: int = 0
    device_allocs: int = 0
    device_frees: int = 0
    snapshot: Snapshot = field(default_factory=dict, repr=False)

    @property
    def fragmentation(self) -> float:
        """The idle part of the peak."""
        return self.idle_at_peak / self.peak_reserved if self.peak_reserved else 0.0

    def __str__(self) -> str:
        end = f"ran out: {self.ran_out}" if self.ran_out else "did not run out"
        return (
            f"{self.settings.text or 'default settings'}: peak {format_size(self.peak_reserved)} "
            f"reserved, {format_size(self.peak_allocated)} in use, "
            f"{self.fragmentation:.1%} idle at the peak; {end}"
        )


def replay(
    snapshot: Snapshot,
    settings: str | AllocatorSettings | None = None,
    *,
    device_total: int | None = None,
    memory_fraction: float | None = None,
    device: int = 0,
    history: bool = False,
) -> ReplayResult:
    """What the recorded requests would have cost under other settings, on a device of any size.

    settings      None: those of the recording
    device_total  bytes; None: enough for everything
    history       True: `result.snapshot` has the trace of the replay, for a viewer

    Requests are made in recorded order until one finds no room. Blocks that were there before the
    trace are allocated first, by address. A block that waited for another stream in the recording
    waits here until the same point.
    """
    if settings is None:
        settings = settings_of(snapshot)
    elif isinstance(settings, str):
        settings = AllocatorSettings.parse(settings)
    total = UNBOUNDED if device_total is None else device_total
    simulated = SimulatedDevice(total)
    allocator = CachingAllocator(simulated, settings, memory_fraction, device=device)
    if history:
        allocator.record_memory_history("all", None, clock=lambda: 0)
    result = ReplayResult(settings, total)
    replayer = Replayer(allocator, simulated)
    entries = entries_of(snapshot, device)
    before = [
        (block, segment)
        for segment in segments_before(snapshot, 0, device)
        for block in segment["blocks"]
        if block["state"] != FREE
    ]
    start = [
        Request(
            "malloc",
            0,
            block["address"],
            block["requested_size"] or block["size"],
            segment["stream"],
            segment["segment_pool_id"],
        )
        for block, segment in before
    ]
    pending = {block["address"] for block, _ in before if block["state"] == PENDING}
    try:
        for request in chain(start, requests(entries, pending)):
            _make(replayer, request, result)
    except OutOfMemoryError as error:
        result.ran_out = (
            f"{format_size(error.requested)} wanted, {format_size(error.free)} free on the device, "
            f"{format_size(error.reserved - error.allocated)} idle in the cache"
        )
        result.ran_out_at = request.entry
    _finish(allocator, result)
    return result


def _make(replayer: Replayer, request: Request, result: ReplayResult) -> None:
    replayer.make(request)
    result.requests += 1
    allocator = replayer.allocator
    if allocator.reserved_bytes > result.peak_reserved:
        result.peak_reserved = allocator.reserved_bytes
        result.idle_at_peak = allocator.reserved_bytes - allocator.active_bytes


def _finish(allocator: CachingAllocator, result: ReplayResult) -> None:
    stats = allocator.memory_stats()
    result.peak_reserved = stats["reserved_bytes.all.peak"]
    result.peak_allocated = stats["allocated_bytes.all.peak"]
    result.reserved = stats["reserved_bytes.all.current"]
    result.allocated = stats["allocated_bytes.all.current"]
    result.retries = stats["num_alloc_retries"]
    result.device_allocs = stats["num_device_alloc"]
    result.device_frees = stats["num_device_free"]
    result.snapshot = allocator.snapshot()
    result.largest_free = max(
        (
            block["size"]
            for segment in result.snapshot["segments"]
            for block in segment["blocks"]
            if block["state"] == "inactive"
        ),
        default=0,
    )
