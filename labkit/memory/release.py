"""Giving cached memory back to the device: what goes, and in which order."""

from labkit.memory.block import AllocParams, BlockPool, PoolPair, PrivatePool
from labkit.memory.expandable import ExpandableSegments
from labkit.memory.history import Frames, MempoolId
from labkit.memory.private_pools import PrivatePools
from labkit.memory.reserved import ReservedMemory
from labkit.memory.settings import UNLIMITED
from labkit.memory.statistics import DeviceStats
from labkit.memory.stream_events import StreamEvents


class CachedMemory:
    """The free blocks of one device, as what can go back to it.

    What the driver raises ends the release: what went back before is gone, the rest is cached.
    """

    def __init__(
        self,
        reserved: ReservedMemory,
        expandable: ExpandableSegments,
        default_pools: PoolPair,
        private_pools: PrivatePools,
        events: StreamEvents,
        stats: DeviceStats,
    ) -> None:
        self._reserved = reserved
        self._expandable = expandable
        self._default_pools = default_pools
        self._private_pools = private_pools
        self._events = events
        self._stats = stats

    def garbage_collect(self, threshold: float, frames: Frames | None) -> None:
        """Release old unsplit blocks of the large pool while more than the threshold is reserved.

        A round releases every block at or above the average age; rounds go on until enough is
        released or a round found nothing. Nobody waits for a stream here.

        threshold  as a part of the limit, 0 to 1

        Source   c10/cuda/CUDACachingAllocator.cpp
                 DeviceCachingAllocator::garbage_collect_cached_blocks
        """
        reserved, large_blocks = self._reserved, self._default_pools.large_blocks
        if reserved.limit is None:
            return
        excess = reserved.bytes - int(threshold * reserved.limit)
        if excess <= 0:
            return
        ages = [block.gc_count for block in large_blocks.free_blocks() if not block.is_split]
        total_age, count, reclaimed, found = sum(ages), len(ages), 0, True
        while reclaimed < excess and found and count:
            average = total_age / count
            found = False
            for block in large_blocks.free_blocks():
                if block.is_split or block.segment.expandable or block.gc_count < average:
                    continue
                found = True
                reclaimed += block.size
                total_age -= block.gc_count
                count -= 1
                reserved.release_block(block, frames)

    def release_available(self, params: AllocParams, max_split_size: int) -> bool:
        """Release oversize blocks that make room for a request; True when they do.

        One block that is large enough, or several from the largest down until the sum suffices.
        Only with max_split_size: such blocks are never split, so they can always go.

        Source   c10/cuda/CUDACachingAllocator.cpp
                 DeviceCachingAllocator::release_available_cached_blocks
        """
        if max_split_size == UNLIMITED:
            return False
        pool, stream = params.pool, params.stream
        wanted = max(params.size, max_split_size)
        block = pool.first_at_least(stream, wanted)
        if block is not None and block.segment.expandable is None:
            self._reserved.release_block(block, params.frames)
            return True
        released = 0
        for block in pool.from_largest(stream):
            if released >= wanted or block.size < max_split_size:
                break
            if block.size < wanted and block.segment.expandable is None:
                released += block.size
                self._reserved.release_block(block, params.frames)
        return released >= wanted

    def release_all(self, frames: Frames | None, only: MempoolId | None = None) -> None:
        """Release whatever nothing uses: of all pools, or of one private pool that nobody holds.

        Waits for every outstanding event first, so pending blocks can go as well. While a graph
        is captured only private pools that nobody holds give memory back.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::release_cached_blocks
        """
        if only is None and not self._private_pools.capturing:
            self._wait_for_events(frames)
            self._release_blocks(self._default_pools.large_blocks, frames)
            self._release_blocks(self._default_pools.small_blocks, frames)

        def release(pool: PrivatePool) -> None:
            if only is not None:
                self._wait_for_events(frames, pool)
            self._release_blocks(pool.small_blocks, frames)
            self._release_blocks(pool.large_blocks, frames)

        self._private_pools.visit_freeable(release, only)
        self._expandable.release_leftovers()

    def _wait_for_events(self, frames: Frames | None, owner: PrivatePool | None = None) -> None:
        """Source   c10/cuda/CUDACachingAllocator.cpp  synchronize_and_free_events."""
        self._stats.num_sync_all_streams += 1
        self._events.synchronize_and_free_events(frames, owner)

    def _release_blocks(self, pool: BlockPool, frames: Frames | None) -> None:
        """Release whole free segments in search order, then the free pages of expandable ones.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::release_blocks
        """
        free = pool.free_blocks()
        for block in free:
            if block.segment.expandable is None and not block.is_split:
                self._reserved.release_block(block, frames)
        for block in free:
            if block.segment.expandable is not None:
                self._expandable.unmap_block(block, frames)
