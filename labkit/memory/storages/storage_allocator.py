"""The caching allocator as storages want it: a DataPtr per request, on the current stream.

A tensor may be dropped at any moment: in another thread, or by Python's garbage collector in the
middle of a request. A lock keeps threads apart, and a free that arrives while a request is being
served waits until it is done.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from labkit.core.allocator import DataPtr
from labkit.core.device import Device
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.history import MempoolId


class StorageAllocator:
    """Serves labkit's storages of one device.

    current_stream   called with every request: the stream that the memory is for

    Source   c10/cuda/CUDACachingAllocator.cpp  NativeCachingAllocator
    """

    def __init__(
        self,
        allocator: CachingAllocator,
        device_type: str = "cuda",
        current_stream: Callable[[], int] = lambda: 0,
    ) -> None:
        self.allocator = allocator
        self._device = Device(device_type, allocator.device)
        self._current_stream = current_stream
        self._lock = threading.RLock()
        self._busy = False
        self._late: deque[tuple[Callable[[Any], None], Any]] = deque()

    def allocate(self, nbytes: int) -> DataPtr:
        """Own `nbytes` bytes of whatever the memory held before.

        Raises   OutOfMemoryError   nothing that is cached could be released to make room
        """
        address = self.take(nbytes, self._current_stream())
        return DataPtr(address, self._device, address, self.free)

    def take(self, nbytes: int, stream: int) -> int:
        """Address of `nbytes` bytes for work on this stream, until `free`.

        Raises   OutOfMemoryError   nothing that is cached could be released to make room
        """
        with self._lock:
            address = 0
            self._busy = True
            try:
                try:
                    address = self.allocator.malloc(nbytes, stream)
                finally:
                    self._busy = False
                    self._free_late()
            except BaseException:
                if address:  # a late free failed, and the caller will not learn the address
                    self.allocator.free(address)
                raise
            return address

    def free(self, address: int) -> None:
        """Give the bytes back."""
        self._when_idle(self.allocator.free, address)

    def release_pool(self, mempool_id: MempoolId) -> None:
        """One holder of a private pool less."""
        self._when_idle(self.allocator.private_pools.release, mempool_id)

    def _when_idle(self, give_back: Callable[[Any], None], what: Any) -> None:
        with self._lock:
            self._late.append((give_back, what))
            if not self._busy:
                self._free_late()

    def record_stream(self, data_ptr: DataPtr, stream: int) -> None:
        """The bytes are also used on `stream`: giving them back waits for what is queued there."""
        self.record_address(data_ptr.address, stream)

    def record_address(self, address: int, stream: int) -> None:
        """As `record_stream`, for memory that `take` returned."""
        with self._lock:
            self.allocator.record_stream(address, stream)

    def empty_cache(self) -> None:
        """Everything that nothing uses goes back to the device."""
        with self._lock:
            self._busy = True
            try:
                self.allocator.empty_cache()
            finally:
                self._busy = False
                self._free_late()

    def _free_late(self) -> None:
        while self._late:
            self._busy = True
            try:
                give_back, what = self._late.popleft()
                give_back(what)
            finally:
                self._busy = False
