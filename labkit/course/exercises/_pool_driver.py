"""The device of a pool: it counts, remembers what to draw, and sees what no pool may do."""

from typing import Any

from labkit.course.benches.pool_log import PoolLog
from labkit.course.exercises._pool_streams import Emulated
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.out_of_memory import OutOfMemoryError


class PoolDriver(Emulated):
    """What a pool may call. Sizes are bytes; streams are ints; a refused malloc gives None."""

    def __init__(self, seed: int, total: int) -> None:
        super().__init__(seed)
        self._total = total
        self._sizes: dict[int, int] = {}
        self._live: dict[int, int] = {}
        self._events: dict[Any, int] = {}
        self.log = PoolLog(self.calls)
        self.program: list[tuple[Any, ...]] = []
        self.peak = self.waits = 0
        self.refused = False
        self.problems: list[str] = []

    def malloc(self, size: int) -> int | None:
        """Address of `size` new bytes, or None."""
        if self.log.held + size > self._total:
            self.refused = True
            return None
        address = self.log.malloc(size)
        assert address is not None, "the emulated device is large enough"
        self._sizes[address] = size
        self.peak = max(self.peak, self.log.held)
        return address

    def free(self, address: int) -> None:
        """Give back what `malloc` returned."""
        if address not in self._sizes:
            raise ValueError(f"driver.free: {address:#x} did not come from driver.malloc")
        size = self._sizes.pop(address)
        for start, length in self._live.items():
            if address < start + length and start < address + size:
                self.problems.append("memory was given back to the device while in use")
        self.log.free(address)

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes."""
        return self._total - self.log.held, self._total

    def record_event(self, stream: int) -> Any:
        """An event behind everything queued on the stream now."""
        event = self.calls.record_event(stream)
        self.program.append(("record", Emulated.name(stream), len(self._events)))
        self._events[event] = len(self._events)
        return event

    def query_event(self, event: Any) -> bool:
        """True when the event has completed."""
        done = self.calls.query_event(event)
        if done:
            self._host_waits(event)
        return done

    def synchronize_event(self, event: Any) -> None:
        """Wait until the event has completed."""
        self._wait()
        self._host_waits(event)
        self.calls.synchronize_event(event)

    def synchronize_stream(self, stream: int) -> None:
        """Wait until everything queued on the stream has run."""
        self._wait()
        self.program.append(("synchronize", Emulated.name(stream)))
        self.calls.synchronize_stream(stream)

    def _wait(self) -> None:
        self.waits += not self.refused

    def _host_waits(self, event: Any) -> None:
        """What the host queues from now on comes after the event."""
        if event in self._events:
            self.program.append(("host wait", self._events[event]))

    def stream_id(self, stream: int) -> int:
        """The number of the stream."""
        return stream

    def lend(self, address: int, size: int) -> None:
        """Note that a block is in use; it must lie in the device's memory, apart from others."""
        self.refused = False
        for start, length in self._live.items():
            if address < start + length and start < address + size:
                self.problems.append("two blocks in use overlap")
        inside = any(a <= address and address + size <= a + n for a, n in self._sizes.items())
        if not inside:
            self.problems.append("a block lies outside the memory of the device")
        self._live[address] = size
        self.log.lent(address, size)

    def returned(self, address: int) -> None:
        """Note that a block is no longer in use."""
        del self._live[address]
        self.log.returned(address)

    def give_back_all(self) -> int:
        """Bytes that the pool kept; afterwards the device has them again."""
        kept = self.log.held
        for address in list(self._sizes):
            self.calls.free(address)
        self._sizes.clear()
        return kept


class LabkitPool:
    """The caching allocator behind the pool's three methods."""

    def __init__(self, driver: Any) -> None:
        self._allocator = CachingAllocator(driver)

    def allocate(self, size: int, stream: int) -> int:
        try:
            return self._allocator.malloc(size, stream)
        except OutOfMemoryError as error:
            raise MemoryError(str(error)) from None

    def free(self, address: int, used_on: tuple[int, ...] = ()) -> None:
        for stream in used_on:
            self._allocator.record_stream(address, stream)
        self._allocator.free(address)

    def clear(self) -> None:
        self._allocator.empty_cache()
