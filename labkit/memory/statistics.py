"""The 123 figures of `torch.cuda.memory_stats`.

Every request changes a dozen of them, so two things are not counted but worked out when somebody
asks: what was freed, and the sums over both pools. Only the peak of a sum has to be watched.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from labkit.memory.block import Block, BlockPool, Segment
from labkit.memory.history import MempoolId
from labkit.memory.settings import UNLIMITED


class Stat:
    """One figure that rises and falls.

    freed   since the last reset: what was there, plus what came, less what is left

    Source   c10/core/Allocator.h  Stat
    """

    __slots__ = ("allocated", "at_reset", "current", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.at_reset = 0

    @property
    def freed(self) -> int:
        """All that was taken away since the last reset."""
        return self.at_reset + self.allocated - self.current

    def change(self, amount: int) -> None:
        """So much more of it, and the peak follows; less of it when negative."""
        self.current += amount
        if amount > 0:
            self.allocated += amount
            self.peak = max(self.peak, self.current)

    def reset_peak(self) -> None:
        """The peak starts again from the current value."""
        self.peak = self.current

    def reset_accumulated(self) -> None:
        """Nothing has been allocated or freed yet; the current value stays."""
        self.allocated = 0
        self.at_reset = self.current

    def flat(self, prefix: str = "") -> dict[str, int]:
        """The four numbers by their names, each behind the prefix."""
        return {
            f"{prefix}current": self.current,
            f"{prefix}peak": self.peak,
            f"{prefix}allocated": self.allocated,
            f"{prefix}freed": self.freed,
        }


class PoolStat(Stat):
    """A figure of the small or of the large pools, a part of `array`."""

    __slots__ = ("array",)

    def __init__(self, array: "StatArray") -> None:
        super().__init__()
        self.array = array

    def change(self, amount: int) -> None:
        """As of any figure; the peak of both pools together follows too."""
        super().change(amount)
        self.array.peak = max(self.array.peak, self.array.current)


class StatArray:
    """A figure of the small pools and of the large ones, and the peak of their sum.

    Source   c10/core/Allocator.h  StatArray
    """

    def __init__(self) -> None:
        self.small_pool, self.large_pool = PoolStat(self), PoolStat(self)
        self.peak = 0

    def of(self, pool: BlockPool) -> PoolStat:
        """The part that this pool counts in."""
        return self.small_pool if pool.is_small else self.large_pool

    @property
    def current(self) -> int:
        """Of both pools."""
        return self.small_pool.current + self.large_pool.current

    def reset_peak(self) -> None:
        """The peaks start again from the current values."""
        self.small_pool.reset_peak()
        self.large_pool.reset_peak()
        self.peak = self.current

    def reset_accumulated(self) -> None:
        """Nothing has been allocated or freed yet."""
        self.small_pool.reset_accumulated()
        self.large_pool.reset_accumulated()

    def flat(self, prefix: str = "") -> dict[str, int]:
        """`all.current` ... `large_pool.freed`, each behind the prefix."""
        small, large = self.small_pool.flat(), self.large_pool.flat()
        both = {name: small[name] + large[name] for name in small} | {"peak": self.peak}
        pools = {"all": both, "small_pool": small, "large_pool": large}
        return {
            f"{prefix}{pool}.{name}": value
            for pool, figures in pools.items()
            for name, value in figures.items()
        }


@dataclass(slots=True)
class PoolStats:
    """The figures of the small pools or of the large ones, in PyTorch's order.

    active          allocated or pending
    inactive_split  free blocks that are not a whole segment; those of expandable segments do not
                    count, because free pages can always go back
    """

    allocation: Stat
    segment: Stat
    active: Stat
    inactive_split: Stat
    allocated_bytes: Stat
    reserved_bytes: Stat
    active_bytes: Stat
    inactive_split_bytes: Stat
    requested_bytes: Stat


METRICS = tuple(metric.name for metric in fields(PoolStats))

PLAIN = (
    "num_alloc_retries",
    "num_ooms",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
    "num_oom_rejections",
)
"""The figures that only count."""


class DeviceStats:
    """All figures of one device.

    max_split_size  as it was when the allocator was made; later settings do not show
    oversize        bytes from which on blocks and segments are counted apart; later settings count

    Source   c10/core/CachingDeviceAllocator.h  DeviceStats
    """

    def __init__(self, max_split_size: int) -> None:
        self.max_split_size = -1 if max_split_size == UNLIMITED else max_split_size
        self.oversize = max_split_size
        self.arrays = {metric: StatArray() for metric in METRICS}
        self._small = PoolStats(*(array.small_pool for array in self.arrays.values()))
        self._large = PoolStats(*(array.large_pool for array in self.arrays.values()))
        self.oversize_allocations, self.oversize_segments = Stat(), Stat()
        self.reserved_bytes_by_private_pools: dict[MempoolId, StatArray] = {}
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = self.num_oom_rejections = 0

    def allocated(self, block: Block) -> None:
        """The block is a caller's."""
        stats = self._of(block.segment.pool)
        stats.allocation.change(1)
        stats.allocated_bytes.change(block.size)
        stats.active.change(1)
        stats.active_bytes.change(block.size)
        stats.requested_bytes.change(block.requested_size)
        if block.size >= self.oversize:
            self.oversize_allocations.change(1)

    def freed(self, block: Block) -> None:
        """The caller gave the block back; other streams may still use it."""
        stats = self._of(block.segment.pool)
        stats.allocation.change(-1)
        stats.allocated_bytes.change(-block.size)
        if block.size >= self.oversize:
            self.oversize_allocations.change(-1)

    def became_inactive(self, block: Block) -> None:
        """Nobody uses the block any more."""
        stats = self._of(block.segment.pool)
        stats.active.change(-1)
        stats.active_bytes.change(-block.size)
        stats.requested_bytes.change(-block.requested_size)

    def change_inactive_split(self, segment: Segment, blocks: int, size: int) -> None:
        """So many more free blocks and bytes of the segment are split; fewer when negative."""
        if segment.expandable is None:
            stats = self._of(segment.pool)
            stats.inactive_split.change(blocks)
            stats.inactive_split_bytes.change(size)

    def reserved(self, segment: Segment, size: int) -> None:
        """The device gave `size` bytes, as this segment or as pages of it."""
        self.num_device_alloc += 1
        self._change_reserved(segment, 1, size)

    def released(self, segment: Segment, size: int) -> None:
        """`size` bytes went back to the device, this segment or pages of it."""
        self.num_device_free += 1
        self._change_reserved(segment, -1, -size)

    def _change_reserved(self, segment: Segment, segments: int, size: int) -> None:
        for array in self._reserved_bytes(segment.pool):
            array.of(segment.pool).change(size)
        if segment.expandable is None:
            self._of(segment.pool).segment.change(segments)
            if abs(size) >= self.oversize:
                self.oversize_segments.change(segments)

    def _of(self, pool: BlockPool) -> PoolStats:
        return self._small if pool.is_small else self._large

    def _reserved_bytes(self, pool: BlockPool) -> list[StatArray]:
        """Where reserved bytes of the pool count: those of a private pool on their own as well."""
        arrays = [self.arrays["reserved_bytes"]]
        if pool.owner is not None:
            arrays.append(self.reserved_bytes_by_private_pools.setdefault(pool.id, StatArray()))
        return arrays

    def flat(self) -> dict[str, int]:
        """The 123 figures by PyTorch's names."""
        flat = {name: getattr(self, name) for name in (*PLAIN, "max_split_size")}
        for metric, array in self.arrays.items():
            flat |= array.flat(f"{metric}.")
        flat |= self.oversize_allocations.flat("oversize_allocations.")
        return flat | self.oversize_segments.flat("oversize_segments.")

    def reset_peak(self) -> None:
        """Every peak starts again from the current value."""
        for stat in self._all():
            stat.reset_peak()

    def reset_accumulated(self) -> None:
        """Counts of what was allocated and freed start again, and so do the plain counters."""
        for name in PLAIN:
            setattr(self, name, 0)
        for stat in self._all():
            stat.reset_accumulated()

    def _all(self) -> Iterator[Stat | StatArray]:
        yield from self.arrays.values()
        yield from self.reserved_bytes_by_private_pools.values()
        yield from (self.oversize_allocations, self.oversize_segments)
