"""The pool of the document: a dict from size to freed addresses. It is here to be measured.

Only a request of exactly the same size finds anything again, nothing is split, joined or given
back, and nobody asks which stream still uses a block.
"""

from labkit.memory.device import MemoryDriver
from labkit.memory.out_of_memory import OutOfMemoryError


class ExactSizePool:
    """Keeps freed memory for requests of exactly the same size.

    hits, misses   requests that found something cached, and those that asked the device
    reserved_bytes, allocated_bytes   taken from the device, and of that in use
    """

    def __init__(self, driver: MemoryDriver) -> None:
        self._driver = driver
        self._free: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}
        self._live: set[int] = set()
        self.hits = self.misses = 0
        self.reserved_bytes = self.peak_reserved_bytes = self.allocated_bytes = 0

    def malloc(self, size: int, stream: int = 0) -> int:
        """Address of `size` bytes. The stream is ignored: that is one of the faults.

        Raises   OutOfMemoryError   the device is full, however much is cached in other sizes
        """
        if size <= 0:
            if size == 0:
                return 0
            raise ValueError(f"cannot allocate {size} bytes")
        cached = self._free.get(size)
        if cached:
            self.hits += 1
            address = cached.pop()
        else:
            self.misses += 1
            address = self._ask_the_device(size, stream)
        self._live.add(address)
        self.allocated_bytes += size
        return address

    def free(self, address: int) -> None:
        """The block waits for a request of its size, for ever if none comes.

        Raises   ValueError   not the address of an allocated block
        """
        if address == 0:
            return
        if address not in self._live:
            raise ValueError(f"{address:#x} is not an allocated block")
        self._live.remove(address)
        size = self._sizes[address]
        self.allocated_bytes -= size
        self._free.setdefault(size, []).append(address)

    def _ask_the_device(self, size: int, stream: int) -> int:
        address = self._driver.malloc(size)
        if address is None:
            free, total = self._driver.memory_info()
            raise OutOfMemoryError(
                requested=size,
                block_size=size,
                segment_size=size,
                stream=stream,
                device=0,
                free=free,
                total=total,
                allowed=None,
                allocated=self.allocated_bytes,
                reserved=self.reserved_bytes,
                in_private_pools=0,
            )
        self._sizes[address] = size
        self.reserved_bytes += size
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return address
