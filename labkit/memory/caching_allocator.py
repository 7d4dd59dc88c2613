"""The caching allocator of a CUDA device, decision for decision.

Memory is asked of the device in segments, cut into blocks, and kept when it is given back. The
order of everything is part of the result: which of two equal blocks is taken, what is released
first, in which order streams are looked at.
"""

from bisect import bisect_left, insort

from labkit.memory.allocator_state import AllocatorState
from labkit.memory.block import (
    ALLOCATED,
    FREE,
    PENDING,
    UNMAPPED,
    Block,
    BlockPool,
    FreeList,
    MempoolId,
    Segment,
)
from labkit.memory.history import Frames
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.release import collect_garbage, release_available, release_cached
from labkit.memory.sizes import MIN_BLOCK_SIZE, SMALL_SIZE, round_size, segment_size


class CachingAllocator(AllocatorState):
    """Serves requests for memory of one device from segments it keeps.

    driver           the device, as `MemoryDriver` describes it
    settings         a PYTORCH_ALLOC_CONF string, or settings already parsed
    memory_fraction  of the device's memory that may be reserved; None: as the settings say
    statistics       False: `memory_stats` is not available, and requests cost less

    One thread at a time: PyTorch holds a lock here, and `StorageAllocator` does.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator
    Differs  One device. No sharing between processes, no checkpoints of private pools, and
             graph_capture_record_stream_reuse is accepted without effect.
    """

    def malloc(self, size: int, stream: int = 0) -> int:
        """Address of a block of at least `size` bytes, for work on `stream`; 0 for 0 bytes.

        Raises   OutOfMemoryError  nothing that is cached could be released to make room
        """
        if size <= 0:
            if size == 0:
                return 0
            raise ValueError(f"cannot allocate {size} bytes")
        plain = self._is_plain
        frames = None
        if plain:
            block_size = (size + MIN_BLOCK_SIZE - 1) & -MIN_BLOCK_SIZE
            pool = self.small_pool if block_size <= SMALL_SIZE else self.large_pool
            ordered = pool.free_lists[stream].ordered
            place = bisect_left(ordered, (block_size,))
            block = ordered.pop(place)[3] if place < len(ordered) else None
        else:
            frames = self.python_frames("state")
            if self._events.outstanding and not self.private_pools.capturing:
                self._events.retire_finished(frames)
            block_size = round_size(size, self.settings.roundup_power2_divisions)
            pool = self._serving_pool(block_size <= SMALL_SIZE, stream)
            if self.decisions is not None:
                self.decisions.search(size, block_size, pool, stream)
            block = self._find(pool, stream, block_size)
            self._find_out_if_plain()
        if block is None:
            block = self._make_room(size, block_size, pool, stream, frames)
            pool = block.segment.pool

        segment = block.segment
        following = block.next
        rest_size = block.size - block_size
        splits = segment.split_statistics
        if splits is not None:
            was_split = following is not None or block.previous is not None
        if rest_size >= pool.least_rest and (
            block_size < self._max_split_size or pool.least_rest == MIN_BLOCK_SIZE
        ):
            rest = Block(block.address + block_size, rest_size, segment, block, following, FREE)
            block.size = block_size
            block.next = rest
            if following is not None:
                following.previous = rest
            insort(segment.free_list.ordered, (rest_size, segment.birth, rest.address, rest))
            if splits is not None:
                if was_split:
                    splits.split_bytes.down += block_size
                else:
                    splits.splits.increase(1)
                    splits.split_bytes.increase(rest_size)
        elif splits is not None and was_split:
            splits.splits.down += 1
            splits.split_bytes.down += block.size

        block.state = ALLOCATED
        block.requested_size = size
        self._live[block.address] = block
        statistics = pool.statistics
        if statistics is not None:
            blocks, active = statistics.blocks, statistics.bytes
            blocks.up += 1
            if blocks.up > blocks.due:
                blocks.take_peaks()
            statistics.requested.up += size
            active.up += block.size
            if active.up > active.due:
                statistics.take_peaks_of_bytes()
        if not plain:
            self._after_malloc(block, frames)
        return block.address

    def free(self, address: int) -> None:
        """Give a block back. It can be used again once the streams recorded for it are done.

        Raises   ValueError   the address is not that of an allocated block
        """
        block = self._live.pop(address, None)
        if block is None:
            if address == 0:
                return
            raise ValueError(f"invalid device pointer: {address:#x} is not an allocated block")
        if self._is_plain and block.streams is None:
            self._free_block(block, None)
            return
        frames = self._before_free(block)
        if block.streams is not None:
            self._free_later(block)
            return
        size = block.size
        self._free_block(block, frames)
        if self.decisions is not None:
            self.decisions.freed(block, size, was_pending=False)

    def record_stream(self, address: int, stream: int) -> None:
        """The block is also used on `stream`: its free waits for what is queued there by then.

        Raises   ValueError   the address is not that of an allocated block
        """
        if address == 0:
            return
        block = self._live.get(address)
        if block is None:
            raise ValueError(f"invalid device pointer: {address:#x} is not an allocated block")
        if stream != block.segment.stream:
            self._events.use(block, stream)

    def empty_cache(self, mempool_id: MempoolId | None = None) -> None:
        """Everything that nothing uses goes back to the device.

        mempool_id  only what this private pool has, once nobody holds it
        """
        frames = self.python_frames("all")
        release_cached(self, frames, mempool_id)
        if self.decisions is not None:
            self.decisions.emptied()

    def _serving_pool(self, is_small: bool, stream: int) -> BlockPool:
        pool = self.private_pools.serving(stream)
        if pool is None:
            return self.small_pool if is_small else self.large_pool
        return pool.small if is_small else pool.large

    def would_find(self, size: int, stream: int = 0, mempool_id: MempoolId = (0, 0)) -> bool:
        """True when a request would be served from the cache of that pool. Nothing changes."""
        block_size = round_size(size, self.settings.roundup_power2_divisions)
        is_small = block_size <= SMALL_SIZE
        pool = self.small_pool if is_small else self.large_pool
        if mempool_id in self.private_pools:
            owner = self.private_pools[mempool_id]
            pool = owner.small if is_small else owner.large
        return self._best_fit(pool.free_lists[stream], block_size) is not None

    def _find(self, pool: BlockPool, stream: int, size: int) -> Block | None:
        """The best fit, taken out of the free list; None when there is none or it is refused.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::get_free_block
        """
        if self._collects_garbage:
            pool.search_count += 1
        free_list = pool.free_lists[stream]
        block = self._best_fit(free_list, size)
        if block is not None:
            free_list.remove(block)
        return block

    def _best_fit(self, free_list: FreeList, size: int) -> Block | None:
        """The first block of `size` bytes or more, unless it is too large to be used for them.

        A block at the end of a growing segment counts with the unmapped room behind it, so that
        the smaller segment is not grown when a larger one has room already.
        """
        in_order = free_list.at_least(size)
        block = next(in_order, None)
        if block is not None and block.segment.expandable is not None:
            if self.settings.expandable_segments:
                for following in in_order:
                    if block.segment.expandable is None or _extent(following) >= _extent(block):
                        break
                    block = following
            else:  # switched off meanwhile: growing segments no longer serve
                block = next((b for b in in_order if b.segment.expandable is None), None)
        limit = self._max_split_size
        if size >= limit:
            limit = size + self.settings.max_non_split_rounding_size
        return block if block is not None and block.size < limit else None

    def _make_room(
        self, size: int, block_size: int, pool: BlockPool, stream: int, frames: Frames | None
    ) -> Block:
        """A block from memory that was not free before: each way in turn, the cheapest first."""
        if any([callback() for callback in self.free_memory_callbacks]):
            block = self._find(pool, stream, block_size)
            if block is not None:
                return block
        if self._collects_garbage:
            collect_garbage(self, frames)
        block = self._grow(pool, stream, block_size, frames)
        if block is None and pool.owner is None:
            block = self._borrow(pool, stream, block_size)
        if block is None and release_available(self, pool, stream, block_size, frames):
            block = self._grow(pool, stream, block_size, frames)
        if block is None and not self.private_pools.capturing:
            release_cached(self, frames)
            if self.statistics is not None:
                self.statistics.num_alloc_retries += 1
            block = self._grow(pool, stream, block_size, frames)
        if block is None:
            raise self._out_of_memory(size, block_size, pool, stream, frames)
        return block

    def _grow(
        self, pool: BlockPool, stream: int, block_size: int, frames: Frames | None
    ) -> Block | None:
        """A block from the device, or None when it, or the memory fraction, refuses.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::alloc_block
        """
        size = segment_size(block_size, self.settings.large_segment_size)
        if self.memory_limit is not None and self.reserved_bytes + size > self.memory_limit:
            return None
        if self.settings.expandable_segments:
            return self.expandable.grow(pool, stream, block_size, frames)
        address = self.driver.malloc(size)
        if address is None:
            return None
        segment = Segment(address, self.next_birth(), pool, stream, frames=frames)
        block = segment.first = Block(address, size, segment, None, None, FREE)
        self.segments[address] = segment
        self.count_reserved("segment_alloc", address, size, segment, frames)
        return block

    def _borrow(self, pool: BlockPool, stream: int, block_size: int) -> Block | None:
        """A free block of a private pool that lends when the device is full.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::try_mempool_fallback
        """
        for lender in self.private_pools.usable_on_oom():
            block = self._find(lender.small if pool.is_small else lender.large, stream, block_size)
            if block is not None:
                return block
        return None

    def _out_of_memory(
        self, size: int, block_size: int, pool: BlockPool, stream: int, frames: Frames | None
    ) -> OutOfMemoryError:
        free, total = self.driver.memory_info()
        if self.history is not None:
            self.history.record("oom", free, block_size, stream, pool.id, frames)
        if self.statistics is not None:
            self.statistics.num_ooms += 1
        error = OutOfMemoryError(
            requested=size,
            block_size=block_size,
            segment_size=segment_size(block_size, self.settings.large_segment_size),
            stream=stream,
            device=self.device,
            free=free,
            total=total,
            allowed=self.memory_limit,
            allocated=sum(block.size for block in self._live.values()),
            reserved=self.reserved_bytes,
            in_private_pools=self.private_pools.free_bytes(),
        )
        if self.decisions is not None:
            self.decisions.out_of_memory(error)
        for observer in self.out_of_memory_observers:
            observer(error)
        return error

    def _free_later(self, block: Block) -> None:
        """Other streams still use the block: it is pending until their events complete."""
        block.state = PENDING
        self._is_plain = False
        statistics = block.segment.pool.statistics
        if statistics is not None:
            statistics.blocks.became_pending(1)
            statistics.bytes.became_pending(block.size)
        if self.decisions is not None and block.streams is not None:
            self.decisions.pending(block, list(block.streams.values()))
        self._events.defer(block, self.private_pools.capturing)

    def _free_pending(self, block: Block, frames: Frames | None) -> None:
        statistics = block.segment.pool.statistics
        if statistics is not None:
            statistics.blocks.became_pending(-1)
            statistics.bytes.became_pending(-block.size)
        size = block.size
        self._free_block(block, frames)
        if self.decisions is not None:
            self.decisions.freed(block, size, was_pending=True)

    def _free_block(self, block: Block, frames: Frames | None) -> None:
        """The block can be used again, joined with its free neighbours.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::free_block
        """
        if self.history is not None:
            self._record("free_completed", block, frames)
            block.frames = None
        segment = block.segment
        ordered = segment.free_list.ordered
        birth = segment.birth
        size = block.size
        previous, following = block.previous, block.next
        joined = joined_size = 0
        if previous is not None and previous.state == FREE:
            del ordered[bisect_left(ordered, (previous.size, birth, previous.address))]
            joined, joined_size = 1, previous.size
            block.address = previous.address
            block.size += joined_size
            block.previous = before = previous.previous
            if before is None:
                segment.first = block
            else:
                before.next = block
        if following is not None and following.state == FREE:
            del ordered[bisect_left(ordered, (following.size, birth, following.address))]
            joined += 1
            joined_size += following.size
            block.size += following.size
            block.next = after = following.next
            if after is not None:
                after.previous = block
        block.state = FREE
        pool = segment.pool
        block.search_count = pool.search_count
        insort(ordered, (block.size, birth, block.address, block))

        statistics = pool.statistics
        if statistics is not None:
            statistics.blocks.down += 1
            statistics.bytes.down += size
            statistics.requested.down += block.requested_size
        splits = segment.split_statistics
        if splits is not None:
            split_bytes = splits.split_bytes
            if block.previous is not None or block.next is not None:
                split_bytes.up += size
                if split_bytes.up > split_bytes.due:
                    split_bytes.take_peaks()
                if joined == 0:
                    splits.splits.increase(1)
                elif joined == 2:
                    splits.splits.down += 1
            elif joined:
                splits.splits.down += joined
                split_bytes.down += joined_size


def _extent(block: Block) -> int:
    """What the block can become: its bytes and the unmapped room right behind it."""
    following = block.next
    return block.size + (following.size if following and following.state == UNMAPPED else 0)
