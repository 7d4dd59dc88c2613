"""Seats of the caching allocator: sizes, which block serves, when it is cut and joined."""

from typing import Any

from labkit.course.exercises._block_rules import Block as Told
from labkit.course.your_machine.seat import Ask, Differs, Place, Seat, place
from labkit.memory.block import FREE, AllocParams, Block
from labkit.memory.sizes import MIB

STATES = {FREE: "free", "active_pending_free": "pending"}


def _settings(large_segment: int = 20 * MIB) -> str:
    """The settings string that says this."""
    return "" if large_segment == 20 * MIB else f"large_segment_size_mb:{large_segment // MIB}"


def _told(block: Block) -> Told:
    """The block as the exercise has it."""
    segment = block.segment
    pool = "small" if segment.pool.is_small else "large"
    state = STATES.get(block.state, "live")
    return Told(block.address, block.size, state, pool, segment.stream, segment.birth)


def _chosen(ask: Ask, params: AllocParams, settings: Any) -> Block | None:
    """The free block that the part takes."""
    blocks = {_told(block): block for block in params.pool.free_blocks()}
    pool = "small" if params.pool.is_small else "large"
    wanted = sorted(blocks, key=lambda told: told.address)
    found = ask(wanted, params.size, pool, params.stream, which=0)
    if found is not None and found not in blocks:
        raise Differs(found, "one of the blocks")
    return None if found is None else blocks[found]


def _is_plain(params: AllocParams, settings: Any) -> bool:
    """Whether no setting changes which block is the best."""
    plain = not params.is_expandable_segments_active and params.size < settings.max_split_size
    return plain and settings.max_split_size > 1 << 60


def _absorbed(ask: Ask, block: Block) -> list[Block]:
    """The neighbours that the part joins with the block."""
    chain = {_told(each): each for each in block.segment.blocks()}
    me = _told(block)
    freed = me._replace(state="live")
    told = [freed if each == me else each for each in chain]
    after = [Told(*each) for each in ask(told, freed, which=2)]
    whole = next((one for one in after if one.address <= me.address < one.address + one.size), me)
    inside = [
        each
        for told_, each in chain.items()
        if told_ != me and whole.address <= told_.address < whole.address + whole.size
    ]
    ends = sorted([*inside, block], key=lambda each: each.address)
    covered = sum(each.size for each in ends)
    untouched = [t for t, each in chain.items() if each not in ends]
    others = [one for one in after if one != whole]
    if whole.state != "free" or whole.size != covered or sorted(others) != sorted(untouched):
        raise Differs(after, "the blocks with this one free, joined with its free neighbours")
    return inside


def _alike(mine: list[Block], right: list[Block], *args: Any) -> bool:
    return {id(each) for each in mine} == {id(each) for each in right}


SEATS = (
    Seat(
        "caching_allocator.round_and_pool",
        "sizes and pools",
        "memory",
        "From a request come the size of its block, its pool, and the size of a new segment.",
        "c10/cuda/CUDACachingAllocator.cpp  round_size, get_pool, get_allocation_size",
        (
            place(
                "labkit.memory.sizes.round_size",
                lambda size, divisions=(): (size, ""),
                lambda value, *args: value[0],
                covers=lambda size, divisions=(): not divisions,
            ),
            place(
                "labkit.memory.sizes.is_small",
                lambda size: (size, ""),
                lambda value, *args: value[1] == "small",
            ),
            place(
                "labkit.memory.sizes.segment_size",
                lambda size, *large: (size, _settings(*large)),
                lambda value, *args: value[2],
            ),
        ),
    ),
    Seat(
        "caching_allocator.best_fit",
        "which free block?",
        "memory",
        "The free block that serves a request, whether its rest is cut off, and what joins again.",
        "c10/cuda/CUDACachingAllocator.cpp  get_free_block, should_split, try_merge_blocks",
        (
            Place(
                "labkit.memory.best_fit.best_fit",
                _chosen,
                same=lambda mine, right, *args: mine is right,
                covers=_is_plain,
            ),
            place(
                "labkit.memory.caching_allocator.CachingAllocator._should_split",
                lambda self, block, params: (_told(block)._replace(state="free"), params.size),
                which=1,
                covers=lambda self, block, params: (
                    block.size > params.size
                    and _is_plain(params, self.settings)
                    and params.pool.owner is None
                ),
            ),
            Place(
                "labkit.memory.block.neighbours_alike",
                _absorbed,
                same=_alike,
                covers=lambda block: block.state == FREE and block.segment.expandable is None,
            ),
        ),
    ),
)
