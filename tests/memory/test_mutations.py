"""Each main rule, broken one at a time: the recordings notice every single one."""

import pytest

from labkit.memory import block, caching_allocator, release, sizes
from labkit.memory.allocator_state import AllocatorState
from labkit.memory.block import BlockPool, FreeList
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.expandable import ExpandableSegment, ExpandableSegments
from labkit.memory.private_pools import MemPool, PrivatePools
from labkit.memory.robin_hood import RobinHoodTable
from labkit.memory.settings import _Parser
from labkit.memory.statistics import Figure, Statistics
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
      "block_size <= SMALL_SIZE", "block_size < SMALL_SIZE"),
    M("10 MiB gets a segment of its own", sizes, "segment_size",
      "block_size < MIN_LARGE_SEGMENT", "block_size <= MIN_LARGE_SEGMENT"),
    M("large_segment_size is obeyed", sizes, "segment_size",
      "return large_segment_size", "return 20 * MIB", "large_segment"),
    M("1 MiB is still small", CachingAllocator, "malloc",
      "self._serving_pool(block_size <= SMALL_SIZE", "self._serving_pool(block_size < SMALL_SIZE"),
    # search
    M("the smallest block that fits is taken", CachingAllocator, "_best_fit",
      "next(in_order, None)", "max(in_order, key=lambda b: b.size, default=None)"),
    M("equal sizes: the older segment first", FreeList, "add",
      "block.segment.birth, block.address", "0 * block.segment.birth, block.address", "ties"),
    M("one segment: the lower address first", FreeList, "add",
      "block.segment.birth, block.address", "block.segment.birth, -block.address", "ties"),
    M("a segment is born when the device gives it", AllocatorState, "next_birth",
      "return self._births", "return -self._births", "ties"),
    M("a stream only finds its own blocks", CachingAllocator, "_find",
      "pool.free_lists[stream]", "pool.free_lists[max(pool.free_lists, default=stream)]"),
    M("a small request leaves oversize blocks alone", CachingAllocator, "_best_fit",
      "limit = self._max_split_size", "limit = 2**64", "max_split"),
    M("a large request accepts limited waste", CachingAllocator, "_best_fit",
      "limit = size + ", "limit = 2 * size + ", "max_split_rounding"),
    M("the waste is below max_non_split_rounding", CachingAllocator, "_best_fit",
      "self.settings.max_non_split_rounding_size", "self.settings.max_non_split_rounding_size + 1",
      "max_split_rounding small_device_max_split max_split"),
    M("a growing block counts with its room", caching_allocator, "_extent",
      "following and following.state == UNMAPPED", "False", "expandable expandable_gc"),
    # split
    M("512 bytes are split off in the small pool", BlockPool, "use",
      "self.is_small or settings.expandable_segments:\n        self.least_rest = MIN_BLOCK_SIZE",
      "self.is_small or settings.expandable_segments:\n        self.least_rest = 1024"),
    M("1 MiB stays with its block in the large pool", BlockPool, "use",
      "SMALL_SIZE + 1", "SMALL_SIZE"),
    M("growing segments split off 512 bytes", BlockPool, "use",
      "self.is_small or settings.expandable_segments", "self.is_small", "expandable"),
    M("from max_split_size on nothing is split", CachingAllocator, "malloc",
      "block_size < self._max_split_size or", "True or", "max_split"),
    # free
    M("joined with the free block before", CachingAllocator, "_free_block",
      "previous is not None and previous.state == FREE", "False"),
    M("joined with the free block after", CachingAllocator, "_free_block",
      "following is not None and following.state == FREE", "False"),
    M("a pending block is a wall", CachingAllocator, "_free_block",
      "following.state == FREE", "following.state in (FREE, PENDING)", "streams"),
    M("the own stream is not recorded", CachingAllocator, "record_stream",
      "stream != block.segment.stream", "True"),
    # streams
    M("a request first frees what has completed", CachingAllocator, "malloc",
      "self._events.retire_finished(frames)", "pass"),
    M("all streams of a block must complete", StreamEvents, "_completed",
      "if block.event_count == 0:", "if block.event_count >= 0:", "streams"),
    M("an unfinished event hides those behind it", StreamEvents, "retire_finished",
      "while queue and self._driver.query_event(queue[0][0]):",
      "for _ in range(len(queue)):\n            queue.rotate(-1)\n"
      "            if not self._driver.query_event(queue[0][0]): continue", "streams"),
    M("streams are visited in table order", RobinHoodTable, "_wish",
      "(key * GOLDEN_RATIO_64)", "(key * 7046029254386353131)", "streams streams_small_device"),
    M("an erased place is visited again", StreamEvents, "_leave",
      "return self._queues.next_place(place)", "return self._queues.next_place(place + 1)",
      "streams streams_small_device"),
    M("a retry waits for every event", StreamEvents, "wait",
      "self._driver.synchronize_event(event)",
      "if not self._driver.query_event(event):\n                queue.append((event, block))\n"
      "                continue"),
    # release
    M("the large pool is released first", release, "release_cached",
      "allocator.large_pool, frames)\n        release_pool(allocator, allocator.small_pool",
      "allocator.small_pool, frames)\n        release_pool(allocator, allocator.large_pool"),
    M("segments are released in search order", release, "release_pool",
      "free = pool.free_blocks()", "free = pool.free_blocks()[::-1]"),
    M("streams are released in order of their handles", BlockPool, "free_blocks",
      "sorted(self.free_lists)", "sorted(self.free_lists, reverse=True)"),
    M("a split segment stays", release, "release_pool", "not block.is_split", "True"),
    M("a full device is asked again after a release", CachingAllocator, "_make_room",
      "release_cached(self, frames)", "pass", "small_device"),
    M("a retry is counted", CachingAllocator, "_make_room",
      "self.statistics.num_alloc_retries += 1", "pass", "small_device"),
    M("the private pool's small blocks go first", release, "release_cached",
      "pool.small, frames)\n        release_pool(allocator, pool.large",
      "pool.large, frames)\n        release_pool(allocator, pool.small", "pools pools_expandable"),
    M("one oversize block that is large enough goes first", release, "release_available",
      "if block is not None and block.segment.expandable is None:", "if False:",
      "max_split small_device_max_split"),
    M("then oversize blocks from the largest down", release, "release_available",
      "list(free_list.from_largest())", "list(free_list)", "small_device_max_split max_split"),
    M("release stops once enough is released", release, "release_available",
      "released >= wanted or", "", "small_device_max_split gc_max_split max_split"),
    # garbage collection
    M("age counts searches", CachingAllocator, "_find", "pool.search_count += 1", "pass", "gc"),
    M("blocks of exactly the average age go", release, "collect_garbage",
      "block.age < average", "block.age <= average", "gc"),
    M("split blocks are not collected", release, "collect_garbage",
      "if block.is_split or", "if", "gc"),
    M("collection goes on until enough is reclaimed", release, "collect_garbage",
      "while reclaimed < excess and", "while reclaimed == 0 and", "gc gc_max_split mixed"),
    M("a round releases all old blocks", release, "collect_garbage",
      "release_block(allocator, block, frames)",
      "release_block(allocator, block, frames)\n            if reclaimed >= excess: break",
      "gc gc_max_split mixed"),
    M("the threshold is a part of the limit", release, "collect_garbage",
      "* limit", "* limit * 1.01", "gc gc_max_split mixed"),
    M("collection comes before growth", CachingAllocator, "_make_room",
      "if self._collects_garbage:", "if False:", "gc"),
    # limits
    M("the memory fraction is a limit", CachingAllocator, "_grow",
      "self.reserved_bytes + size > self.memory_limit",
      "self.reserved_bytes + size >= self.memory_limit", "gc fraction_moves mixed expandable_gc"),
    M("the fraction counts whole segments", CachingAllocator, "_grow",
      "self.reserved_bytes + size >", "self.reserved_bytes + block_size >",
      "fraction_moves"),
    M("a fraction of 1 is no limit", AllocatorState, "set_memory_fraction",
      "None if fraction == 1.0 else", "", "fraction_moves gc mixed"),
    M("the oom entry shows the device's free bytes", CachingAllocator, "_out_of_memory",
      '"oom", free, block_size', '"oom", self.reserved_bytes, block_size', "small_device"),
    # growing segments
    M("room for an eighth more than the device", ExpandableSegment, "__init__",
      "total // 8", "total // 4", "expandable"),
    M("small pages have 2 MiB, large ones 20", ExpandableSegments, "_room",
      "SMALL_SEGMENT_SIZE if pool.is_small else", "", "expandable"),
    M("the free block before unmapped room is used", ExpandableSegments, "_room",
      "block.previous is not None and block.previous.state == FREE", "False", "expandable"),
    M("pages are given back when not all fit", ExpandableSegment, "map",
      "self._driver.release_page(created)", "pass", "expandable_small_device"),
    M("only whole pages are unmapped", ExpandableSegment, "unmap",
      "if begin >= end:", "if begin + self._page_size >= end:", "expandable"),
    M("unmapping waits for the segment's stream", ExpandableSegment, "unmap",
      "self._driver.synchronize_stream(self._stream)", "pass",
      "expandable pools_expandable expandable_small_device expandable_gc"),
    M("unmapped neighbours are joined", block, "absorb_neighbours",
      "neighbour.state != block.state", "neighbour.state != block.state or block.state == UNMAPPED",
      "expandable expandable_small_device"),
    M("a growing segment with nothing mapped goes", ExpandableSegments, "unmap",
      "if not block.is_split:", "if False:", "expandable expandable_small_device"),
    # private pools
    M("the innermost pool serves", PrivatePools, "serving", "reversed(self.active)", "self.active",
      "pools pools_expandable"),
    M("memory goes back only when nobody holds the pool", PrivatePools, "release",
      "if pool.use_count == 0:\n        self._freeable", "if True:\n        self._freeable",
      "pools"),
    M("dropping a pool releases its memory", MemPool, "drop",
      "self._allocator.empty_cache(self.id)", "pass", "pools"),
    # statistics
    M("a peak of both pools is seen", Figure, "take_peaks", "both.peak = current", "pass"),
    M("a peak is looked for in time", Figure, "take_peaks",
      "self.due = self.up + (", "self.due = 1 + self.up + (", "default streams"),
    M("pending blocks are active, not allocated", Figure, "became_pending",
      "self.pending += amount", "pass", "default streams"),
    M("a fresh split counts with its rest", CachingAllocator, "malloc",
      "splits.split_bytes.increase(rest_size)", "splits.split_bytes.increase(block_size)"),
    M("growing segments do not count as split", block.Segment, "__init__",
      "pool.statistics if expandable is None else None", "pool.statistics", "expandable"),
    M("growing segments are not counted", AllocatorState, "count_reserved",
      "if segment.expandable is None:", "if True:", "expandable"),
    M("oversize is from max_split_size on", AllocatorState, "_after_malloc",
      "block.size >= self._max_split_size", "block.size > self._max_split_size", "max_split"),
    M("resetting clears the plain counters", Statistics, "reset_accumulated",
      "setattr(self, name, 0)", "pass", "default"),
    M("resetting peaks starts from now", Statistics, "reset_peak",
      "figure.reset_peak(both)", "pass", "default"),
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
