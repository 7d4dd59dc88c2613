"""What the allocator asks of a device, and a device made of nothing but rules.

`SimulatedDevice` hands out addresses without memory behind them: it is what the recordings of
PyTorch's allocator were made on, and what a trace is replayed on.
"""

from bisect import bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from labkit.memory.sizes import MIB


class MemoryDriver(Protocol):
    """The calls of a device driver that an allocator needs. Sizes are bytes.

    A refused request returns None: running out is an answer, not a fault.
    Streams are handles (ints), 0 is the default stream. Events are whatever `record_event` returns.
    """

    def malloc(self, size: int) -> int | None:
        """Address of `size` new bytes, or None when they do not fit."""

    def free(self, address: int) -> None:
        """Give back what `malloc` returned."""

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of the device."""

    def reserve(self, size: int) -> int:
        """Address of `size` bytes of room without memory."""

    def unreserve(self, address: int, size: int) -> None:
        """Give back room that `reserve` returned, with nothing mapped in it."""

    def create_page(self, size: int) -> Any | None:
        """Handle of `size` bytes of memory without an address, or None when they do not fit."""

    def release_page(self, page: Any) -> None:
        """Give back a page that is not mapped."""

    def map_page(self, address: int, size: int, page: Any) -> None:
        """The page is reachable at `address`."""

    def unmap_page(self, address: int, size: int) -> None:
        """The room at `address` is empty again."""

    def record_event(self, stream: int) -> Any:
        """An event that completes once everything now queued on `stream` has run."""

    def query_event(self, event: Any) -> bool:
        """True when the event has completed."""

    def synchronize_event(self, event: Any) -> None:
        """Wait until the event has completed."""

    def synchronize_stream(self, stream: int) -> None:
        """Wait until everything queued on `stream` has run."""

    def stream_id(self, stream: int) -> int:
        """PyTorch's number for the stream, which its hash tables are keyed by."""


class AddressRange:
    """Room handed out lowest gap first, from a base address upward."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}

    def take(self, size: int) -> int:
        """Address of the lowest gap of at least `size` bytes."""
        address = self._base
        for start in self._starts:
            if start - address >= size:
                break
            address = start + self._sizes[start]
        insort(self._starts, address)
        self._sizes[address] = size
        return address

    def give_back(self, address: int) -> int:
        """The size of what was taken at `address`.

        Raises   ValueError   nothing was taken there
        """
        if address not in self._sizes:
            raise ValueError(f"nothing was handed out at {address:#x}")
        del self._starts[bisect_right(self._starts, address) - 1]
        return self._sizes.pop(address)


@dataclass(frozen=True)
class SimulatedEvent:
    """Complete once the stream's completed ticket has reached this one."""

    stream: int
    ticket: int


class SimulatedDevice:
    """A device of `total` bytes that follows fixed rules and runs nothing.

    Memory comes in multiples of 2 MiB from the lowest gap. Nothing queued on a stream completes by
    itself: `complete(stream)` says so, or the allocator waits for it.
    """

    GRANULE = 2 * MIB
    MALLOC_BASE = 0x600000000000
    RESERVE_BASE = 0x680000000000

    def __init__(self, total: int, stream_ids: Mapping[int, int] | None = None) -> None:
        if total <= 0:
            raise ValueError(f"a device has at least 1 byte of memory, got total={total}")
        self.total = total
        self.used = 0
        self.calls: dict[str, int] = {}
        """How often each kind of memory call was made."""
        self._memory = AddressRange(self.MALLOC_BASE)
        self._reserved = AddressRange(self.RESERVE_BASE)
        self._mapped: dict[int, int] = {}
        self._recorded: dict[int, int] = {}
        self._completed: dict[int, int] = {}
        self._stream_ids = dict(stream_ids or {})

    def malloc(self, size: int) -> int | None:
        """Address of `size` bytes, rounded up to the granule; None when they do not fit."""
        self._count("malloc")
        size = -(-size // self.GRANULE) * self.GRANULE
        if self.used + size > self.total:
            return None
        self.used += size
        return self._memory.take(size)

    def free(self, address: int) -> None:
        """The range becomes a gap at once.

        Raises   ValueError   `malloc` did not return this address, or it was freed before
        """
        self._count("free")
        self.used -= self._memory.give_back(address)

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes."""
        return self.total - self.used, self.total

    def reserve(self, size: int) -> int:
        """Room of exactly `size` bytes; it costs no memory."""
        self._count("reserve")
        return self._reserved.take(size)

    def unreserve(self, address: int, size: int) -> None:
        """The room becomes a gap at once."""
        self._count("unreserve")
        if any(address <= mapped < address + size for mapped in self._mapped):
            raise ValueError(f"pages are still mapped in the room at {address:#x}")
        self._reserved.give_back(address)

    def create_page(self, size: int) -> int | None:
        """The page's size stands for it; None when it does not fit."""
        self._count("create_page")
        if self.used + size > self.total:
            return None
        self.used += size
        return size

    def release_page(self, page: int) -> None:
        """Its bytes are free again."""
        self._count("release_page")
        self.used -= page

    def map_page(self, address: int, size: int, page: int) -> None:
        """Only the fact is kept.

        Raises   ValueError   a page is mapped there already, or the sizes differ
        """
        self._count("map_page")
        if address in self._mapped or page != size:
            raise ValueError(f"cannot map a page of {page} bytes as {size} bytes at {address:#x}")
        self._mapped[address] = size

    def unmap_page(self, address: int, size: int) -> None:
        """The room is empty again.

        Raises   ValueError   no page of that size is mapped there
        """
        self._count("unmap_page")
        if self._mapped.get(address) != size:
            raise ValueError(f"no page of {size} bytes is mapped at {address:#x}")
        del self._mapped[address]

    def record_event(self, stream: int) -> SimulatedEvent:
        """The next ticket of the stream."""
        ticket = self._recorded[stream] = self._recorded.get(stream, 0) + 1
        return SimulatedEvent(stream, ticket)

    def query_event(self, event: SimulatedEvent) -> bool:
        """True once `complete`, or a wait, has passed its ticket."""
        return self._completed.get(event.stream, 0) >= event.ticket

    def synchronize_event(self, event: SimulatedEvent) -> None:
        """Everything recorded before the event on its stream is complete as well."""
        completed = self._completed.get(event.stream, 0)
        self._completed[event.stream] = max(completed, event.ticket)

    def synchronize_stream(self, stream: int) -> None:
        """Everything queued on `stream` is complete."""
        self._completed[stream] = self._recorded.get(stream, 0)

    complete = synchronize_stream

    def stream_id(self, stream: int) -> int:
        """The id given for the stream, or its handle where none was."""
        return self._stream_ids.get(stream, stream)

    def _count(self, call: str) -> None:
        self.calls[call] = self.calls.get(call, 0) + 1
