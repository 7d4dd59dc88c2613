"""What the device has given: its segments, how many bytes they are, and how many there may be."""

from labkit.memory.block import FREE, Block, BlockPool, Segment
from labkit.memory.device import MemoryDriver
from labkit.memory.expandable_segment import ExpandableSegment
from labkit.memory.history import Action, Frames
from labkit.memory.recorder import Recorder
from labkit.memory.statistics import DeviceStats


class ReservedMemory:
    """The segments of one device. The driver is asked first: what it refuses changes nothing.

    segments         by address
    bytes            of the segments; of expandable ones, what is mapped
    limit            how many there may be, or None
    orders_by_birth  False: ties between blocks go to the lower address, as before PyTorch 2.13
    """

    def __init__(
        self,
        driver: MemoryDriver,
        stats: DeviceStats,
        recorder: Recorder,
        orders_by_birth: bool = True,
    ) -> None:
        self.driver = driver
        self.segments: dict[int, Segment] = {}
        self.bytes = 0
        self.limit: int | None = None
        self._stats = stats
        self._recorder = recorder
        self._orders_by_birth = orders_by_birth
        self._births = 0

    def set_fraction(self, fraction: float) -> None:
        """That part of the device is the limit; 1.0 is none.

        Raises   ValueError   not between 0 and 1

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::setMemoryFraction
        """
        if not 0.0 <= fraction <= 1.0:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        total = self.driver.memory_info()[1]
        self.limit = None if fraction == 1.0 else int(fraction * total)

    def malloc_segment(
        self, pool: BlockPool, stream: int, size: int, frames: Frames | None
    ) -> Block | None:
        """The one block of a new segment of `size` bytes; None when the device is full."""
        address = self.driver.malloc(size)
        if address is None:
            return None
        segment = self.new_segment(address, pool, stream, frames=frames)
        segment.first = Block(address, size, segment, None, None, FREE)
        self.grew("segment_alloc", address, size, segment, frames)
        return segment.first

    def release_block(self, block: Block, frames: Frames | None) -> None:
        """A free block that is a whole segment went back to the device.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::release_block
        """
        segment = block.segment
        self.driver.free(block.address)
        segment.pool.remove(block)
        del self.segments[segment.address]
        self.shrank("segment_free", block.address, block.size, segment, frames)

    def new_segment(
        self,
        address: int,
        pool: BlockPool,
        stream: int,
        expandable: ExpandableSegment | None = None,
        frames: Frames | None = None,
    ) -> Segment:
        """The youngest segment, which has no blocks yet."""
        self._births += 1
        birth = self._births if self._orders_by_birth else 0
        segment = self.segments[address] = Segment(address, birth, pool, stream, expandable, frames)
        return segment

    def grew(
        self, action: Action, address: int, size: int, segment: Segment, frames: Frames | None
    ) -> None:
        """The device gave `size` bytes more, as a segment or as pages of one."""
        self.bytes += size
        if segment.pool.owner is not None:
            segment.pool.owner.reserved_bytes += size
        self._stats.reserved(segment, size)
        self._recorder.device_memory(action, address, size, segment, frames)

    def shrank(
        self, action: Action, address: int, size: int, segment: Segment, frames: Frames | None
    ) -> None:
        """`size` bytes went back to the device, as a segment or as pages of one."""
        self.bytes -= size
        if segment.pool.owner is not None:
            segment.pool.owner.reserved_bytes -= size
        self._stats.released(segment, size)
        kept = segment.frames if frames is None else frames
        self._recorder.device_memory(action, address, size, segment, kept)
