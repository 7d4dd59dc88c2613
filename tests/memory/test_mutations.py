"""Each main rule, broken one at a time: the recordings notice every single one."""

import pytest

from labkit.memory import best_fit, block, sizes
from labkit.memory.block import BlockPool
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.expandable import ExpandableSegments
from labkit.memory.expandable_segment import ExpandableSegment
from labkit.memory.mem_pool import MemPool
from labkit.memory.private_pools import PrivatePools
from labkit.memory.recorder import Recorder
from labkit.memory.release import CachedMemory
from labkit.memory.reserved import ReservedMemory
from labkit.memory.robin_hood import RobinHoodTable
from labkit.memory.settings import _Parser
from labkit.memory.statistics import DeviceStats, PoolStat, Stat, StatArray
from labkit.memory.stream_events import StreamEvents
from tests.memory.mutation import Mutation, first_difference

M = Mutation
MUTATIONS = [
    # sizes
    M("blocks are multiples of 512", sizes, "round_size",
      "(size + MIN_BLOCK_SIZE - 1) & -MIN_BLOCK_SIZE", "(size + 255) & -256"),
    M("no division up to 512 x divisions", sizes, "round_size",
      "size > MIN_BLOCK_SIZE * steps", "size * 2 > MIN_BLOCK_SIZE * steps", "roundup_single"),
    M("the division class is floor(log2) - 20", sizes, "division_class",
      "bit_length() - 21", "bit_length() - 20", "roundup_list"),
    M("a power of two is not rounded", sizes, "round_to_division",
      "if size == floor:", "size += 1\n    if size == floor:", "roundup_single"),
    M("1 MiB still gets a 2 MiB segment", sizes, "segment_size",
      "is_small(block_size)", "block_size < SMALL_SIZE"),
    M("10 MiB gets a segment of its own", sizes, "segment_size",
      "block_size < MIN_LARGE_SEGMENT", "block_size <= MIN_LARGE_SEGMENT"),
    M("large_segment_size is obeyed", sizes, "segment_size",
      "return large_segment_size", "return 20 * MIB", "large_segment"),
    M("1 MiB is still small", sizes, "is_small",
      "block_size <= SMALL_SIZE", "block_size < SMALL_SIZE"),
    # search
    M("the smallest block that fits is taken", BlockPool, "first_at_least",
      "bisect_left(ordered, (size,))", "max(bisect_left(ordered, (size,)), len(ordered) - 1)"),
    M("equal sizes: the older segment first", ReservedMemory, "new_segment",
      "self._births if self._orders_by_birth else 0", "0", "ties"),
    M("one segment: the lower address first", BlockPool, "insert_into_blocks",
      "segment.birth, block.address", "segment.birth, -block.address", "ties"),
    M("a segment is born when the device gives it", ReservedMemory, "new_segment",
      "birth = self._births", "birth = -self._births", "ties"),
    M("a stream only finds its own blocks", BlockPool, "first_at_least",
      "self.ordered[stream]", "self.ordered[max(self.ordered, default=stream)]"),
    M("a small request leaves oversize blocks alone", best_fit, "best_fit",
      "limit = settings.max_split_size", "limit = 2**64", "max_split"),
    M("a large request accepts limited waste", best_fit, "best_fit",
      "limit = size + ", "limit = 2 * size + ", "max_split_rounding"),
    M("the waste is below max_non_split_rounding", best_fit, "best_fit",
      "settings.max_non_split_rounding_size", "settings.max_non_split_rounding_size + 1",
      "max_split_rounding small_device_max_split max_split"),
    M("a growing block counts with its room", best_fit, "_extent",
      "following and following.state == UNMAPPED", "False", "expandable expandable_gc"),
    # split
    M("512 bytes are split off in the small pool", sizes, "is_cut_off",
      "remaining >= MIN_BLOCK_SIZE", "remaining >= 1024"),
    M("1 MiB stays with its block in the large pool", sizes, "is_cut_off",
      "remaining > LARGE_REMAINDER", "remaining >= LARGE_REMAINDER"),
    M("growing segments split off 512 bytes", CachingAllocator, "_should_split",
      "pool.is_small or params.is_expandable_segments_active", "pool.is_small", "expandable"),
    M("from max_split_size on nothing is split", CachingAllocator, "_should_split",
      "params.size < self.settings.max_split_size", "True", "max_split"),
    # free
    M("joined with the free block before", block, "neighbours_alike",
      "(block.previous, block.next)", "(block.next,)"),
    M("joined with the free block after", block, "neighbours_alike",
      "(block.previous, block.next)", "(block.previous,)"),
    M("a pending block is a wall", block, "neighbours_alike",
      "each.state == block.state", "each.state in (block.state, PENDING)", "streams"),
    M("the own stream is not recorded", CachingAllocator, "record_stream",
      "stream != block.segment.stream", "True"),
    # streams
    M("a request first frees what has completed", CachingAllocator, "process_events",
      "self._events.process_events(frames)", "pass"),
    M("all streams of a block must complete", StreamEvents, "_completed",
      "if block.event_count == 0:", "if block.event_count >= 0:", "streams"),
    M("an unfinished event hides those behind it", StreamEvents, "process_events",
      "while queue and self._driver.query_event(queue[0][0]):",
      "for _ in range(len(queue)):\n            queue.rotate(-1)\n"
      "            if not self._driver.query_event(queue[0][0]): continue", "streams"),
    M("streams are visited in table order", RobinHoodTable, "_wish",
      "(key * GOLDEN_RATIO_64)", "(key * 7046029254386353131)", "streams streams_small_device"),
    M("an erased place is visited again", StreamEvents, "_leave",
      "return self._queues.next_place(place)", "return self._queues.next_place(place + 1)",
      "streams streams_small_device"),
    M("a retry waits for every event", StreamEvents, "synchronize_and_free_events",
      "self._driver.synchronize_event(event)",
      "if not self._driver.query_event(event):\n                        continue"),
    # release
    M("the large pool is released first", CachedMemory, "release_all",
      "_pools.large_blocks, frames)\n"
      "        self._release_blocks(self._default_pools.small_blocks",
      "_pools.small_blocks, frames)\n"
      "        self._release_blocks(self._default_pools.large_blocks"),
    M("segments are released in search order", CachedMemory, "_release_blocks",
      "free = pool.free_blocks()", "free = pool.free_blocks()[::-1]"),
    M("streams are released in order of their handles", BlockPool, "free_blocks",
      "sorted(self.ordered)", "sorted(self.ordered, reverse=True)"),
    M("a split segment stays", CachedMemory, "_release_blocks", "not block.is_split", "True"),
    M("a full device is asked again after a release", CachingAllocator, "_make_room",
      "self._cached.release_all(params.frames)", "pass", "small_device"),
    M("a retry is counted", CachingAllocator, "_make_room",
      "self.stats.num_alloc_retries += 1", "pass", "small_device"),
    M("the private pool's small blocks go first", CachedMemory, "release_all",
      "pool.small_blocks, frames)\n        self._release_blocks(pool.large_blocks",
      "pool.large_blocks, frames)\n        self._release_blocks(pool.small_blocks",
      "pools pools_expandable"),
    M("one oversize block that is large enough goes first", CachedMemory, "release_available",
      "if block is not None and block.segment.expandable is None:", "if False:",
      "max_split small_device_max_split"),
    M("then oversize blocks from the largest down", CachedMemory, "release_available",
      "pool.from_largest(stream)", "pool.from_largest(stream)[::-1]",
      "small_device_max_split max_split"),
    M("release stops once enough is released", CachedMemory, "release_available",
      "released >= wanted or", "", "small_device_max_split gc_max_split max_split"),
    # garbage collection
    M("age counts searches", CachingAllocator, "_get_free_block",
      "params.pool.get_free_blocks_call_count += 1", "pass", "gc"),
    M("blocks of exactly the average age go", CachedMemory, "garbage_collect",
      "block.gc_count < average", "block.gc_count <= average", "gc"),
    M("split blocks are not collected", CachedMemory, "garbage_collect",
      "if block.is_split or", "if", "gc"),
    M("collection goes on until enough is reclaimed", CachedMemory, "garbage_collect",
      "while reclaimed < excess and", "while reclaimed == 0 and", "gc gc_max_split mixed"),
    M("a round releases all old blocks", CachedMemory, "garbage_collect",
      "reserved.release_block(block, frames)",
      "reserved.release_block(block, frames)\n            if reclaimed >= excess: break",
      "gc gc_max_split mixed"),
    M("the threshold is a part of the limit", CachedMemory, "garbage_collect",
      "* reserved.limit", "* reserved.limit * 1.01", "gc gc_max_split mixed"),
    M("collection comes before growth", CachingAllocator, "_make_room",
      "if self.settings.garbage_collection_threshold:", "if False:", "gc"),
    # limits
    M("the memory fraction is a limit", CachingAllocator, "_alloc_block",
      "self.reserved.bytes + size > limit", "self.reserved.bytes + size >= limit",
      "gc fraction_moves mixed expandable_gc"),
    M("the fraction counts whole segments", CachingAllocator, "_alloc_block",
      "self.reserved.bytes + size >", "self.reserved.bytes + params.size >",
      "fraction_moves"),
    M("a fraction of 1 is no limit", ReservedMemory, "set_fraction",
      "None if fraction == 1.0 else", "", "fraction_moves gc mixed"),
    M("the oom entry shows the device's free bytes", Recorder, "out_of_memory",
      '"oom", error.free', '"oom", error.reserved', "small_device"),
    # growing segments
    M("room for an eighth more than the device", ExpandableSegment, "__init__",
      "total // 8", "total // 4", "expandable"),
    M("small pages have 2 MiB, large ones 20", ExpandableSegments, "new_segment",
      "SMALL_SEGMENT_SIZE if pool.is_small else", "", "expandable"),
    M("the free block before unmapped room is used", ExpandableSegments, "_find",
      "block.previous is not None and block.previous.state == FREE", "False", "expandable"),
    M("pages are given back when not all fit", ExpandableSegment, "map",
      "self.release_unmapped_pages()", "self._unmapped.clear()", "expandable_small_device"),
    M("only whole pages are unmapped", ExpandableSegment, "whole_pages",
      "(offset + size) //", "(offset + size - 1) //", "expandable"),
    M("unmapping waits for the segment's stream", ExpandableSegment, "unmap",
      "self._driver.synchronize_stream(self._stream)", "pass",
      "expandable pools_expandable expandable_small_device expandable_gc"),
    M("unmapped neighbours are joined", block, "neighbours_alike",
      "each.state == block.state", "each.state == block.state != UNMAPPED",
      "expandable expandable_small_device"),
    M("a growing segment with nothing mapped goes", ExpandableSegments, "_release_if_empty",
      "if room.state == UNMAPPED and not room.is_split:", "if False:",
      "expandable expandable_small_device"),
    # private pools
    M("the innermost pool serves", PrivatePools, "serving", "reversed(self.active)", "self.active",
      "pools pools_expandable"),
    M("memory goes back only when nobody holds the pool", PrivatePools, "release",
      "if pool.use_count == 0:\n        self._freeable", "if True:\n        self._freeable",
      "pools"),
    M("dropping a pool releases its memory", MemPool, "drop",
      "self._allocator.empty_cache(self.id)", "pass", "pools"),
    # statistics
    M("a peak of both pools is seen", PoolStat, "change",
      "super().change(amount)\n    self.array.peak = max(self.array.peak, self.array.current)",
      "Stat.change(self, amount)"),
    M("a pool's own peak is seen", Stat, "change", "self.peak = max", "_ = max"),
    M("what was freed before a reset is forgotten", Stat, "reset_accumulated",
      "self.at_reset = self.current", "pass", "default"),
    M("pending blocks are active, not allocated", DeviceStats, "freed",
      "stats.allocated_bytes.change(-block.size)", "pass", "default streams"),
    M("a fresh split counts with its rest", CachingAllocator, "_alloc_found_block",
      "1, rest.size", "1, block.size"),
    M("growing segments do not count as split", DeviceStats, "change_inactive_split",
      "if segment.expandable is None:", "if True:", "expandable"),
    M("growing segments are not counted", DeviceStats, "_change_reserved",
      "if segment.expandable is None:", "if True:", "expandable"),
    M("oversize is from max_split_size on", DeviceStats, "allocated",
      "block.size >= self.oversize", "block.size > self.oversize", "max_split"),
    M("resetting clears the plain counters", DeviceStats, "reset_accumulated",
      "setattr(self, name, 0)", "pass", "default"),
    M("resetting peaks starts from now", StatArray, "reset_peak",
      "self.peak = self.current", "pass", "default"),
    # settings
    M("only the first interval covers those below", _Parser, "_divisions",
      "first = False", "pass", "settings_and_sizes"),
    M("> covers the rest", _Parser, "_divisions",
      "divisions[last_class + 1 :]", "divisions[last_class + 2 : 17]", "settings_and_sizes"),
    M("a string resets the options it does not name", _Parser, "parse",
      "kept = AllocatorSettings(", "kept = replace(self._before, text='',", "settings_and_sizes"),
    M("expandable_segments outlives the next string", _Parser, "parse",
      "expandable_segments=self._before.expandable_segments,", "", "settings_and_sizes"),
    M("large_segment_size is a lower bound", _Parser, "_accelerator_option",
      "mebibytes < least", "mebibytes < 20", "settings_and_sizes"),
    M("a threshold of 1 is refused", _Parser, "_accelerator_option",
      "0.0 < threshold < 1.0", "0.0 < threshold <= 1.0", "settings_and_sizes"),
]  # fmt: skip


def test_the_unbroken_allocator_agrees():
    assert first_difference("tutorial settings_and_sizes") is None


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_the_recordings_notice(mutation):
    with mutation.applied():
        assert first_difference(f"tutorial {mutation.recordings}") is not None
