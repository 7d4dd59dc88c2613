"""The small steps of the allocator chapter: which free block serves, and when it is cut."""

from collections.abc import Sequence
from typing import NamedTuple

from labkit.course.exercise import Evidence, Exercise, Hint, Rng
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.memory.sizes import KIB, MIB, is_cut_off


class Block(NamedTuple):
    """A piece of a segment. `birth` numbers the segments in the order they were created."""

    address: int
    size: int
    state: str
    pool: str
    stream: int
    birth: int


SMALL = (512, 1024, 5120, 300 * KIB, 512 * KIB, MIB)
LARGE = (MIB + 512, 3 * MIB, 5 * MIB, 9 * MIB, 12 * MIB, 20 * MIB, 40 * MIB)


def in_words(blocks: Sequence[Block]) -> str:
    """The blocks, one after the other: what they are and how many bytes."""
    return "; ".join(f"{b.pool}, {b.state}, {b.size:,} bytes" for b in blocks) or "no blocks"


def _some_blocks(rng: Rng, size: int) -> tuple[list[Block], int, str]:
    """Blocks of both pools by address, no two free ones of one size; and a request."""
    blocks: list[Block] = []
    sizes = rng.sample(SMALL + LARGE, min(rng.randint(0, 2 + size), len(SMALL + LARGE)))
    end = 0
    for birth, nbytes in enumerate(sizes, 1):
        state = "live" if rng.chance(0.25) else "free"
        pool = "small" if nbytes in SMALL else "large"
        blocks.append(Block(end, nbytes, state, pool, 0, birth))
        end += nbytes
    pool = rng.choice(("small", "large"))
    wanted = rng.choice(SMALL if pool == "small" else LARGE)
    return blocks, wanted - rng.choice((0, 0, 512)) or 512, pool


def _smallest(blocks: list[Block], size: int, pool: str) -> Block | None:
    fitting = [b for b in blocks if b.state == "free" and b.pool == pool and b.size >= size]
    return min(fitting, key=lambda b: b.size, default=None)


def _is_block(evidence: Evidence) -> bool:
    return isinstance(evidence.value, Block)


choose = Exercise(
    id="caching_allocator.choose",
    case=_some_blocks,
    expected=_smallest,
    returns=(Block,),
    show=lambda blocks, size, pool: f"{size:,} bytes for the {pool} pool; {in_words(blocks)}",
    rung="warm-up",
    cases=150,
    minutes=4,
    rules=("plain Python: no labkit, no torch",),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "That block is live: somebody uses it.",
            when=lambda e: _is_block(e) and e.value.state == "live",
        ),
        Hint(
            "That block belongs to the other pool.",
            when=lambda e: _is_block(e) and e.value.pool != e.inputs[2],
        ),
        Hint(
            "No block is free and large enough. Return None: the cache then asks the device.",
            when=lambda e: e.right is None,
        ),
        Hint(
            "A free block of this pool is large enough. A block of exactly the size is, too.",
            when=lambda e: e.value is None,
        ),
        Hint(
            "A smaller free block would do as well.",
            when=lambda e: _is_block(e) and e.value.size > e.right.size,
        ),
        "Collect the blocks that fit in a list. Then min(..., key=lambda b: b.size, default=None).",
    ),
    must_fail=(
        "takes the first that is large enough",
        "takes the largest",
        "takes a live block",
        "looks in the other pool, too",
        "refuses a block of exactly the size",
        "fails where nothing fits",
    ),
)


def _a_rest(rng: Rng, size: int) -> tuple[Block, int]:
    """A free block and a request it can serve; the rest is often where a rule changes."""
    pool = rng.choice(("small", "large"))
    wanted = rng.choice(SMALL if pool == "small" else LARGE)
    most = 2 * MIB if pool == "small" else 40 * MIB
    near = (0, 512, 1024, MIB // 2, MIB - 512, MIB, MIB + 512, 2 * MIB, 512 * rng.randint(0, 9999))
    rest = min(rng.choice(near), most - wanted)
    return Block(512 * rng.randint(0, 9999), wanted + rest, "free", pool, 0, 1), wanted


def _is_cut(block: Block, size: int) -> bool:
    return is_cut_off(block.size - size, finely=block.pool == "small")


splits = Exercise(
    id="caching_allocator.splits",
    case=_a_rest,
    expected=_is_cut,
    show=lambda block, size: (
        f"{size:,} bytes from a block of the {block.pool} pool with {block.size:,}: "
        f"{block.size - size:,} would be left"
    ),
    rung="warm-up",
    cases=200,
    minutes=3,
    rules=("plain Python: no labkit, no torch",),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Nothing is left, so nothing is cut.",
            when=lambda e: e.inputs[0].size == e.inputs[1],
        ),
        Hint(
            "In the small pool a rest of 512 bytes can serve somebody: it becomes a block.",
            when=lambda e: e.inputs[0].pool == "small",
        ),
        Hint(
            "In the large pool nobody asks for 1 MiB or less. Only a larger rest becomes a block.",
            when=lambda e: e.inputs[0].pool == "large",
        ),
        "rest = block.size - size. Then one comparison per pool.",
    ),
    must_fail=(
        "cuts whatever the rest",
        "cuts where nothing is left",
        "never cuts",
        "cuts off exactly 1 MiB in the large pool",
        "keeps 512 bytes in the small pool",
        "has the limit of the large pool for both",
    ),
)
