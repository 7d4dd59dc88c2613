"""Blocks, the segments they are cut from, and the free lists they wait in.

A segment is what the device handed out; a chain of blocks covers it without a gap. Free blocks
are kept per pool and stream, ordered as PyTorch orders them: by size, then by the birth of their
segment, then by address.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from labkit.memory.settings import UNLIMITED, AllocatorSettings
from labkit.memory.sizes import MIN_BLOCK_SIZE, SMALL_SIZE

if TYPE_CHECKING:
    from labkit.memory.expandable import ExpandableSegment
    from labkit.memory.private_pools import PrivatePool
    from labkit.memory.robin_hood import RobinHoodTable
    from labkit.memory.statistics import PoolStatistics

MempoolId = tuple[int, int]
"""(0, 0) is the default; a graph's own pools count in the first place, MemPool's in the second."""

ALLOCATED = "active_allocated"
PENDING = "active_pending_free"
FREE = "inactive"
UNMAPPED = "unmapped"
"""The states of a block; the first three are the words of PyTorch's snapshot."""


class Segment:
    """One range of addresses from the device, and what all of its blocks have in common."""

    __slots__ = (
        "address",
        "birth",
        "expandable",
        "first",
        "frames",
        "free_list",
        "pool",
        "split_statistics",
        "stream",
    )
    first: "Block"
    """Where the chain begins; set by whoever makes the first block."""

    def __init__(
        self,
        address: int,
        birth: int,
        pool: "BlockPool",
        stream: int,
        expandable: "ExpandableSegment | None" = None,
        frames: Any = None,
    ) -> None:
        self.address = address
        self.birth = birth
        self.pool = pool
        self.stream = stream
        self.expandable = expandable
        self.frames = frames
        self.free_list = pool.free_lists[stream]
        # free pages of a growing segment can always go back: they do not count as split
        self.split_statistics = pool.statistics if expandable is None else None

    def blocks(self) -> "Iterator[Block]":
        """The chain, by address."""
        block: Block | None = self.first
        while block is not None:
            yield block
            block = block.next


class Block:
    """A range of one segment, between its neighbours `previous` and `next`.

    requested_size  what the caller asked for; stale once the block is free
    streams         streams other than its own that use it, in PyTorch's table order
    event_count     events recorded after its free that have not completed yet
    search_count    of its pool, when it became free: the difference is its age
    """

    __slots__ = (
        "address",
        "event_count",
        "frames",
        "next",
        "previous",
        "requested_size",
        "search_count",
        "segment",
        "size",
        "state",
        "streams",
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
        self.search_count = segment.pool.search_count
        self.event_count = 0
        self.streams: RobinHoodTable[int] | None = None
        self.frames: Any = None

    @property
    def is_split(self) -> bool:
        """True unless the block is its whole segment."""
        return self.previous is not None or self.next is not None

    @property
    def age(self) -> int:
        """Searches of its pool since the block became free."""
        return self.segment.pool.search_count - self.search_count

    def __repr__(self) -> str:
        return f"Block({self.address:#x}, {self.size} bytes, {self.state})"


_address = attrgetter("address")


def absorb_neighbours(block: Block) -> list[Block]:
    """Join a block that is in no set with its neighbours of the same state, previous first.

    Returns the absorbed blocks, which were taken out of their set.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::try_merge_blocks
    """
    absorbed = []
    for neighbour in (block.previous, block.next):
        if neighbour is None or neighbour.state != block.state:
            continue
        if block.state == UNMAPPED:
            block.segment.pool.remove_unmapped(neighbour)
        else:
            block.segment.free_list.remove(neighbour)
        if neighbour is block.previous:
            block.address = neighbour.address
            block.previous = neighbour.previous
            if block.previous is None:
                block.segment.first = block
            else:
                block.previous.next = block
        else:
            block.next = neighbour.next
            if block.next is not None:
                block.next.previous = block
        block.size += neighbour.size
        absorbed.append(neighbour)
    return absorbed


class FreeList:
    """The free blocks of one pool and one stream, in the order of a search.

    ordered   (size, birth of the segment, address, block) of each, sorted

    Source   c10/cuda/CUDACachingAllocator.cpp  BlockPool::blocks, BlockComparatorSize
    """

    __slots__ = ("ordered",)

    def __init__(self) -> None:
        self.ordered: list[tuple[int, int, int, Block]] = []

    def __iter__(self) -> Iterator[Block]:
        return (entry[3] for entry in self.ordered)

    def at_least(self, size: int) -> Iterator[Block]:
        """The blocks of `size` bytes and more, in order."""
        first = bisect_left(self.ordered, (size,))
        return (entry[3] for entry in islice(self.ordered, first, None))

    def from_largest(self) -> Iterator[Block]:
        """All blocks in the opposite order."""
        return (entry[3] for entry in reversed(self.ordered))

    def add(self, block: Block) -> None:
        """The block can be found."""
        insort(self.ordered, (block.size, block.segment.birth, block.address, block))

    def remove(self, block: Block) -> None:
        """The block, which was in the list, can no longer be found."""
        ordered = self.ordered
        del ordered[bisect_left(ordered, (block.size, block.segment.birth, block.address))]


class BlockPool:
    """The blocks of one size class (small or large) of the default pool or of a private one.

    search_count   how often a free block was looked for, counted while garbage collection is on
    least_rest     bytes that must be left over for a block to be split
    free_lists     per stream; a stream has one from its first request on
    statistics     where the pool counts; None when statistics are off
    """

    def __init__(
        self,
        is_small: bool,
        statistics: "PoolStatistics | None" = None,
        owner: "PrivatePool | None" = None,
    ) -> None:
        self.is_small = is_small
        self.statistics = statistics
        self.owner = owner
        self.id: MempoolId = owner.id if owner else (0, 0)
        self.search_count = 0
        self.least_rest = MIN_BLOCK_SIZE
        self.free_lists: defaultdict[int, FreeList] = defaultdict(FreeList)
        self._unmapped: dict[int, list[Block]] = {}

    def use(self, settings: AllocatorSettings) -> None:
        """Split as the settings say.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::should_split
        """
        if self.owner is not None and self.owner.no_split:
            self.least_rest = UNLIMITED
        elif self.is_small or settings.expandable_segments:
            self.least_rest = MIN_BLOCK_SIZE
        else:
            self.least_rest = SMALL_SIZE + 1

    def free_blocks(self) -> list[Block]:
        """All free blocks, ordered by stream and then as in the free list."""
        return [block for stream in sorted(self.free_lists) for block in self.free_lists[stream]]

    def unmapped_blocks(self, stream: int) -> list[Block]:
        """Room without memory in the stream's expandable segments, lowest address first."""
        return list(self._unmapped.get(stream, ()))

    def add_unmapped(self, block: Block) -> None:
        """The room can be found."""
        insort(self._unmapped.setdefault(block.segment.stream, []), block, key=_address)

    def remove_unmapped(self, block: Block) -> None:
        """The room can no longer be found."""
        self._unmapped[block.segment.stream].remove(block)
