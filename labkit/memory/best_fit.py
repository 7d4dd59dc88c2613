"""Which free block serves a request: the first in search order that may be used."""

from labkit.memory.block import UNMAPPED, Block, BlockPool
from labkit.memory.settings import AllocatorSettings


def best_fit(pool: BlockPool, stream: int, size: int, settings: AllocatorSettings) -> Block | None:
    """The first block of `size` bytes or more; None when there is none or it is too large.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::get_free_block
    """
    block = pool.first_at_least(stream, size)
    if block is not None and block.segment.expandable is not None:
        block = _least_extent(pool, stream, size, settings.expandable_segments)
    limit = settings.max_split_size
    if size >= limit:
        limit = size + settings.max_non_split_rounding_size
    return block if block is not None and block.size < limit else None


def _least_extent(pool: BlockPool, stream: int, size: int, growing_serve: bool) -> Block | None:
    """The best fit where segments grow.

    A block at the end of a growing segment counts with the unmapped room behind it, so that the
    smaller segment is not grown when a larger one has room already.
    """
    in_order = pool.at_least(stream, size)
    if not growing_serve:  # switched off meanwhile
        return next((block for block in in_order if block.segment.expandable is None), None)
    best = next(in_order)
    for block in in_order:
        if best.segment.expandable is None or _extent(block) >= _extent(best):
            break
        best = block
    return best


def _extent(block: Block) -> int:
    """What the block can become: its bytes and the unmapped room right behind it."""
    following = block.next
    return block.size + (following.size if following and following.state == UNMAPPED else 0)
