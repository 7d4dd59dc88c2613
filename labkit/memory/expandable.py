"""Segments that grow: address room reserved once, memory mapped into it page by page.

What is mapped and free waits in its pool like any block. Room without memory is kept as blocks
too, in a second set ordered by address.
"""

from labkit.memory.block import (
    FREE,
    UNMAPPED,
    AllocParams,
    Block,
    BlockPool,
    Segment,
    try_merge_blocks,
)
from labkit.memory.expandable_segment import ExpandableSegment
from labkit.memory.history import Frames
from labkit.memory.reserved import ReservedMemory
from labkit.memory.sizes import SMALL_SEGMENT_SIZE


class ExpandableSegments:
    """The expandable segments of one device."""

    def __init__(self, reserved: ReservedMemory) -> None:
        self._reserved = reserved
        self.segments: list[Segment] = []

    def try_allocate(self, params: AllocParams, large_segment_size: int) -> Block | None:
        """A block of `params.size` bytes or more with memory behind it; None when it is refused.

        Source   c10/cuda/CUDACachingAllocator.cpp
                 DeviceCachingAllocator::try_allocate_expandable_block
        """
        block = self._find(params, large_segment_size)
        size = params.size
        if block.state == UNMAPPED and not self._map(block, min(block.size, size), params.frames):
            return None
        while block.size < size:
            room = block.next
            assert room is not None, "the candidate had enough room"
            if not self._map(room, min(size - block.size, room.size), params.frames):
                return None
            block = room  # it has absorbed the free block before it
        block.segment.pool.remove(block)
        return block

    def unmap_block(self, block: Block, frames: Frames | None) -> None:
        """The whole pages inside a free block go back; its edges stay as free blocks.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::unmap_block
        """
        segment = block.segment
        expandable = pages_of(segment)
        address, size = expandable.whole_pages(block.address, block.size)
        if size == 0:
            return
        try:
            expandable.unmap(address, size)
        finally:  # a driver that fails half-way has unmapped a part
            unmapped = size - expandable.mapped_bytes(address, size)
            if unmapped:
                self._became_unmapped(block, address, unmapped, frames)
        self._release_if_empty(segment)

    def release_leftovers(self) -> None:
        """What a driver did not take back when it failed goes back now."""
        for segment in list(self.segments):
            expandable = pages_of(segment)
            if expandable.has_unmapped_pages:
                expandable.release_unmapped_pages()
                self._release_if_empty(segment)

    def _find(self, params: AllocParams, large_segment_size: int) -> Block:
        """The lowest unmapped block, or the free one before it, with room for the request.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::find_expandable_block
        """
        for block in params.pool.unmapped_blocks(params.stream):
            first = block
            if block.previous is not None and block.previous.state == FREE:
                first = block.previous
            if _has_room(first, params.size):
                return first
        segment, size = self.new_segment(params.pool, params.stream, large_segment_size)
        room = segment.first = Block(segment.address, size, segment, None, None, UNMAPPED)
        params.pool.insert_into_unmapped(room)
        return room

    def new_segment(
        self, pool: BlockPool, stream: int, large_page_size: int, address: int | None = None
    ) -> tuple[Segment, int]:
        """A segment that has no blocks yet, and the bytes of its room.

        address  where the room is already; None reserves it
        """
        page_size = SMALL_SEGMENT_SIZE if pool.is_small else large_page_size
        pages = ExpandableSegment(self._reserved.driver, stream, page_size, address)
        segment = self._reserved.new_segment(pages.address, pool, stream, pages)
        self.segments.append(segment)
        return segment, pages.size

    def _map(self, room: Block, size: int, frames: Frames | None) -> bool:
        """Put memory behind the first `size` bytes of an unmapped block; False when it is full.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::map_block
        """
        expandable = pages_of(room.segment)
        try:
            expandable.map(room.address, size)
        finally:  # a driver that fails half-way has mapped a part
            mapped = expandable.mapped_bytes(room.address, size)
            if mapped:
                self._became_mapped(room, mapped, frames)
        return mapped > 0

    def _became_mapped(self, room: Block, size: int, frames: Frames | None) -> None:
        """The first `size` bytes of the room are a free block."""
        segment, address = room.segment, room.address
        segment.pool.remove_unmapped(room)
        if size < room.size:
            segment.pool.insert_into_unmapped(room.split(size))
        room.state = FREE
        try_merge_blocks(room)
        segment.pool.insert_into_blocks(room)
        if room.previous is None and segment.frames is None:
            segment.frames = frames
        self._reserved.grew("segment_map", address, size, segment, frames)

    def _became_unmapped(
        self, block: Block, address: int, size: int, frames: Frames | None
    ) -> None:
        """`size` bytes from `address` on are room again; what is left of the block is free."""
        segment, pool = block.segment, block.segment.pool
        pool.remove(block)
        room = block
        if address > block.address:
            room = block.split(address - block.address)
            pool.insert_into_blocks(block)
        if size < room.size:
            pool.insert_into_blocks(room.split(size))
        room.state = UNMAPPED
        try_merge_blocks(room)
        pool.insert_into_unmapped(room)
        self._reserved.shrank("segment_unmap", address, size, segment, frames)

    def _release_if_empty(self, segment: Segment) -> None:
        """A segment that is one piece of room and no memory goes back.

        Source   c10/cuda/CUDACachingAllocator.cpp
                 DeviceCachingAllocator::release_expandable_segment
        """
        room = segment.first
        if room.state == UNMAPPED and not room.is_split:
            pages_of(segment).unreserve()
            segment.pool.remove_unmapped(room)
            self.segments.remove(segment)
            del self._reserved.segments[segment.address]


def pages_of(segment: Segment) -> ExpandableSegment:
    assert segment.expandable is not None, "only expandable segments have pages"
    return segment.expandable


def _has_room(block: Block | None, size: int) -> bool:
    room = 0
    while block is not None and block.state in (FREE, UNMAPPED) and room < size:
        room += block.size
        block = block.next
    return room >= size
