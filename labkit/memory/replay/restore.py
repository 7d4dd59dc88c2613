"""An allocator in the state a snapshot shows, ready to go on from there."""

from itertools import groupby
from typing import Any

from labkit.memory.block import FREE, PENDING, UNMAPPED, Block, BlockPool, PrivatePool, Segment
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.expandable import pages_of
from labkit.memory.history import MempoolId

Recorded = dict[str, Any]


def restore(allocator: CachingAllocator, segments: list[Recorded]) -> None:
    """The allocator has these segments and blocks, as if it had made them.

    The device is not asked: it must know the addresses already, or not mind. Pending blocks wait
    on a stream of their own, `waiting_stream(address)`. Statistics count only what comes later.

    Differs  A snapshot holds no births: older segments are those at lower addresses. Where a
             reservation begins and ends is not recorded either; it is taken to begin at its first
             mapped run.
    """
    for segment in segments:
        allocator.reserved.bytes += segment["total_size"]
        if (owner := _owner(allocator, segment)) is not None:
            owner.reserved_bytes += segment["total_size"]
        if not segment["is_expandable"]:
            pool = _pool(allocator, segment)
            plain = allocator.reserved.new_segment(segment["address"], pool, segment["stream"])
            _chain(allocator, plain, segment["blocks"])
    expandable = [segment for segment in segments if segment["is_expandable"]]
    expandable.sort(key=lambda segment: (_kind(segment), segment["address"]))
    for _, runs in groupby(expandable, key=_kind):
        _restore_expandable(allocator, list(runs))


def waiting_stream(address: int) -> int:
    """The stream that a restored pending block waits for: no real one has a negative handle."""
    return -address


def _kind(segment: Recorded) -> tuple[Any, ...]:
    return segment["stream"], tuple(segment["segment_pool_id"]), segment["segment_type"]


def _owner(allocator: CachingAllocator, segment: Recorded) -> PrivatePool | None:
    """The private pool that the segment is of, made when it is first met."""
    mempool_id: MempoolId = tuple(segment["segment_pool_id"])
    if mempool_id == (0, 0):
        return None
    if mempool_id not in allocator.private_pools:
        allocator.private_pools.hold(mempool_id)
    return allocator.private_pools[mempool_id]


def _pool(allocator: CachingAllocator, segment: Recorded) -> BlockPool:
    pools = _owner(allocator, segment) or allocator.default_pools
    return pools.of(segment["segment_type"] == "small")


def _restore_expandable(allocator: CachingAllocator, runs: list[Recorded]) -> None:
    pool, stream = _pool(allocator, runs[0]), runs[0]["stream"]
    page_size = allocator.settings.large_segment_size
    while runs:
        base = runs[0]["address"]
        segment, size = allocator.expandable.new_segment(pool, stream, page_size, base)
        end = base + size
        inside = [run for run in runs if run["address"] + run["total_size"] <= end]
        runs = [run for run in runs if run not in inside]
        blocks, position = [], base
        for run in inside:
            pages_of(segment).adopt_pages(run["address"], run["total_size"])
            if run["address"] > position:
                blocks.append(_unmapped(position, run["address"] - position))
            blocks += run["blocks"]
            position = run["address"] + run["total_size"]
        if position < end:
            blocks.append(_unmapped(position, end - position))
        _chain(allocator, segment, blocks)


def _unmapped(address: int, size: int) -> Recorded:
    return {"address": address, "size": size, "requested_size": 0, "state": UNMAPPED}


def _chain(allocator: CachingAllocator, segment: Segment, blocks: list[Recorded]) -> None:
    previous: Block | None = None
    for recorded in blocks:
        block = Block(
            recorded["address"], recorded["size"], segment, previous, None, recorded["state"]
        )
        block.requested_size = recorded["requested_size"]
        if previous is None:
            segment.first = block
        else:
            previous.next = block
        if block.state == FREE:
            segment.pool.insert_into_blocks(block)
        elif block.state == UNMAPPED:
            segment.pool.insert_into_unmapped(block)
        else:
            waits_for = waiting_stream(block.address) if block.state == PENDING else None
            allocator.adopt(block, waits_for)
        previous = block
