"""Pinned host memory, cached: page-locking costs far more than the memory is worth.

Sizes are powers of two, each with its own list of free blocks, and nothing is ever split. A block
that a stream has used comes back when the stream's event has completed.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from labkit.memory.settings import AllocatorSettings
from labkit.memory.statistics import Stat


class HostDriver(Protocol):
    """What the host allocator asks of a driver. Events are as in `MemoryDriver`."""

    def host_malloc(self, size: int) -> int:
        """Address of `size` bytes of page-locked host memory."""

    def host_free(self, address: int) -> None:
        """Give back what `host_malloc` returned."""

    def record_event(self, stream: int) -> Any:
        """An event that completes once everything now queued on `stream` has run."""

    def query_event(self, event: Any) -> bool:
        """True when the event has completed."""


@dataclass
class HostBlock:
    """One piece of pinned memory. `streams` used it since it was handed out."""

    address: int
    size: int
    allocated: bool = True
    streams: list[int] = field(default_factory=list)
    event_count: int = 0


class CachingHostAllocator:
    """Keeps pinned memory in lists per power of two.

    driver    the host memory and the events
    settings  pinned_max_round_threshold_mb: larger requests keep their size;
              pinned_max_cached_size_mb: larger blocks are given back when they are freed

    Source   aten/src/ATen/core/CachingHostAllocator.h  CachingHostAllocatorImpl
    Differs  One thread and one pool: no background thread, no private pools, no reserved segment.
             Above pinned_max_round_threshold_mb a bucket holds blocks of several sizes; PyTorch
             hands out the last one whatever its size, this one the last that is large enough.
             Peaks are exact; PyTorch adds up the peaks of its buckets.
    """

    def __init__(self, driver: HostDriver, settings: str | AllocatorSettings = "") -> None:
        self._driver = driver
        if isinstance(settings, str):
            settings = AllocatorSettings.parse(settings)
        self.settings = settings
        self._blocks: dict[int, HostBlock] = {}
        self._free: dict[int, list[HostBlock]] = {}
        self._events: deque[tuple[Any, HostBlock]] = deque()
        self.active_requests, self.active_bytes = Stat(), Stat()
        self.allocations, self.allocated_bytes = Stat(), Stat()

    def allocate(self, size: int) -> int:
        """Address of at least `size` pinned bytes; 0 for 0 bytes.

        Raises   ValueError   a negative size
        """
        if size <= 0:
            if size == 0:
                return 0
            raise ValueError(f"cannot allocate {size} bytes")
        self.process_events()
        size = self.round_size(size)
        block = self._cached(size)
        if block is None:
            block = HostBlock(self._driver.host_malloc(size), size)
            self._blocks[block.address] = block
            self.allocations.change(1)
            self.allocated_bytes.change(size)
        self.active_requests.change(1)
        self.active_bytes.change(block.size)
        return block.address

    def free(self, address: int) -> None:
        """Give a block back; it can be handed out again once the streams that used it are done.

        Raises   ValueError   not the address of an allocated block
        """
        if address == 0:
            return
        block = self._block(address)
        block.allocated = False
        streams, block.streams = block.streams, []
        if not streams:
            self._cache(block)
            return
        block.event_count = len(streams)
        for stream in streams:
            self._events.appendleft((self._driver.record_event(stream), block))

    def record_event(self, address: int, stream: int) -> bool:
        """The block is used on `stream`; False when it is not one of ours."""
        block = self._blocks.get(address)
        if block is None:
            return False
        if stream not in self._block(address).streams:
            block.streams.append(stream)
        return True

    def process_events(self) -> None:
        """Take back the blocks whose events have completed, up to the first that has not.

        Events are looked at oldest first and across streams: a slow stream hides a fast one.
        """
        while self._events:
            event, block = self._events[-1]
            if not self._driver.query_event(event):
                return
            self._events.pop()
            block.event_count -= 1
            if block.event_count == 0:
                self._cache(block)

    def empty_cache(self) -> None:
        """Every block that nothing uses goes back to the operating system."""
        self.process_events()
        for free in self._free.values():
            while free:
                self._destroy(free.pop())

    def round_size(self, size: int) -> int:
        """The next power of two, unless the settings say that this size stays as it is."""
        limit = min(self.settings.pinned_max_round_threshold, self.settings.pinned_max_cached_size)
        return 1 << (size - 1).bit_length() if size <= limit else size

    def stats(self) -> dict[str, int]:
        """The figures of `torch.cuda.host_memory_stats` that do not depend on time."""
        figures = {
            "active_requests": self.active_requests,
            "active_bytes": self.active_bytes,
            "allocations": self.allocations,
            "allocated_bytes": self.allocated_bytes,
        }
        flat = {
            f"{name}.{key}": value
            for name, stat in figures.items()
            for key, value in stat.flat().items()
        }
        return flat | {
            "num_host_alloc": self.allocations.allocated,
            "num_host_free": self.allocations.freed,
        }

    def _block(self, address: int) -> HostBlock:
        block = self._blocks.get(address)
        if block is None or not block.allocated:
            raise ValueError(f"{address:#x} is not an allocated block of pinned memory")
        return block

    def _cached(self, size: int) -> HostBlock | None:
        free = self._free.get(bucket_of(size), [])
        for index in range(len(free) - 1, -1, -1):  # the last one came back last and is warm
            if free[index].size >= size:
                free[index].allocated = True
                return free.pop(index)
        return None

    def _cache(self, block: HostBlock) -> None:
        self.active_requests.change(-1)
        self.active_bytes.change(-block.size)
        if block.size > self.settings.pinned_max_cached_size:
            self._destroy(block)
        else:
            self._free.setdefault(bucket_of(block.size), []).append(block)

    def _destroy(self, block: HostBlock) -> None:
        del self._blocks[block.address]
        self._driver.host_free(block.address)
        self.allocations.change(-1)
        self.allocated_bytes.change(-block.size)


def bucket_of(size: int) -> int:
    """The list of a size: the exponent of the next power of two."""
    return (size - 1).bit_length()
