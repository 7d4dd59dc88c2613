"""What must hold of an allocator between any two requests, whatever its settings."""

from itertools import pairwise

from labkit.memory.block import ALLOCATED, FREE, UNMAPPED


def check(allocator):
    """Raise AssertionError on the first thing that cannot be."""
    statistics = allocator.statistics
    live = {block.address: block for block in allocator.live_blocks()}
    free_listed = {
        id(block)
        for pool in {id(s.pool): s.pool for s in allocator.segments.values()}.values()
        for block in pool.free_blocks()
    }
    totals = {ALLOCATED: 0, FREE: 0, "active_pending_free": 0, UNMAPPED: 0}
    seen_live, seen_free, split_bytes = 0, 0, 0
    ranges = []
    for segment in allocator.segments.values():
        blocks = list(segment.blocks())
        assert blocks[0].previous is None, "the chain begins at its first block"
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            assert block.size > 0, f"{block} is empty"
            assert block.address % 512 == 0, f"{block} is not aligned"
            assert block.size % 512 == 0, f"{block} is not a multiple of 512"
            assert block.next is following, "neighbours know each other"
            if following is not None:
                assert following.previous is block, "neighbours know each other"
                assert block.address + block.size == following.address, "no gap, no overlap"
                assert not (block.state == following.state == FREE), "free neighbours are joined"
                assert not (block.state == following.state == UNMAPPED), "so is unmapped room"
            assert (block.state == ALLOCATED) == (block.address in live), "live means allocated"
            assert (block.state == FREE) == (id(block) in free_listed), "free means findable"
            totals[block.state] += block.size
            seen_live += block.state == ALLOCATED
            seen_free += block.state == FREE
            if block.state == FREE and block.is_split and segment.expandable is None:
                split_bytes += block.size
        ranges.append((blocks[0].address, blocks[-1].address + blocks[-1].size))
    ranges.sort()
    for (_, end), (start, _) in pairwise(ranges):
        assert end <= start, "segments do not overlap"
    assert (seen_live, seen_free) == (len(live), len(free_listed)), "no block is lost"
    reserved = totals[ALLOCATED] + totals[FREE] + totals["active_pending_free"]
    assert reserved == allocator.reserved_bytes, "every reserved byte is in one block"
    if statistics is not None:
        active = totals[ALLOCATED] + totals["active_pending_free"]
        assert statistics.current("allocated_bytes") == totals[ALLOCATED]
        assert statistics.current("active_bytes") == active
        assert statistics.current("reserved_bytes") == reserved
        assert statistics.current("inactive_split_bytes") == split_bytes
        flat = statistics.flat()
        for name, value in flat.items():
            if name.endswith(".current"):
                assert 0 <= value <= flat[name.replace("current", "peak")], name
