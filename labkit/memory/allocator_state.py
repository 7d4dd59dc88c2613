"""What an allocator keeps and counts, and everything about it that can be read or set."""

from collections.abc import Callable, Collection
from typing import Any, Literal

from labkit.memory.block import FREE, Block, BlockPool, MempoolId, Segment
from labkit.memory.decisions import DecisionLog
from labkit.memory.device import MemoryDriver
from labkit.memory.expandable import ExpandableSegments
from labkit.memory.history import Action, Context, Frames, History
from labkit.memory.memory_map import segment_dicts, trace_dicts
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.private_pools import PrivatePool, PrivatePools, StreamFilter
from labkit.memory.settings import UNLIMITED, AllocatorSettings
from labkit.memory.statistics import Statistics
from labkit.memory.stream_events import StreamEvents


class AllocatorState:
    """The pools, segments, counters and settings that `CachingAllocator` decides with."""

    def __init__(
        self,
        driver: MemoryDriver,
        settings: str | AllocatorSettings = "",
        memory_fraction: float | None = None,
        *,
        statistics: bool = True,
        device: int = 0,
    ) -> None:
        self.driver = driver
        self.device = device
        self.settings = (
            settings
            if isinstance(settings, AllocatorSettings)
            else AllocatorSettings.parse(settings)
        )
        limit = self.settings.max_split_size
        self.statistics = Statistics(-1 if limit == UNLIMITED else limit) if statistics else None
        counts = self.statistics
        self.small_pool = BlockPool(True, counts.small_pool if counts else None)
        self.large_pool = BlockPool(False, counts.large_pool if counts else None)
        self.private_pools = PrivatePools(self.statistics, self.settings)
        self.expandable = ExpandableSegments(self)
        self.segments: dict[int, Segment] = {}
        self.history: History | None = None
        self.decisions: DecisionLog | None = None
        self._is_plain = False
        """True only when a request needs none of the questions of `_find_out_if_plain`."""
        self.reserved_bytes = 0
        self.memory_limit: int | None = None
        self.out_of_memory_observers: list[Callable[[OutOfMemoryError], None]] = []
        self.free_memory_callbacks: list[Callable[[], bool]] = []
        self._events = StreamEvents(driver, self._free_pending)
        self._live: dict[int, Block] = {}
        self._births = 0
        self.orders_by_birth = True
        """False: ties go to the lower address, as in PyTorch before 2.13."""
        self._pools_created = 0
        self._set(self.settings)
        fraction = self.settings.per_process_memory_fraction
        self.set_memory_fraction(fraction if memory_fraction is None else memory_fraction)

    def add_free(self, block: Block) -> None:
        """The block can be found by a request; its age starts now."""
        block.search_count = block.segment.pool.search_count
        block.segment.free_list.add(block)

    def next_birth(self) -> int:
        """The number of a new segment: segments are ordered by their creation."""
        self._births += 1
        return self._births if self.orders_by_birth else 0

    def wait_for_events(self, frames: Frames | None, owner: PrivatePool | None = None) -> None:
        """Wait for all outstanding events, or those of one pool, and free the blocks."""
        if self.statistics is not None:
            self.statistics.num_sync_all_streams += 1
        self._events.wait(frames, owner)

    def count_reserved(
        self, action: Action, address: int, size: int, segment: Segment, frames: Frames | None
    ) -> None:
        """The device gave `size` bytes more, as a segment or as pages of one."""
        self.reserved_bytes += size
        pool = segment.pool
        if pool.owner is not None:
            pool.owner.segment_count += 1
        if self.statistics is not None:
            self.statistics.reserved(size, pool.is_small, pool.id)
            if segment.expandable is None:
                self.statistics.segment.increase(pool.is_small)
                if size >= self._max_split_size:
                    self.statistics.oversize_segments.increase()
        if self.history is not None:
            self.history.record(action, address, size, segment.stream, pool.id, frames)
        if self.decisions is not None:
            self.decisions.step(action, address, size)

    def count_released(
        self, action: Action, address: int, size: int, segment: Segment, frames: Frames | None
    ) -> None:
        """`size` bytes go back to the device, as a segment or as pages of one."""
        self.reserved_bytes -= size
        pool = segment.pool
        if pool.owner is not None:
            pool.owner.segment_count -= 1
        if self.statistics is not None:
            self.statistics.released(size, pool.is_small, pool.id)
            if segment.expandable is None:
                self.statistics.segment.decrease(pool.is_small)
                if size >= self._max_split_size:
                    self.statistics.oversize_segments.decrease()
        if self.history is not None:
            self.history.record(
                action,
                address,
                size,
                segment.stream,
                pool.id,
                segment.frames if frames is None else frames,
            )
        if self.decisions is not None:
            self.decisions.step(action, address, size)

    def set_memory_fraction(self, fraction: float) -> None:
        """At most that part of the device is reserved from now on; 1.0 removes the limit.

        Raises   ValueError   not between 0 and 1

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::setMemoryFraction
        """
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        total = self.driver.memory_info()[1]
        self.memory_limit = None if fraction == 1.0 else int(fraction * total)
        self._update_garbage_collection()

    def apply_settings(self, text: str) -> None:
        """Another settings string takes effect; what it does not name returns to its default.

        Raises   what `AllocatorSettings.parse` raises; then nothing has changed
        """
        self._set(AllocatorSettings.parse(text, self.settings))

    def _set(self, settings: AllocatorSettings) -> None:
        self.settings = settings
        self._max_split_size = settings.max_split_size
        self._limits_split = settings.max_split_size != UNLIMITED
        self._rounds_to_divisions = any(settings.roundup_power2_divisions)
        self.small_pool.use(settings)
        self.large_pool.use(settings)
        self.private_pools.use(settings)
        self._update_garbage_collection()

    def _update_garbage_collection(self) -> None:
        threshold = self.settings.garbage_collection_threshold
        self._collects_garbage = threshold > 0.0 and self.memory_limit is not None
        self._is_plain = False

    def _find_out_if_plain(self) -> None:
        """Whether the next request can skip what only matters to some.

        Whatever makes a request special sets `_is_plain` to False; only here it becomes True.
        """
        self._is_plain = not (
            self._limits_split
            or self._collects_garbage
            or self._rounds_to_divisions
            or self.settings.expandable_segments
            or self.expandable.segments
            or self.private_pools.active
            or self._events.outstanding
            or self.history is not None
            or self.decisions is not None
        )

    def create_pool(self, *, no_split: bool = False, use_on_oom: bool = False) -> MempoolId:
        """The id of a new private pool with one holder, as `MemPool` makes it."""
        self._pools_created += 1
        mempool_id = (0, self._pools_created)
        self.private_pools.hold(mempool_id, no_split=no_split, use_on_oom=use_on_oom)
        return mempool_id

    def begin_allocate_to_pool(
        self,
        mempool_id: MempoolId,
        accepts: StreamFilter = lambda stream: True,
        *,
        capture: bool = False,
    ) -> None:
        """Requests of the accepted streams go to the pool, which gets one more holder.

        capture  a graph is being captured: no event is asked, and the cache is not emptied
        """
        self.private_pools.begin(mempool_id, accepts, capture)
        self._is_plain = False

    def end_allocate_to_pool(self, mempool_id: MempoolId) -> None:
        """Requests go where they went before; whoever began must still `release_pool`."""
        self.private_pools.end(mempool_id)

    def release_pool(self, mempool_id: MempoolId) -> None:
        """One holder less; after the last one `empty_cache` may release the pool's memory."""
        self.private_pools.release(mempool_id)

    def memory_stats(self) -> dict[str, int]:
        """The 123 figures of `torch.cuda.memory_stats`, by their names.

        Raises   RuntimeError   the allocator was made without statistics
        """
        if self.statistics is None:
            raise RuntimeError("this allocator was made with statistics=False")
        return self.statistics.flat()

    def reset_peak_memory_stats(self) -> None:
        """Every peak starts again from the current value."""
        if self.statistics is not None:
            self.statistics.reset_peak()

    def reset_accumulated_memory_stats(self) -> None:
        """Allocated and freed totals and the plain counters start again from 0."""
        if self.statistics is not None:
            self.statistics.reset_accumulated()

    @property
    def active_bytes(self) -> int:
        """Bytes of all blocks that are allocated or pending now."""
        free = sum(
            block.size
            for segment in self.segments.values()
            for block in segment.blocks()
            if block.state == FREE
        )
        return self.reserved_bytes - free

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all blocks that are allocated now."""
        return sum(block.size for block in self._live.values())

    def process_events(self) -> None:
        """Free the pending blocks whose events have completed, as each request does first."""
        self._events.retire_finished()

    def adopt(self, block: Block, waits_for: int | None = None) -> None:
        """An allocated block that something else made is ours to free.

        waits_for  it was given back already and is pending on that stream
        """
        if waits_for is None:
            self._live[block.address] = block
        else:
            self._is_plain = False
            self._events.use(block, waits_for)
            self._events.defer(block, capturing=False)

    def live_blocks(self) -> list[Block]:
        """The blocks that are allocated now, oldest first."""
        return list(self._live.values())

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
        self.history = enabled and History(context, entries, skip_actions, clock)
        self._is_plain = False

    def explain(self, enabled: bool = True, most_candidates: int | None = None) -> None:
        """Log from now on why each block was chosen, in `decisions`; False stops it."""
        self.decisions = DecisionLog(self, most_candidates) if enabled else None
        self._is_plain = False

    def python_frames(self, least: Context) -> Frames | None:
        """The caller's frames, if the history keeps them for this kind of event."""
        return None if self.history is None else self.history.frames(least)

    def _after_malloc(self, block: Block, frames: Frames | None) -> None:
        if self._limits_split and block.size >= self._max_split_size and self.statistics:
            self.statistics.oversize_allocations.increase()
        if self.history is not None:
            block.frames = frames
            self._record("alloc", block, frames)
        if self.decisions is not None:
            self.decisions.found(block)

    def _before_free(self, block: Block) -> Frames | None:
        if self._limits_split and block.size >= self._max_split_size and self.statistics:
            self.statistics.oversize_allocations.decrease()
        frames = self.python_frames("all")
        self._record("free_requested", block, frames)
        return frames

    def _record(self, action: Action, block: Block, frames: Frames | None) -> None:
        if self.history is not None:
            segment = block.segment
            self.history.record(
                action,
                block.address,
                block.requested_size,
                segment.stream,
                segment.pool.id,
                block.frames if frames is None else frames,
            )

    def memory_map(self) -> list[dict[str, Any]]:
        """The segments and their blocks, by address, as a snapshot holds them."""
        return segment_dicts(self)

    def snapshot(self) -> dict[str, Any]:
        """Segments, trace and settings in the format of `torch.cuda.memory._snapshot`.

        The look itself is an entry of the trace, which the next snapshot shows.

        Source   torch/csrc/cuda/Module.cpp  THCPModule_memorySnapshot
        """
        segments = segment_dicts(self)
        entries = [] if self.history is None else trace_dicts(self.history)
        if self.history is not None:
            active = sum(segment["active_size"] for segment in segments)
            self.history.record("snapshot", 0, active, 0, (0, 0), self.history.frames("state"))
        return {
            "segments": segments,
            "device_traces": [entries],
            "allocator_settings": self.settings.snapshot(),
            "external_annotations": [],
        }

    def _free_pending(self, block: Block, frames: Frames | None) -> None:
        raise NotImplementedError
