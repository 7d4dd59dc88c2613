"""The address room of a segment that grows, and the pages of memory mapped into it."""

from typing import Any

from labkit.memory.device import MemoryDriver


class ExpandableSegment:
    """Room for the whole device and an eighth more, with the pages that are mapped into it.

    What is mapped is told by `mapped_bytes` alone, also after a call of the driver has failed
    half-way: pages before the failure are done, it and those behind it are not.

    Source   c10/cuda/CUDACachingAllocator.cpp  ExpandableSegment
    """

    def __init__(
        self, driver: MemoryDriver, stream: int, page_size: int, address: int | None = None
    ) -> None:
        self._driver = driver
        self._stream = stream
        self._page_size = page_size
        self._mapped: dict[int, Any] = {}
        self._unmapped: list[Any] = []
        total = driver.memory_info()[1]
        self.size = -(-(total + total // 8) // page_size) * page_size
        self.address = driver.reserve(self.size) if address is None else address

    @property
    def has_unmapped_pages(self) -> bool:
        """True while there are pages that are mapped nowhere: the driver did not take them back."""
        return bool(self._unmapped)

    def adopt_pages(self, address: int, size: int) -> None:
        """Pages that were mapped before this object existed count as mapped here."""
        for page_address in range(address, address + size, self._page_size):
            self._mapped[page_address] = self._page_size

    def mapped_bytes(self, address: int, size: int) -> int:
        """Bytes of the pages that are mapped from `address` on, as far as `size` bytes reach."""
        addresses = range(address, address + size, self._page_size)
        return self._page_size * sum(page in self._mapped for page in addresses)

    def whole_pages(self, address: int, size: int) -> tuple[int, int]:
        """(address, size) of the pages that lie inside the range; the size is 0 if none does."""
        offset = address - self.address
        begin = -(-offset // self._page_size) * self._page_size
        end = (offset + size) // self._page_size * self._page_size
        return self.address + begin, max(end - begin, 0)

    def map(self, address: int, size: int) -> None:
        """Whole pages for `size` bytes are mapped; none when the device has no room for all."""
        addresses = range(address, address + size, self._page_size)
        try:
            if not self._create_pages(len(addresses)):
                return
            for page_address in addresses:
                self._driver.map_page(page_address, self._page_size, self._unmapped[-1])
                self._mapped[page_address] = self._unmapped.pop()
        finally:
            self.release_unmapped_pages()

    def unmap(self, address: int, size: int) -> None:
        """These pages hold no memory any more."""
        # unlike cudaFree, unmapping does not wait for what still runs on the memory
        self._driver.synchronize_stream(self._stream)
        for page_address in range(address, address + size, self._page_size):
            self._driver.unmap_page(page_address, self._page_size)
            self._unmapped.append(self._mapped.pop(page_address))
            self.release_unmapped_pages()

    def release_unmapped_pages(self) -> None:
        """Pages that are mapped nowhere go back to the device."""
        while self._unmapped:
            self._driver.release_page(self._unmapped[-1])
            self._unmapped.pop()

    def unreserve(self) -> None:
        """The room is given back; no page may be mapped in it."""
        self._driver.unreserve(self.address, self.size)

    def _create_pages(self, count: int) -> bool:
        while len(self._unmapped) < count:
            page = self._driver.create_page(self._page_size)
            if page is None:
                return False
            self._unmapped.append(page)
        return True
