"""Segments that grow: address room reserved once, memory mapped into it page by page.

What is mapped and free waits in the free list like any block. Room without memory is kept as
blocks too, in a second set ordered by address.
"""

from typing import TYPE_CHECKING, Any

from labkit.memory.block import FREE, UNMAPPED, Block, BlockPool, Segment, absorb_neighbours
from labkit.memory.history import Frames
from labkit.memory.sizes import SMALL_SEGMENT_SIZE

if TYPE_CHECKING:
    from labkit.memory.allocator_state import AllocatorState
    from labkit.memory.device import MemoryDriver


class ExpandableSegment:
    """Room for the whole device and an eighth more, with the pages that are mapped into it.

    Source   c10/cuda/CUDACachingAllocator.cpp  ExpandableSegment
    """

    def __init__(
        self, driver: "MemoryDriver", stream: int, page_size: int, address: int | None = None
    ) -> None:
        self._driver = driver
        self._stream = stream
        self._page_size = page_size
        self._pages: dict[int, Any] = {}
        total = driver.memory_info()[1]
        self.size = -(-(total + total // 8) // page_size) * page_size
        self.address = driver.reserve(self.size) if address is None else address

    def adopt_pages(self, address: int, size: int) -> None:
        """Pages that were mapped before this object existed count as mapped here."""
        for page_address in range(address, address + size, self._page_size):
            self._pages[page_address] = self._page_size

    def map(self, address: int, size: int) -> int:
        """Bytes mapped from `address` on: whole pages for `size`, or 0 when they do not all fit."""
        pages: list[Any] = []
        for _ in range(-(-size // self._page_size)):
            page = self._driver.create_page(self._page_size)
            if page is None:
                for created in pages:
                    self._driver.release_page(created)
                return 0
            pages.append(page)
        for index, page in enumerate(pages):
            self._driver.map_page(address + index * self._page_size, self._page_size, page)
            self._pages[address + index * self._page_size] = page
        return len(pages) * self._page_size

    def unmap(self, address: int, size: int) -> tuple[int, int]:
        """(address, size) of the whole pages inside the range, which hold no memory any more."""
        offset = address - self.address
        begin = self.address + -(-offset // self._page_size) * self._page_size
        end = self.address + (offset + size) // self._page_size * self._page_size
        if begin >= end:
            return address, 0
        # unlike cudaFree, unmapping does not wait for what still runs on the memory
        self._driver.synchronize_stream(self._stream)
        for page_address in range(begin, end, self._page_size):
            self._driver.unmap_page(page_address, self._page_size)
            self._driver.release_page(self._pages.pop(page_address))
        return begin, end - begin

    def unreserve(self) -> None:
        """The room is given back; no page may be mapped in it."""
        self._driver.unreserve(self.address, self.size)


class ExpandableSegments:
    """The growing segments of one device.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::find_expandable_block,
             map_block, try_allocate_expandable_block, unmap_block, release_expandable_segment
    """

    def __init__(self, allocator: "AllocatorState") -> None:
        self._allocator = allocator
        self.segments: list[Segment] = []

    def grow(self, pool: BlockPool, stream: int, size: int, frames: Frames | None) -> Block | None:
        """A block of `size` bytes or more out of mapped room; None when the device is full."""
        block = self._room(pool, stream, size)
        if block.state == UNMAPPED and not self._map(block, min(block.size, size), frames):
            return None
        while block.size < size:
            room = block.next
            assert room is not None, "the candidate had enough room"
            if not self._map(room, min(size - block.size, room.size), frames):
                return None
            block = room  # it has absorbed the free block before it
        block.segment.free_list.remove(block)
        return block

    def unmap(self, block: Block, frames: Frames | None) -> None:
        """Give the whole pages inside a free block back; its edges stay as free blocks."""
        allocator, segment = self._allocator, block.segment
        expandable = segment.expandable
        assert expandable is not None, "only growing segments have pages"
        address, size = expandable.unmap(block.address, block.size)
        if size == 0:
            return
        segment.free_list.remove(block)
        before, after = address - block.address, block.address + block.size - address - size
        if before:
            edge = Block(block.address, before, segment, block.previous, block, FREE)
            if block.previous is None:
                segment.first = edge
            else:
                block.previous.next = edge
            block.previous = edge
            allocator.add_free(edge)
        if after:
            edge = Block(address + size, after, segment, block, block.next, FREE)
            if block.next is not None:
                block.next.previous = edge
            block.next = edge
            allocator.add_free(edge)
        block.address, block.size, block.state = address, size, UNMAPPED
        absorb_neighbours(block)
        segment.pool.add_unmapped(block)
        allocator.count_released("segment_unmap", address, size, segment, frames)
        if not block.is_split:
            segment.pool.remove_unmapped(block)
            self.segments.remove(segment)
            del allocator.segments[segment.address]
            expandable.unreserve()

    def _room(self, pool: BlockPool, stream: int, size: int) -> Block:
        """The lowest unmapped block, or the free one before it, with room for `size` bytes."""
        for block in pool.unmapped_blocks(stream):
            first = block
            if block.previous is not None and block.previous.state == FREE:
                first = block.previous
            if _has_room(first, size):
                return first
        allocator = self._allocator
        page_size = SMALL_SEGMENT_SIZE if pool.is_small else allocator.settings.large_segment_size
        expandable = ExpandableSegment(allocator.driver, stream, page_size)
        segment = Segment(
            expandable.address, allocator.next_birth(), pool, stream, expandable=expandable
        )
        self.segments.append(segment)
        allocator.segments[segment.address] = segment
        room = Block(expandable.address, expandable.size, segment, None, None, UNMAPPED)
        segment.first = room
        pool.add_unmapped(room)
        return room

    def _map(self, room: Block, size: int, frames: Frames | None) -> bool:
        """Put memory behind the first `size` bytes of an unmapped block; False when it is full."""
        segment = room.segment
        expandable = segment.expandable
        assert expandable is not None, "only growing segments have unmapped room"
        address, mapped = room.address, expandable.map(room.address, size)
        if mapped == 0:
            return False
        segment.pool.remove_unmapped(room)
        if mapped < room.size:
            rest = Block(address + mapped, room.size - mapped, segment, room, room.next, UNMAPPED)
            if room.next is not None:
                room.next.previous = rest
            room.next = rest
            segment.pool.add_unmapped(rest)
            room.size = mapped
        room.state = FREE
        absorb_neighbours(room)
        self._allocator.add_free(room)
        if room.previous is None and segment.frames is None:
            segment.frames = frames
        self._allocator.count_reserved("segment_map", address, mapped, segment, frames)
        return True


def _has_room(block: Block | None, size: int) -> bool:
    room = 0
    while block is not None and block.state in (FREE, UNMAPPED) and room < size:
        room += block.size
        block = block.next
    return room >= size
