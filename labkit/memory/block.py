"""Blocks, the segments they are cut from, and the pools they wait in.

A segment is what the device handed out; a chain of blocks covers it without a gap. Free blocks
are kept per pool and stream, ordered as PyTorch orders them: by size, then by the birth of their
segment, then by address.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from labkit.memory.expandable_segment import ExpandableSegment
from labkit.memory.history import Frames, MempoolId
from labkit.memory.robin_hood import RobinHoodTable

ALLOCATED = "active_allocated"
PENDING = "active_pending_free"
FREE = "inactive"
UNMAPPED = "unmapped"
"""The states of a block; the first three are the words of PyTorch's snapshot."""


class Segment:
    """One range of addresses from the device, and what all of its blocks have in common.

    birth       segments are numbered as they are made
    expandable  the pages of an expandable one; None for one that `malloc` returned
    frames      of the request it was made for, when they are recorded
    """

    __slots__ = ("address", "birth", "expandable", "first", "frames", "pool", "stream")
    first: "Block"
    """Where the chain begins; set by whoever makes the first block."""

    def __init__(
        self,
        address: int,
        birth: int,
        pool: "BlockPool",
        stream: int,
        expandable: ExpandableSegment | None = None,
        frames: Frames | None = None,
    ) -> None:
        self.address = address
        self.birth = birth
        self.pool = pool
        self.stream = stream
        self.expandable = expandable
        self.frames = frames

    def blocks(self) -> "Iterator[Block]":
        """The chain, by address."""
        block: Block | None = self.first
        while block is not None:
            yield block
            block = block.next


class Block:
    """A range of one segment, between its neighbours `previous` and `next`.

    requested_size  what the caller asked for; stale once the block is free
    stream_uses     streams other than its own that use it, in PyTorch's table order
    event_count     events recorded after its free that have not completed yet
    gc_count_base   its pool's `get_free_blocks_call_count` when it became free

    Source   c10/cuda/CUDACachingAllocator.cpp  Block
    """

    __slots__ = (
        "address",
        "event_count",
        "frames",
        "gc_count_base",
        "next",
        "previous",
        "requested_size",
        "segment",
        "size",
        "state",
        "stream_uses",
    )

    def __init__(
        self,
        address: int,
        size: int,
        segment: Segment,
        previous: "Block | None",
        following: "Block | None",
        state: str,
    ) -> None:
        self.address = address
        self.size = size
        self.segment = segment
        self.previous = previous
        self.next = following
        self.state = state
        self.requested_size = 0
        self.gc_count_base = 0
        self.event_count = 0
        self.stream_uses: RobinHoodTable[int] | None = None
        self.frames: Frames | None = None

    @property
    def is_split(self) -> bool:
        """True unless the block is its whole segment."""
        return self.previous is not None or self.next is not None

    @property
    def gc_count(self) -> int:
        """Its age: searches of its pool since the block became free."""
        return self.segment.pool.get_free_blocks_call_count - self.gc_count_base

    def split(self, size: int) -> "Block":
        """The block keeps its first `size` bytes; returns the rest, a block of the same state."""
        rest = Block(
            self.address + size, self.size - size, self.segment, self, self.next, self.state
        )
        if self.next is not None:
            self.next.previous = rest
        self.next = rest
        self.size = size
        return rest

    def absorb(self, neighbour: "Block") -> None:
        """The block covers its neighbour as well, which leaves the chain."""
        self.size += neighbour.size
        if neighbour is self.previous:
            self.address = neighbour.address
            self.previous = neighbour.previous
            if self.previous is None:
                self.segment.first = self
            else:
                self.previous.next = self
        else:
            self.next = neighbour.next
            if self.next is not None:
                self.next.previous = self

    def __repr__(self) -> str:
        return f"Block({self.address:#x}, {self.size} bytes, {self.state})"


_address = attrgetter("address")


class BlockPool:
    """The blocks of one size class (small or large) of the default pool or of a private one.

    owner      the private pool it is a part of, or None
    ordered    per stream: (size, birth of the segment, address, block) of each free block, sorted
    get_free_blocks_call_count   searches so far, counted while garbage collection is on

    Source   c10/cuda/CUDACachingAllocator.cpp  BlockPool, BlockComparatorSize
    """

    def __init__(self, is_small: bool, owner: "PrivatePool | None" = None) -> None:
        self.is_small = is_small
        self.owner = owner
        self.id: MempoolId = owner.id if owner else (0, 0)
        self.get_free_blocks_call_count = 0
        self.ordered: defaultdict[int, list[tuple[int, int, int, Block]]] = defaultdict(list)
        self._unmapped: defaultdict[int, list[Block]] = defaultdict(list)

    def insert_into_blocks(self, block: Block) -> None:
        """The block can be found by a request; its age starts now."""
        block.gc_count_base = self.get_free_blocks_call_count
        segment = block.segment
        insort(self.ordered[segment.stream], (block.size, segment.birth, block.address, block))

    def remove(self, block: Block) -> None:
        """The block, which was free, can no longer be found."""
        segment = block.segment
        ordered = self.ordered[segment.stream]
        del ordered[bisect_left(ordered, (block.size, segment.birth, block.address))]

    def first_at_least(self, stream: int, size: int) -> Block | None:
        """The smallest free block of the stream that has `size` bytes: its best fit."""
        ordered = self.ordered[stream]
        place = bisect_left(ordered, (size,))
        return ordered[place][3] if place < len(ordered) else None

    def at_least(self, stream: int, size: int) -> Iterator[Block]:
        """The stream's free blocks of `size` bytes and more, in order."""
        ordered = self.ordered[stream]
        return (entry[3] for entry in islice(ordered, bisect_left(ordered, (size,)), None))

    def from_largest(self, stream: int) -> list[Block]:
        """The stream's free blocks in the opposite order."""
        return [entry[3] for entry in reversed(self.ordered[stream])]

    def free_blocks(self) -> list[Block]:
        """All free blocks, ordered by stream and then as in a search."""
        return [entry[3] for stream in sorted(self.ordered) for entry in self.ordered[stream]]

    def unmapped_blocks(self, stream: int) -> list[Block]:
        """Room without memory in the stream's expandable segments, lowest address first."""
        return list(self._unmapped[stream])

    def insert_into_unmapped(self, block: Block) -> None:
        """The room can be found."""
        insort(self._unmapped[block.segment.stream], block, key=_address)

    def remove_unmapped(self, block: Block) -> None:
        """The room can no longer be found."""
        self._unmapped[block.segment.stream].remove(block)


def try_merge_blocks(block: Block) -> list[Block]:
    """A block that is in no pool covers its neighbours of the same state too, previous first.

    Returns the absorbed blocks, which were taken out of their pool.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::try_merge_blocks
    """
    absorbed = neighbours_alike(block)
    for neighbour in absorbed:
        if block.state == UNMAPPED:
            block.segment.pool.remove_unmapped(neighbour)
        else:
            block.segment.pool.remove(neighbour)
        block.absorb(neighbour)
    return absorbed


def neighbours_alike(block: Block) -> list[Block]:
    """The neighbours of the same state, previous first: those that the block can absorb."""
    both = (block.previous, block.next)
    return [each for each in both if each is not None and each.state == block.state]


class PoolPair:
    """A small and a large pool, the default ones or those of an owner."""

    def __init__(self, owner: "PrivatePool | None" = None) -> None:
        self.small_blocks = BlockPool(True, owner)
        self.large_blocks = BlockPool(False, owner)

    def of(self, is_small: bool) -> BlockPool:
        """The one or the other."""
        return self.small_blocks if is_small else self.large_blocks


class PrivatePool(PoolPair):
    """A small and a large pool that share nothing with the default ones.

    use_count       graphs and objects that still hold the pool
    reserved_bytes  what the device has given on its behalf
    no_split        requests take whole segments

    Source   c10/cuda/CUDACachingAllocator.cpp  PrivatePool
    """

    def __init__(self, mempool_id: MempoolId, *, no_split: bool = False) -> None:
        self.id = mempool_id
        self.use_count = 1
        self.reserved_bytes = 0
        self.no_split = no_split
        super().__init__(self)


@dataclass(slots=True)
class AllocParams:
    """One request while a block is looked for. Sizes are bytes.

    requested_size  what the caller asked for;  size: of the block it needs
    pool, stream    where a block is looked for
    alloc_size      of the segment that a plain device is asked for, once nothing cached fits
    frames          of the caller, when they are recorded
    is_expandable_segments_active  segments may grow for it, and blocks of expandable ones serve it

    Source   c10/cuda/CUDACachingAllocator.cpp  AllocParams
    """

    requested_size: int
    size: int
    pool: BlockPool
    stream: int
    is_expandable_segments_active: bool
    frames: Frames | None = None
    alloc_size: int = 0
