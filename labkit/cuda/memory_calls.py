"""A driver's memory as an allocator wants it: running out is an answer, not an error.

The caching allocator of `labkit.memory` asks for exactly these calls.
"""

from typing import Any

from labkit.cuda.driver import Driver
from labkit.cuda.errors import OutOfMemoryError
from labkit.cuda.stream import Event, Stream, stream_id


class MemoryCalls:
    """Any `Driver`, seen as `labkit.memory.device.MemoryDriver`."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def malloc(self, size: int) -> int | None:
        """Address of `size` new bytes, or None when they do not fit."""
        try:
            with self.driver.capture_relaxed():
                return self.driver.malloc(size)
        except OutOfMemoryError:
            return None

    def free(self, address: int) -> None:
        """Give back what `malloc` returned."""
        self.driver.free(address)

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of the device."""
        return self.driver.memory_info()

    def reserve(self, size: int) -> int:
        """Address of `size` bytes of room without memory."""
        return self.driver.address_reserve(size)

    def unreserve(self, address: int, size: int) -> None:
        """Give back room that `reserve` returned, with nothing mapped in it."""
        self.driver.address_free(address, size)

    def create_page(self, size: int) -> int | None:
        """Handle of `size` bytes of memory without an address, or None when they do not fit."""
        try:
            return self.driver.memory_create(size)
        except OutOfMemoryError:
            return None

    def release_page(self, page: Any) -> None:
        """Give back a page that is not mapped."""
        self.driver.memory_release(page)

    def map_page(self, address: int, size: int, page: Any) -> None:
        """The page is reachable at `address`."""
        self.driver.memory_map(address, size, page)

    def unmap_page(self, address: int, size: int) -> None:
        """The room at `address` is empty again."""
        self.driver.memory_unmap(address, size)

    def record_event(self, stream: int) -> Event:
        """An event that completes once everything now queued on `stream` has run."""
        event = Event(driver=self.driver)
        event.record(Stream.from_handle(stream, self.driver))
        return event

    def query_event(self, event: Event) -> bool:
        """True when the event has completed."""
        return event.query()

    def synchronize_event(self, event: Event) -> None:
        """Wait until the event has completed."""
        event.synchronize()

    def synchronize_stream(self, stream: int) -> None:
        """Wait until everything queued on `stream` has run."""
        self.driver.stream_synchronize(stream)

    def stream_id(self, stream: int) -> int:
        """PyTorch's number for the stream, which its hash tables are keyed by."""
        return stream_id(stream, self.driver)
