"""Which free block serves a request: the first in search order that may be used."""

from labkit.memory.block import UNMAPPED, AllocParams, Block
from labkit.memory.settings import AllocatorSettings


def best_fit(params: AllocParams, settings: AllocatorSettings) -> Block | None:
    """The first block of the pool and stream that is large enough; None, too, if it is too large.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::get_free_block
    """
    size = params.size
    block = params.pool.first_at_least(params.stream, size)
    if block is not None and block.segment.expandable is not None:
        block = _least_extent(params)
    limit = settings.max_split_size
    if size >= limit:
        limit = size + settings.max_non_split_rounding_size
    return block if block is not None and block.size < limit else None


def _least_extent(params: AllocParams) -> Block | None:
    """The best fit where segments grow.

    A block at the end of an expandable segment counts with the unmapped room behind it, so that the
    smaller segment is not grown when a larger one has room already.
    """
    in_order = params.pool.at_least(params.stream, params.size)
    if not params.is_expandable_segments_active:  # switched off meanwhile, or lent
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
