"""Code of the documents, kept as it was written there so that it can be measured.

Differs  The pointer that cudaMalloc leaves alone when it fails has a stated value, `WILD`.
"""

import threading

from labkit.memory.device import MemoryDriver

WILD = 0xBAD0BAD0BAD0
"""What an uninitialised pointer happens to hold."""


class MemoryPool:
    """The sketched pool, line by line, on any driver.

    free_chunks  exact size -> freed addresses
    misses       requests that reached the device; waits: how often a stream was waited for
    """

    def __init__(self, driver: MemoryDriver, stream: int = 0) -> None:
        self.free_chunks: dict[int, list[int]] = {}
        self.mutex = threading.Lock()
        self.stream = stream
        self.misses = self.waits = 0
        self._driver = driver

    def allocate(self, size: int) -> int:
        """The address of a chunk of this size."""
        with self.mutex:
            chunks = self.free_chunks.setdefault(size, [])  # operator[] leaves a key behind
            if not chunks:
                self.misses += 1
                address = self._driver.malloc(size)
                self._wait()
                return WILD if address is None else address
            return chunks.pop()

    def free(self, address: int, size: int) -> None:
        """The chunk waits for a request of its size."""
        with self.mutex:
            self._wait()
            self.free_chunks.setdefault(size, []).append(address)

    def clear(self) -> None:
        """The chunks in the table are freed."""
        for chunks in self.free_chunks.values():
            for address in chunks:
                self._driver.free(address)
        self.free_chunks.clear()

    def _wait(self) -> None:
        self.waits += 1
        self._driver.synchronize_stream(self.stream)
