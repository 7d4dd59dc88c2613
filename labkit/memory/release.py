"""Giving cached memory back to the device: what goes, and in which order."""

from typing import TYPE_CHECKING

from labkit.memory.block import Block, BlockPool, MempoolId
from labkit.memory.history import Frames
from labkit.memory.private_pools import PrivatePool
from labkit.memory.settings import UNLIMITED

if TYPE_CHECKING:
    from labkit.memory.allocator_state import AllocatorState


def collect_garbage(allocator: "AllocatorState", frames: Frames | None) -> None:
    """Release old unsplit blocks of the large pool while more than the threshold is reserved.

    A round releases every block at or above the average age; rounds go on until enough is
    released or a round found nothing. Nobody waits for a stream here.

    Source   c10/cuda/CUDACachingAllocator.cpp
             DeviceCachingAllocator::garbage_collect_cached_blocks
    """
    limit = allocator.memory_limit
    if limit is None:
        return
    excess = allocator.reserved_bytes - int(allocator.settings.garbage_collection_threshold * limit)
    if excess <= 0:
        return
    ages = [block.age for block in allocator.large_pool.free_blocks() if not block.is_split]
    total_age, count, reclaimed, found = sum(ages), len(ages), 0, True
    while reclaimed < excess and found and count:
        average = total_age / count
        found = False
        for block in allocator.large_pool.free_blocks():
            if block.is_split or block.segment.expandable is not None or block.age < average:
                continue
            found = True
            reclaimed += block.size
            total_age -= block.age
            count -= 1
            release_block(allocator, block, frames)


def release_available(
    allocator: "AllocatorState", pool: BlockPool, stream: int, size: int, frames: Frames | None
) -> bool:
    """Release cached oversize blocks that make room for `size` bytes; True when they do.

    One block that is large enough, or several from the largest down until the sum suffices.
    Only with max_split_size: such blocks are never split, so they can always go.

    Source   c10/cuda/CUDACachingAllocator.cpp
             DeviceCachingAllocator::release_available_cached_blocks
    """
    oversize = allocator.settings.max_split_size
    if oversize == UNLIMITED:
        return False
    wanted = max(size, oversize)
    free_list = pool.free_lists[stream]
    block = next(free_list.at_least(wanted), None)
    if block is not None and block.segment.expandable is None:
        release_block(allocator, block, frames)
        return True
    released = 0
    for block in list(free_list.from_largest()):
        if released >= wanted or block.size < oversize:
            break
        if block.size >= wanted:
            continue
        if block.segment.expandable is None:
            released += block.size
            release_block(allocator, block, frames)
    return released >= wanted


def release_cached(
    allocator: "AllocatorState", frames: Frames | None, only: MempoolId | None = None
) -> None:
    """Release whatever nothing uses: of all pools, or of one private pool that nobody holds.

    Waits for every outstanding event first, so pending blocks can go as well. While a graph is
    captured only private pools that nobody holds give memory back.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::release_cached_blocks
    """
    if only is None and not allocator.private_pools.capturing:
        allocator.wait_for_events(frames)
        release_pool(allocator, allocator.large_pool, frames)
        release_pool(allocator, allocator.small_pool, frames)

    def release_private(pool: PrivatePool) -> None:
        if only is not None:
            allocator.wait_for_events(frames, pool)
        release_pool(allocator, pool.small, frames)
        release_pool(allocator, pool.large, frames)

    allocator.private_pools.visit_freeable(release_private, only)


def release_pool(allocator: "AllocatorState", pool: BlockPool, frames: Frames | None) -> None:
    """Release whole free segments in set order, then the free pages of growing ones.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::release_blocks
    """
    free = pool.free_blocks()
    for block in free:
        if block.segment.expandable is None and not block.is_split:
            release_block(allocator, block, frames)
    for block in free:
        if block.segment.expandable is not None:
            allocator.expandable.unmap(block, frames)


def release_block(allocator: "AllocatorState", block: Block, frames: Frames | None) -> None:
    """A free block that is a whole segment goes back to the device.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::release_block
    """
    segment = block.segment
    allocator.count_released("segment_free", block.address, block.size, segment, frames)
    allocator.driver.free(block.address)
    segment.free_list.remove(block)
    del allocator.segments[segment.address]
