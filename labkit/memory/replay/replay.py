"""A recorded history once more: exactly as it was, or under other settings.

`replay_exactly` feeds the recorded addresses of segments to the allocator and compares every entry.
`replay` answers "what if": same requests, other settings or another device.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from labkit.memory.block import FREE, PENDING
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.replay.exactly import explicit_releases
from labkit.memory.replay.replayer import Replayer
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import format_size
from labkit.memory.snapshots.trace import (
    Request,
    Snapshot,
    damage_told,
    entries_of,
    requests,
    segments_before,
    settings_of,
)

UNBOUNDED = 2**46
"""Bytes of a device that never runs out: what a replay uses unless it is told a size."""


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
    retries          how often the cache was emptied to make room
    device_allocs, device_frees  how often the device was asked for memory, and given some back
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

    Raises   SnapshotError   the recording contradicts itself
             ValueError      a device the recording does not have, or settings that do not parse
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
    with damage_told("replay"):
        emptied = explicit_releases(snapshot, device)
        replayer = Replayer(allocator, simulated, lambda request: request.entry in emptied)
        try:
            for request in _all_requests(snapshot, device):
                _make(replayer, request, result)
        except OutOfMemoryError as error:
            result.ran_out = (
                f"{format_size(error.requested)} wanted, {format_size(error.free)} free on the "
                f"device, {format_size(error.reserved - error.allocated)} idle in the cache"
            )
            result.ran_out_at = request.entry
    _finish(allocator, result)
    return result


def _all_requests(snapshot: Snapshot, device: int) -> Iterator[Request]:
    """What is there before the trace as requests, by address, and then those of the trace."""
    pending = set()
    for segment in segments_before(snapshot, 0, device):
        for block in segment["blocks"]:
            if block["state"] == PENDING:
                pending.add(block["address"])
            if block["state"] != FREE:
                size = block["requested_size"] or block["size"]
                yield Request(
                    "malloc", 0, block["address"], size, segment["stream"],
                    segment["segment_pool_id"],
                )  # fmt: skip
    yield from requests(entries_of(snapshot, device), pending)


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
