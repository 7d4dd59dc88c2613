"""The caching allocator of a CUDA device, decision for decision.

Memory is asked of the device in segments, cut into blocks, and kept when it is given back. The
order of everything is part of the result: which of two equal blocks is taken, what is released
first, in which order streams are looked at.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Literal, NoReturn

from labkit.memory.best_fit import best_fit
from labkit.memory.block import (
    ALLOCATED,
    FREE,
    PENDING,
    AllocParams,
    Block,
    BlockPool,
    PoolPair,
    try_merge_blocks,
)
from labkit.memory.callbacks import Callbacks
from labkit.memory.decisions import DecisionLog
from labkit.memory.device import MemoryDriver
from labkit.memory.expandable import ExpandableSegments
from labkit.memory.history import Action, Context, Frames, History, MempoolId
from labkit.memory.memory_map import segment_dicts, snapshot_dict
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.private_pools import PrivatePools
from labkit.memory.recorder import Recorder
from labkit.memory.release import CachedMemory
from labkit.memory.reserved import ReservedMemory
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import is_cut_off, is_small, round_size, segment_size
from labkit.memory.statistics import DeviceStats
from labkit.memory.stream_events import StreamEvents


class CachingAllocator:
    """Serves requests for memory of one device from segments it keeps.

    driver           the device, as `MemoryDriver` describes it
    settings         a PYTORCH_ALLOC_CONF string, or settings already parsed
    memory_fraction  of the device's memory that may be reserved; None: as the settings say
    orders_by_birth  False: ties go to the lower address, as in PyTorch before 2.13

    One thread at a time: PyTorch holds a lock here, and `StorageAllocator` does. What the driver
    or a callback raises comes out of the call that asked it; blocks, segments and statistics are
    whole then, and what the driver had done so far is kept or goes back with `empty_cache`.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator
    Differs  One device. No sharing between processes, no checkpoints of private pools, and
             graph_capture_record_stream_reuse is accepted without effect.
    """

    def __init__(
        self,
        driver: MemoryDriver,
        settings: str | AllocatorSettings = "",
        memory_fraction: float | None = None,
        *,
        device: int = 0,
        orders_by_birth: bool = True,
    ) -> None:
        if isinstance(settings, str):
            settings = AllocatorSettings.parse(settings)
        self.driver = driver
        self.device = device
        self.settings = settings
        self.stats = DeviceStats(settings.max_split_size)
        self.recorder = Recorder()
        self.reserved = ReservedMemory(driver, self.stats, self.recorder, orders_by_birth)
        self.segments = self.reserved.segments
        pools = self.default_pools = PoolPair()
        self.private_pools = PrivatePools()
        self.expandable = ExpandableSegments(self.reserved)
        self.free_memory_callbacks = Callbacks()
        self.out_of_memory_observers = Callbacks()
        self._events = StreamEvents(driver, self._free_block)
        self._cached = CachedMemory(
            self.reserved, self.expandable, pools, self.private_pools, self._events, self.stats
        )
        self._allocated_blocks: dict[int, Block] = {}
        fraction = settings.per_process_memory_fraction
        self.set_memory_fraction(fraction if memory_fraction is None else memory_fraction)

    def malloc(self, size: int, stream: int = 0) -> int:
        """Address of a block of at least `size` bytes, for work on `stream`; 0 for 0 bytes.

        Raises   OutOfMemoryError  nothing that is cached could be released to make room
                 ValueError        a negative size
        """
        if size == 0:
            return 0
        if size < 0:
            raise ValueError(f"cannot allocate {size} bytes: a size is 0 or more")
        frames = self.recorder.frames("state")
        self.process_events(frames)
        block_size = round_size(size, self.settings.divisions)
        pool = self._get_pool(block_size, stream)
        may_expand = self.settings.expandable_segments
        params = AllocParams(size, block_size, pool, stream, may_expand, frames)
        self.recorder.search(params, self.settings)
        try:
            block = self._get_free_block(params) or self._make_room(params)
        except BaseException:
            self.recorder.abandoned(params)
            raise
        self._alloc_found_block(block, params)
        return block.address

    def free(self, address: int) -> None:
        """Give a block back. It can be used again once the streams recorded for it are done.

        Raises   ValueError   the address is not that of an allocated block
        """
        if address == 0:
            return
        block = self._allocated_block(address)
        frames = self.recorder.frames("all")
        self.recorder.free_requested(block, frames)
        del self._allocated_blocks[address]
        self.stats.freed(block)
        if block.stream_uses is None:
            self._free_block(block, frames)
        else:
            block.state = PENDING
            self.recorder.pending(block)
            self._events.insert_events(block, self.private_pools.capturing)

    def record_stream(self, address: int, stream: int) -> None:
        """The block is also used on `stream`: its free waits for what is queued there by then.

        Raises   ValueError   the address is not that of an allocated block
        """
        if address == 0:
            return
        block = self._allocated_block(address)
        if stream != block.segment.stream:
            self._events.use(block, stream)

    def empty_cache(self, mempool_id: MempoolId | None = None) -> None:
        """Everything that nothing uses goes back to the device.

        mempool_id  only what this private pool has, once nobody holds it
        """
        frames = self.recorder.frames("all")
        with self.recorder.emptying():
            self._cached.release_all(frames, mempool_id)

    def process_events(self, frames: Frames | None = None) -> None:
        """Free the pending blocks whose events have completed, as each request does first."""
        if self._events.outstanding and not self.private_pools.capturing:
            self._events.process_events(frames)

    def _get_pool(self, block_size: int, stream: int) -> BlockPool:
        """Where a request looks: the innermost active private pool that takes it, or the default.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::get_pool
        """
        pools = self.private_pools.serving(stream) or self.default_pools
        return pools.of(is_small(block_size))

    def _get_free_block(self, params: AllocParams) -> Block | None:
        """The best fit, taken out of its pool; None when there is none or it is refused.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::get_free_block
        """
        if self.settings.garbage_collection_threshold and self.reserved.limit is not None:
            params.pool.get_free_blocks_call_count += 1
        block = self._best_fit(params)
        if block is not None:
            params.pool.remove(block)
        return block

    def _best_fit(self, params: AllocParams) -> Block | None:
        """The free block that serves; None when there is none or it is refused."""
        return best_fit(params, self.settings)

    def _make_room(self, params: AllocParams) -> Block:
        """A block from memory that was not free before: each way in turn, the cheapest first.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::malloc
        """
        params.alloc_size = segment_size(params.size, self.settings.large_segment_size)
        if any(self.free_memory_callbacks()):
            self.recorder.search_again(params)
            if block := self._get_free_block(params):
                return block
        if self.settings.garbage_collection_threshold:
            self._cached.garbage_collect(self.settings.garbage_collection_threshold, params.frames)
        block = self._alloc_block(params) or self._try_mempool_fallback(params)
        if block is None and self._cached.release_available(params, self.settings.max_split_size):
            block = self._alloc_block(params)
        if block is None and not self.private_pools.capturing:
            self._cached.release_all(params.frames)
            self.stats.num_alloc_retries += 1
            block = self._alloc_block(params)
        if block is None:
            self._raise_out_of_memory(params)
        return block

    def _alloc_block(self, params: AllocParams) -> Block | None:
        """A block from the device, or None when it, or the memory fraction, refuses.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::alloc_block
        """
        size, limit = params.alloc_size, self.reserved.limit
        if limit is not None and self.reserved.bytes + size > limit:
            return None
        if params.is_expandable_segments_active:
            return self.expandable.try_allocate(params, self.settings.large_segment_size)
        return self.reserved.malloc_segment(params.pool, params.stream, size, params.frames)

    def _try_mempool_fallback(self, params: AllocParams) -> Block | None:
        """A free block of a private pool that lends to the default ones when the device is full.

        The request is the lender's from then on, and segments do not grow for it.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::try_mempool_fallback
        """
        if params.pool.owner is not None:
            return None
        for lender in self.private_pools.usable_on_oom():
            pool = lender.of(params.pool.is_small)
            lent = replace(params, pool=pool, is_expandable_segments_active=False)
            if block := self._get_free_block(lent):
                params.pool, params.is_expandable_segments_active = pool, False
                return block
        return None

    def _raise_out_of_memory(self, params: AllocParams) -> NoReturn:
        free, total = self.driver.memory_info()
        self.stats.num_ooms += 1
        error = OutOfMemoryError(
            requested=params.requested_size,
            block_size=params.size,
            segment_size=params.alloc_size,
            stream=params.stream,
            device=self.device,
            free=free,
            total=total,
            allowed=self.reserved.limit,
            allocated=self.allocated_bytes,
            reserved=self.reserved_bytes,
            in_private_pools=self.private_pools.free_bytes(),
        )
        self.recorder.out_of_memory(error, params)
        self.out_of_memory_observers(error)
        raise error

    def _alloc_found_block(self, block: Block, params: AllocParams) -> None:
        """The block is the caller's; what is too much of it stays behind as a free block.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::alloc_found_block
        """
        segment, was_split = block.segment, block.is_split
        if self._should_split(block, params):
            rest = block.split(params.size)
            segment.pool.insert_into_blocks(rest)
            if was_split:
                self.stats.change_inactive_split(segment, 0, -block.size)
            else:
                self.stats.change_inactive_split(segment, 1, rest.size)
        elif was_split:
            self.stats.change_inactive_split(segment, -1, -block.size)
        block.state = ALLOCATED
        block.requested_size = params.requested_size
        self._allocated_blocks[block.address] = block
        self.stats.allocated(block)
        self.recorder.allocated(block, params.frames)

    def _should_split(self, block: Block, params: AllocParams) -> bool:
        """True when what the request leaves of the block becomes a block of its own.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::should_split
        """
        pool = params.pool
        if pool.owner is not None and pool.owner.no_split:
            return False
        finely = pool.is_small or params.is_expandable_segments_active
        may_split = finely or params.size < self.settings.max_split_size
        return may_split and is_cut_off(block.size - params.size, finely)

    def _allocated_block(self, address: int) -> Block:
        block = self._allocated_blocks.get(address)
        if block is None:
            raise ValueError(f"invalid device pointer: {address:#x} is not an allocated block")
        return block

    def _free_block(self, block: Block, frames: Frames | None) -> None:
        """The block can be found again, joined with its free neighbours.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::free_block
        """
        size, was_pending = block.size, block.state == PENDING
        self.recorder.free_completed(block, frames)
        self.stats.became_inactive(block)
        block.state = FREE
        absorbed = try_merge_blocks(block)
        block.segment.pool.insert_into_blocks(block)
        if block.is_split:
            self.stats.change_inactive_split(block.segment, 1 - len(absorbed), size)
        else:
            self.stats.change_inactive_split(block.segment, -len(absorbed), size - block.size)
        self.recorder.became_free(block, size, was_pending)

    def adopt(self, block: Block, waits_for: int | None = None) -> None:
        """An allocated block that something else made is ours to free.

        waits_for  it was given back already and is pending on that stream
        """
        if waits_for is None:
            self._allocated_blocks[block.address] = block
        else:
            self._events.use(block, waits_for)
            self._events.insert_events(block, capturing=False)

    def set_memory_fraction(self, fraction: float) -> None:
        """At most that part of the device is reserved from now on; 1.0 removes the limit.

        Raises   ValueError   not between 0 and 1
        """
        self.reserved.set_fraction(fraction)

    def apply_settings(self, text: str) -> None:
        """Another settings string takes effect; see `AllocatorSettings.parse` for what stays.

        Raises   what `AllocatorSettings.parse` raises; then nothing has changed
        """
        self.settings = AllocatorSettings.parse(text, self.settings)
        self.stats.oversize = self.settings.max_split_size

    def memory_stats(self) -> dict[str, int]:
        """The 123 figures of `torch.cuda.memory_stats`, by their names."""
        return self.stats.flat()

    def record_memory_history(
        self,
        enabled: Literal["state", "all"] | None = "all",
        context: Context | None = "all",
        max_entries: int | None = None,
        *,
        skip_actions: Collection[Action] = (),
        clock: Callable[[], int] | None = None,
    ) -> None:
        """Record what happens from now on; None stops it and forgets the entries.

        enabled  "state": only the frames of live blocks, no trace entries

        Source   torch/cuda/memory.py  _record_memory_history
        """
        if enabled not in (None, "state", "all"):
            raise ValueError(f"enabled is None, 'state' or 'all', got {enabled!r}")
        entries = 0 if enabled == "state" else max_entries
        self.recorder.history = enabled and History(context, entries, skip_actions, clock)

    def explain(self, enabled: bool = True, most_candidates: int | None = None) -> None:
        """Log from now on why each block was chosen, in `decisions`; False stops it."""
        self.recorder.explain(self.reserved.segments if enabled else None, most_candidates)

    @property
    def history(self) -> History | None:
        """The trace, while one is recorded."""
        return self.recorder.history

    @property
    def decisions(self) -> DecisionLog | None:
        """Why each block was chosen, while that is logged."""
        return self.recorder.decisions

    @property
    def reserved_bytes(self) -> int:
        """Bytes of all segments; of expandable ones, what is mapped."""
        return self.reserved.bytes

    @property
    def active_bytes(self) -> int:
        """Bytes of all blocks that are allocated or pending now."""
        blocks = [block for segment in self.segments.values() for block in segment.blocks()]
        return sum(block.size for block in blocks if block.state in (ALLOCATED, PENDING))

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all blocks that are allocated now."""
        return sum(block.size for block in self._allocated_blocks.values())

    def live_blocks(self) -> list[Block]:
        """The blocks that are allocated now, oldest first."""
        return list(self._allocated_blocks.values())

    def memory_map(self) -> list[dict[str, Any]]:
        """The segments and their blocks, by address, as a snapshot holds them."""
        return segment_dicts(self.segments, self.device)

    def snapshot(self) -> dict[str, Any]:
        """Segments, trace and settings in the format of `torch.cuda.memory._snapshot`."""
        return snapshot_dict(self.memory_map(), self.history, self.settings)
