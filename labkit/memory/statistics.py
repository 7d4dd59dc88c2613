"""The 123 figures of `torch.cuda.memory_stats`, from a few counters per pool.

Counting is most of what an allocator does besides searching, so it is done once per fact. Every
allocation starts as active, and every block that is freed at once stops being both: `allocation`
and `active` share their counters and differ by what is pending. A total over both pools is the sum
of the two. A peak is not passed before as much has been added as was missing to it, so peaks are
compared once that much has been added, not with every request.
"""

from itertools import chain
from typing import ClassVar

PAIRS = {
    "allocation": "allocated_bytes",
    "segment": "reserved_bytes",
    "active": "active_bytes",
    "inactive_split": "inactive_split_bytes",
}
METRICS = (*PAIRS, *PAIRS.values(), "requested_bytes")
"""The order of PyTorch's own listing."""


class Stat:
    """One figure that rises and falls.

    Source   c10/core/CachingDeviceAllocator.h, c10/core/Allocator.h  Stat
    """

    __slots__ = ("allocated", "current", "freed", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def increase(self, amount: int = 1) -> None:
        """More of it; the peak follows."""
        self.current += amount
        self.allocated += amount
        self.peak = max(self.peak, self.current)

    def decrease(self, amount: int = 1) -> None:
        """Less of it."""
        self.current -= amount
        self.freed += amount

    def reset_peak(self) -> None:
        """The peak starts again from the current value."""
        self.peak = self.current

    def reset_accumulated(self) -> None:
        """Nothing has been allocated or freed yet; the current value stays."""
        self.allocated = self.freed = 0

    def flat(self) -> dict[str, int]:
        """The four numbers by their names."""
        return {
            "current": self.current,
            "peak": self.peak,
            "allocated": self.allocated,
            "freed": self.freed,
        }


class StatArray:
    """A figure for each pool and for both together, which has a peak of its own."""

    def __init__(self) -> None:
        self.all, self.small_pool, self.large_pool = Stat(), Stat(), Stat()

    def of(self, is_small: bool) -> tuple[Stat, Stat]:
        """The two figures a pool counts in."""
        return self.all, self.small_pool if is_small else self.large_pool

    def increase(self, is_small: bool, amount: int = 1) -> None:
        """More of it in one pool."""
        for stat in self.of(is_small):
            stat.increase(amount)

    def decrease(self, is_small: bool, amount: int = 1) -> None:
        """Less of it in one pool."""
        for stat in self.of(is_small):
            stat.decrease(amount)

    def flat(self, prefix: str = "") -> dict[str, int]:
        """`all.current` ... `large_pool.freed`, each behind the prefix."""
        return {
            f"{prefix}{pool}.{name}": value
            for pool in ("all", "small_pool", "large_pool")
            for name, value in getattr(self, pool).flat().items()
        }


class Peaks:
    """The highest values of a figure: of all of it, and of the part that is not pending.

    lag   False while nothing was ever pending: then the two are the same, and only the first
          is kept
    """

    __slots__ = ("lag", "peak", "peak_in_use")

    def __init__(self, lag: bool = False) -> None:
        self.peak = self.peak_in_use = 0
        self.lag = lag


class Figure(Peaks):
    """A figure of one pool that changes with every request, counted in as few steps as possible.

    The allocator adds to `up` and `down` itself: a call would cost more than the addition. When
    `up` is higher than `due` afterwards, it calls `take_peaks`.

    up, down   what was added and taken away since the beginning
    pending    of what is left, the part that was given back but is still used by another stream
    due        how far `up` may rise before a peak could be passed
    other      the same figure of the other pool;  both: the peaks of both pools together
    """

    __slots__ = ("before_reset", "both", "down", "due", "other", "pending", "up")

    def __init__(self, both: Peaks) -> None:
        super().__init__()
        self.up = self.down = self.pending = self.due = 0
        self.both = both
        self.other = self
        self.before_reset = (0, 0, 0)

    def take_peaks(self) -> None:
        """Compare with the peaks, and work out when that is due again."""
        other, both = self.other, self.both
        current = self.up - self.down
        room = self.peak - current
        if room < 0:
            self.peak = current
            room = 0
        current += other.up - other.down
        room_of_both = both.peak - current
        if room_of_both < 0:
            both.peak = current
            room_of_both = 0
        if both.lag:
            room = min(room, _take_peak_in_use(self, self.up - self.down - self.pending))
            in_use = current - self.pending - other.pending
            room_of_both = min(room_of_both, _take_peak_in_use(both, in_use))
        # the other pool may use up to half of what is left for both before it looks itself
        others_part = other.due - other.up
        half = room_of_both >> 1
        if others_part > half:
            others_part = half
            other.due = other.up + half
        if others_part > 0:
            room_of_both -= others_part
        self.due = self.up + (room if room < room_of_both else room_of_both)

    def increase(self, amount: int) -> None:
        """More of it, where a call does not matter."""
        self.up += amount
        if self.up > self.due:
            self.take_peaks()

    def became_pending(self, amount: int) -> None:
        """That much was given back and cannot be used again yet; negative when it can."""
        if not self.both.lag:  # from now on the two peaks can differ
            self.take_peaks()
            for peaks in (self, self.other, self.both):
                peaks.lag, peaks.peak_in_use = True, peaks.peak
        self.pending += amount

    def flat(self, pending: bool) -> tuple[int, int, int, int]:
        """(current, peak, allocated, freed); without `pending` that part counts as freed."""
        up, down, was_pending = self.before_reset
        if pending:
            return self.up - self.down, self.peak, self.up - up, self.down - down
        freed = self.down + self.pending - down - was_pending
        peak = self.peak_in_use if self.lag else self.peak
        return self.up - self.down - self.pending, peak, self.up - up, freed

    def reset_peak(self, both: Peaks) -> None:
        """The peaks start again from the current values, once they are taken."""
        self.peak = self.peak_in_use = self.due = 0
        self.both = both

    def reset_accumulated(self) -> None:
        """Nothing has been allocated or freed yet; current values and peaks stay."""
        self.before_reset = (self.up, self.down, self.pending)


def _take_peak_in_use(peaks: Peaks, in_use: int) -> int:
    """Keep a higher value; returns how much is missing to the peak."""
    if in_use > peaks.peak_in_use:
        peaks.peak_in_use = in_use
    return peaks.peak_in_use - in_use


class PoolStatistics:
    """What one of the two pools counts with every request.

    blocks, bytes         `active`; less what is pending, `allocation`
    requested             bytes that were asked for, before rounding: it never rises by more than
                          `bytes`, so one `due` serves both
    splits, split_bytes   free blocks that are not a whole segment: `inactive_split`
    """

    __slots__ = ("blocks", "bytes", "requested", "split_bytes", "splits")

    def __init__(self, both_pools: dict[str, Peaks]) -> None:
        self.blocks, self.bytes = Figure(both_pools["blocks"]), Figure(both_pools["bytes"])
        self.requested = Figure(both_pools["requested"])
        self.splits = Figure(both_pools["splits"])
        self.split_bytes = Figure(both_pools["split_bytes"])

    def take_peaks_of_bytes(self) -> None:
        """Compare `bytes` and `requested` with their peaks; `bytes.due` says when again."""
        self.requested.take_peaks()
        self.bytes.take_peaks()
        for requested, rounded in (
            (self.requested, self.bytes),
            (self.requested.other, self.bytes.other),
        ):
            due = rounded.up + requested.due - requested.up
            if rounded.due > due:
                rounded.due = due


class Statistics:
    """All figures of one device.

    Source   c10/core/CachingDeviceAllocator.h  DeviceStats
    """

    PLAIN = (
        "num_alloc_retries",
        "num_ooms",
        "num_sync_all_streams",
        "num_device_alloc",
        "num_device_free",
        "num_oom_rejections",
    )

    FIGURES: ClassVar[dict[str, tuple[str, bool]]] = {
        "allocation": ("blocks", False),
        "active": ("blocks", True),
        "inactive_split": ("splits", True),
        "allocated_bytes": ("bytes", False),
        "active_bytes": ("bytes", True),
        "inactive_split_bytes": ("split_bytes", True),
        "requested_bytes": ("requested", True),
    }
    """PyTorch's name -> the figure it is read from, and whether pending blocks count."""

    def __init__(self, max_split_size: int) -> None:
        self.max_split_size = max_split_size
        """-1 when there was no limit when the allocator was created; later settings do not show."""
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = self.num_oom_rejections = 0
        self.segment, self.reserved_bytes = StatArray(), StatArray()
        self.oversize_allocations, self.oversize_segments = Stat(), Stat()
        self.reserved_bytes_by_private_pools: dict[tuple[int, int], StatArray] = {}
        both_pools = {name: Peaks() for name in PoolStatistics.__slots__}
        self.small_pool, self.large_pool = PoolStatistics(both_pools), PoolStatistics(both_pools)
        for small, large in self._pairs():
            small.other, large.other = large, small

    def reserved(self, size: int, is_small: bool, pool: tuple[int, int]) -> None:
        """The device handed out `size` more bytes."""
        self.num_device_alloc += 1
        self.reserved_bytes.increase(is_small, size)
        if pool != (0, 0):
            self.reserved_bytes_by_private_pools.setdefault(pool, StatArray()).increase(
                is_small, size
            )

    def released(self, size: int, is_small: bool, pool: tuple[int, int]) -> None:
        """`size` bytes went back to the device."""
        self.num_device_free += 1
        self.reserved_bytes.decrease(is_small, size)
        if pool != (0, 0):
            self.reserved_bytes_by_private_pools[pool].decrease(is_small, size)

    def current(self, metric: str) -> int:
        """The current value of a figure, both pools together."""
        if metric not in self.FIGURES:
            array: StatArray = getattr(self, metric)
            return array.all.current
        name, pending = self.FIGURES[metric]
        pools = (self.small_pool, self.large_pool)
        return sum(getattr(pool, name).flat(pending)[0] for pool in pools)

    def flat(self) -> dict[str, int]:
        """The 123 figures by PyTorch's names."""
        flat = {name: getattr(self, name) for name in self.PLAIN}
        flat["max_split_size"] = self.max_split_size
        self._take_peaks()
        for metric in METRICS:
            if metric in self.FIGURES:
                flat |= self._flat_figure(metric)
            else:
                flat |= getattr(self, metric).flat(f"{metric}.")
        for name in ("oversize_allocations", "oversize_segments"):
            flat |= {f"{name}.{key}": value for key, value in getattr(self, name).flat().items()}
        return flat

    def _flat_figure(self, metric: str) -> dict[str, int]:
        name, pending = self.FIGURES[metric]
        figures: list[Figure] = [getattr(self.small_pool, name), getattr(self.large_pool, name)]
        both = figures[0].both
        peak = both.peak if pending or not both.lag else both.peak_in_use
        small, large = (figure.flat(pending) for figure in figures)
        together = (small[0] + large[0], peak, small[2] + large[2], small[3] + large[3])
        return {
            f"{metric}.{pool}.{part}": value
            for pool, values in (("all", together), ("small_pool", small), ("large_pool", large))
            for part, value in zip(("current", "peak", "allocated", "freed"), values, strict=True)
        }

    def reset_peak(self) -> None:
        """Every peak starts again from the current value."""
        for pair in self._pairs():
            both = Peaks(pair[0].lag)
            for figure in pair:
                figure.reset_peak(both)
        self._take_peaks()
        for stat in self._stats():
            stat.reset_peak()

    def reset_accumulated(self) -> None:
        """Counts of what was allocated and freed start again, and so do the plain counters."""
        for name in self.PLAIN:
            setattr(self, name, 0)
        for figure in chain(*self._pairs()):
            figure.reset_accumulated()
        for stat in self._stats():
            stat.reset_accumulated()

    def _take_peaks(self) -> None:
        for figure in chain(*self._pairs()):
            figure.take_peaks()
        self.small_pool.take_peaks_of_bytes()  # last: what is due depends on two figures

    def _pairs(self) -> list[tuple[Figure, Figure]]:
        """Each figure of the small pool with the one of the large pool."""
        names = PoolStatistics.__slots__
        return [(getattr(self.small_pool, n), getattr(self.large_pool, n)) for n in names]

    def _stats(self) -> list[Stat]:
        private = self.reserved_bytes_by_private_pools.values()
        arrays = [self.segment, self.reserved_bytes, *private]
        in_arrays = [
            stat for array in arrays for stat in (array.all, array.small_pool, array.large_pool)
        ]
        return [*in_arrays, self.oversize_allocations, self.oversize_segments]
