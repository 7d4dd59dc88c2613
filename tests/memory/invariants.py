"""What must hold of an allocator between any two requests, whatever its settings."""

from collections import Counter
from itertools import pairwise

from labkit.memory.block import ALLOCATED, FREE, PENDING, UNMAPPED


def check(allocator):
    """Raise AssertionError on the first thing that cannot be."""
    check_chains(allocator)
    check_pools(allocator)
    check_statistics(allocator)


def check_chains(allocator):
    """Blocks tile their segments, neighbours that could be joined are, segments lie apart."""
    ranges = []
    for address, segment in allocator.segments.items():
        blocks = list(segment.blocks())
        assert blocks[0].previous is None, "the chain begins at its first block"
        assert blocks[0].address == segment.address == address, "and with its segment"
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            assert block.segment is segment, "a block knows its segment"
            assert block.size > 0, f"{block} is empty"
            assert block.address % 512 == 0, f"{block} is not aligned"
            assert block.size % 512 == 0, f"{block} is not a multiple of 512"
            assert block.next is following, "neighbours know each other"
            if following is not None:
                assert following.previous is block, "neighbours know each other"
                assert block.address + block.size == following.address, "no gap, no overlap"
                assert not (block.state == following.state == FREE), "free neighbours are joined"
                assert not (block.state == following.state == UNMAPPED), "so is unmapped room"
        if segment.expandable is not None:
            assert sum(block.size for block in blocks) == segment.expandable.size
            for block in blocks:
                mapped = segment.expandable.mapped_bytes(block.address, block.size)
                assert (block.state == UNMAPPED) <= (mapped == 0), f"memory behind {block}"
        ranges.append((blocks[0].address, blocks[-1].address + blocks[-1].size))
    ranges.sort()
    for (_, end), (start, _) in pairwise(ranges):
        assert end <= start, "segments do not overlap"


def check_pools(allocator):
    """Every free block can be found where it belongs, once; every allocated one can be freed."""
    blocks = all_blocks(allocator)
    live = {block.address: block for block in allocator.live_blocks()}
    assert live == {block.address: block for block in blocks if block.state == ALLOCATED}
    pools = {id(block.segment.pool): block.segment.pool for block in blocks}.values()
    findable = [block for pool in pools for block in pool.free_blocks()]
    assert len(findable) == len(set(map(id, findable))), "no block is found twice"
    assert {id(block) for block in findable} == {id(b) for b in blocks if b.state == FREE}
    for pool in pools:
        for stream, ordered in pool.ordered.items():
            assert ordered == sorted(ordered, key=lambda entry: entry[:3])
            for size, birth, address, block in ordered:
                segment = block.segment
                assert (segment.pool, segment.stream) == (pool, stream), f"{block} is astray"
                assert (size, birth, address) == (block.size, segment.birth, block.address)
    unmapped = [
        block
        for pool in pools
        for stream in {block.segment.stream for block in blocks}
        for block in pool.unmapped_blocks(stream)
    ]
    assert {id(b) for b in unmapped} == {id(b) for b in blocks if b.state == UNMAPPED}
    pending = [block for block in blocks if block.state == PENDING]
    assert allocator._events.outstanding == len(pending), "pending blocks are waited for"
    for block in pending:
        assert block.event_count or block.stream_uses, f"nothing will ever free {block}"


def check_statistics(allocator):
    """Every current figure is what the blocks say, and no peak is below it."""
    expected, reserved_by_pool = Counter(), Counter()
    for segment in allocator.segments.values():
        kinds = ("all", "small_pool" if segment.pool.is_small else "large_pool")
        plain = segment.expandable is None
        for kind in kinds:
            expected[f"segment.{kind}"] += plain
        for block in segment.blocks():
            for kind, (metric, amount) in (
                (kind, figure) for kind in kinds for figure in figures_of(block, plain)
            ):
                expected[f"{metric}.{kind}"] += amount
            if segment.pool.owner is not None and block.state != UNMAPPED:
                reserved_by_pool[segment.pool.id] += block.size
    flat = allocator.memory_stats()
    for name, value in flat.items():
        if name.endswith(".current") and not name.startswith("oversize"):
            assert value == expected[name.removesuffix(".current")], name
            assert 0 <= value <= flat[name.replace("current", "peak")], name
    assert allocator.reserved_bytes == expected["reserved_bytes.all"]
    assert allocator.allocated_bytes == expected["allocated_bytes.all"]
    assert allocator.active_bytes == expected["active_bytes.all"]
    for mempool_id, array in allocator.stats.reserved_bytes_by_private_pools.items():
        assert array.current == reserved_by_pool[mempool_id]


def figures_of(block, plain):
    """The (metric, amount) that a block counts for."""
    if block.state != UNMAPPED:
        yield "reserved_bytes", block.size
    if block.state == FREE and block.is_split and plain:
        yield from (("inactive_split", 1), ("inactive_split_bytes", block.size))
    if block.state in (ALLOCATED, PENDING):
        yield from (("active", 1), ("active_bytes", block.size))
        yield "requested_bytes", block.requested_size
    if block.state == ALLOCATED:
        yield from (("allocation", 1), ("allocated_bytes", block.size))


def all_blocks(allocator):
    return [block for segment in allocator.segments.values() for block in segment.blocks()]
