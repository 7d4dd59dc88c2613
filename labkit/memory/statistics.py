"""The 123 figures of `torch.cuda.memory_stats`, from a few counters per pool.

Counting is most of what an allocator does besides searching, so it is done once per fact. Every
allocation starts as active, and every block that is freed at once stops being both: `allocation`
and `active` share their counters and differ by what is pending. A total over both pools is the sum
of the two. A peak can only be lost when something falls, so peaks are taken before a fall.
"""

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
    """The highest values seen of the figures that change with every request."""

    __slots__ = (
        "active",
        "active_bytes",
        "allocated_bytes",
        "allocation",
        "inactive_split",
        "inactive_split_bytes",
        "requested_bytes",
    )

    def __init__(self) -> None:
        self.allocation = self.allocated_bytes = self.active = self.active_bytes = 0
        self.requested_bytes = self.inactive_split = self.inactive_split_bytes = 0

    def take(
        self,
        active: int,
        active_bytes: int,
        requested_bytes: int,
        pending: int,
        pending_bytes: int,
    ) -> None:
        """Keep what is higher than before."""
        if active > self.active:
            self.active = active
        if active_bytes > self.active_bytes:
            self.active_bytes = active_bytes
        if active - pending > self.allocation:
            self.allocation = active - pending
        if active_bytes - pending_bytes > self.allocated_bytes:
            self.allocated_bytes = active_bytes - pending_bytes
        if requested_bytes > self.requested_bytes:
            self.requested_bytes = requested_bytes

    def take_splits(self, splits: int, split_bytes: int) -> None:
        """Keep what is higher than before."""
        if splits > self.inactive_split:
            self.inactive_split = splits
        if split_bytes > self.inactive_split_bytes:
            self.inactive_split_bytes = split_bytes


class PoolStatistics:
    """What one of the two pools counts with every request, in as few steps as possible.

    allocated, allocated_bytes, requested_bytes    what requests took, since the beginning
    freed, freed_bytes, freed_requested_bytes      what came back and can be used again
    pending, pending_bytes                         given back, but another stream still works on it
    splits_*                                       free blocks that are not a whole segment
    rising, splits_rising                          True while a peak may be waiting to be taken
    """

    __slots__ = (
        "_before_reset",
        "allocated",
        "allocated_bytes",
        "both_pools",
        "freed",
        "freed_bytes",
        "freed_requested_bytes",
        "other",
        "peaks",
        "pending",
        "pending_bytes",
        "requested_bytes",
        "rising",
        "split_bytes_gone",
        "split_bytes_made",
        "splits_gone",
        "splits_made",
        "splits_rising",
    )

    def __init__(self, both_pools: Peaks) -> None:
        self.peaks = Peaks()
        self.both_pools = both_pools
        self.other = self
        self.allocated = self.allocated_bytes = self.requested_bytes = 0
        self.freed = self.freed_bytes = self.freed_requested_bytes = 0
        self.pending = self.pending_bytes = 0
        self.splits_made = self.split_bytes_made = self.splits_gone = self.split_bytes_gone = 0
        self.rising = self.splits_rising = False
        self._before_reset = self._counted()

    def take_peaks(self) -> None:
        """Compare with the peaks; due before anything but the inactive splits falls."""
        other, both = self.other, self.both_pools
        for pool in (self, other):
            if pool.rising:
                pool.rising = False
                active = pool.allocated - pool.freed
                active_bytes = pool.allocated_bytes - pool.freed_bytes
                requested_bytes = pool.requested_bytes - pool.freed_requested_bytes
                pool.peaks.take(
                    active, active_bytes, requested_bytes, pool.pending, pool.pending_bytes
                )
        both.take(
            self.allocated - self.freed + other.allocated - other.freed,
            self.allocated_bytes - self.freed_bytes + other.allocated_bytes - other.freed_bytes,
            self.requested_bytes
            - self.freed_requested_bytes
            + other.requested_bytes
            - other.freed_requested_bytes,
            self.pending + other.pending,
            self.pending_bytes + other.pending_bytes,
        )

    def take_split_peaks(self) -> None:
        """Compare with the peaks; due before the inactive splits or their bytes fall."""
        self.splits_rising = self.other.splits_rising = False
        splits = split_bytes = 0
        for pool in (self, self.other):
            pool_splits = pool.splits_made - pool.splits_gone
            pool_split_bytes = pool.split_bytes_made - pool.split_bytes_gone
            pool.peaks.take_splits(pool_splits, pool_split_bytes)
            splits += pool_splits
            split_bytes += pool_split_bytes
        self.both_pools.take_splits(splits, split_bytes)

    def free_completed(self, size: int, requested_size: int) -> None:
        """A block that was allocated until now can be used again."""
        if self.rising or self.other.rising:
            self.take_peaks()
        self.freed += 1
        self.freed_bytes += size
        self.freed_requested_bytes += requested_size

    def became_pending(self, size: int) -> None:
        """A block was given back that another stream still works on."""
        if self.rising or self.other.rising:
            self.take_peaks()
        self.pending += 1
        self.pending_bytes += size

    def pending_completed(self, size: int) -> None:
        """The other streams are done; `free_completed` follows."""
        if self.rising or self.other.rising:
            self.take_peaks()
        self.pending -= 1
        self.pending_bytes -= size

    def split_changed(self, blocks: int, size: int) -> None:
        """The number of inactive split blocks and their bytes changed by that much."""
        if (blocks < 0 or size < 0) and (self.splits_rising or self.other.splits_rising):
            self.take_split_peaks()
        if blocks > 0:
            self.splits_made += blocks
        else:
            self.splits_gone -= blocks
        if size > 0:
            self.split_bytes_made += size
        else:
            self.split_bytes_gone -= size
        self.splits_rising = True

    def current(self) -> dict[str, int]:
        """The current value of each figure kept here."""
        active = self.allocated - self.freed
        active_bytes = self.allocated_bytes - self.freed_bytes
        return {
            "allocation": active - self.pending,
            "active": active,
            "inactive_split": self.splits_made - self.splits_gone,
            "allocated_bytes": active_bytes - self.pending_bytes,
            "active_bytes": active_bytes,
            "inactive_split_bytes": self.split_bytes_made - self.split_bytes_gone,
            "requested_bytes": self.requested_bytes - self.freed_requested_bytes,
        }

    def accumulated(self) -> dict[str, tuple[int, int]]:
        """(allocated, freed) of each figure since the last reset."""
        before = self._before_reset
        return {
            metric: (up - before[metric][0], down - before[metric][1])
            for metric, (up, down) in self._counted().items()
        }

    def reset_accumulated(self) -> None:
        """Nothing has been allocated or freed yet; current values and peaks stay."""
        self._before_reset = self._counted()

    def _counted(self) -> dict[str, tuple[int, int]]:
        allocated, allocated_bytes = self.allocated, self.allocated_bytes
        return {
            "allocation": (allocated, self.freed + self.pending),
            "active": (allocated, self.freed),
            "inactive_split": (self.splits_made, self.splits_gone),
            "allocated_bytes": (allocated_bytes, self.freed_bytes + self.pending_bytes),
            "active_bytes": (allocated_bytes, self.freed_bytes),
            "inactive_split_bytes": (self.split_bytes_made, self.split_bytes_gone),
            "requested_bytes": (self.requested_bytes, self.freed_requested_bytes),
        }


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

    def __init__(self, max_split_size: int) -> None:
        self.max_split_size = max_split_size
        """-1 when there was no limit when the allocator was created; later settings do not show."""
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = self.num_oom_rejections = 0
        self.segment, self.reserved_bytes = StatArray(), StatArray()
        self.oversize_allocations, self.oversize_segments = Stat(), Stat()
        self.reserved_bytes_by_private_pools: dict[tuple[int, int], StatArray] = {}
        self._both_pools = Peaks()
        self.small_pool = PoolStatistics(self._both_pools)
        self.large_pool = PoolStatistics(self._both_pools)
        self.small_pool.other, self.large_pool.other = self.large_pool, self.small_pool

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
        if metric in ("segment", "reserved_bytes"):
            array: StatArray = getattr(self, metric)
            return array.all.current
        return self.small_pool.current()[metric] + self.large_pool.current()[metric]

    def flat(self) -> dict[str, int]:
        """The 123 figures by PyTorch's names."""
        self._take_peaks()
        flat = {name: getattr(self, name) for name in self.PLAIN}
        flat["max_split_size"] = self.max_split_size
        small, large = self.small_pool, self.large_pool
        for metric in METRICS:
            if metric in ("segment", "reserved_bytes"):
                flat |= getattr(self, metric).flat(f"{metric}.")
                continue
            rows = {
                "small_pool": (small.current()[metric], small.peaks, *small.accumulated()[metric]),
                "large_pool": (large.current()[metric], large.peaks, *large.accumulated()[metric]),
            }
            both = [a + b for a, b in zip(*(row[::2] for row in rows.values()), strict=True)]
            freed = sum(row[3] for row in rows.values())
            for pool, (current, peaks, up, down) in {
                "all": (both[0], self._both_pools, both[1], freed),
                **rows,
            }.items():
                flat[f"{metric}.{pool}.current"] = current
                flat[f"{metric}.{pool}.peak"] = getattr(peaks, metric)
                flat[f"{metric}.{pool}.allocated"] = up
                flat[f"{metric}.{pool}.freed"] = down
        for name in ("oversize_allocations", "oversize_segments"):
            flat |= {f"{name}.{key}": value for key, value in getattr(self, name).flat().items()}
        return flat

    def reset_peak(self) -> None:
        """Every peak starts again from the current value."""
        self._take_peaks()
        small, large = self.small_pool.current(), self.large_pool.current()
        for metric in small:
            setattr(self.small_pool.peaks, metric, small[metric])
            setattr(self.large_pool.peaks, metric, large[metric])
            setattr(self._both_pools, metric, small[metric] + large[metric])
        for stat in self._stats():
            stat.reset_peak()

    def reset_accumulated(self) -> None:
        """Counts of what was allocated and freed start again, and so do the plain counters."""
        for name in self.PLAIN:
            setattr(self, name, 0)
        self.small_pool.reset_accumulated()
        self.large_pool.reset_accumulated()
        for stat in self._stats():
            stat.reset_accumulated()

    def _take_peaks(self) -> None:
        self.small_pool.take_peaks()
        self.small_pool.take_split_peaks()

    def _stats(self) -> list[Stat]:
        arrays = [
            self.segment,
            self.reserved_bytes,
            *self.reserved_bytes_by_private_pools.values(),
        ]
        in_arrays = [
            stat for array in arrays for stat in (array.all, array.small_pool, array.large_pool)
        ]
        return [*in_arrays, self.oversize_allocations, self.oversize_segments]
