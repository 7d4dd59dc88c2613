"""Pools of their own: for graphs, whose addresses must stay, and for `MemPool`."""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from labkit.memory.block import BlockPool, MempoolId
from labkit.memory.robin_hood import RobinHoodTable
from labkit.memory.settings import AllocatorSettings

if TYPE_CHECKING:
    from labkit.memory.caching_allocator import CachingAllocator
    from labkit.memory.statistics import Statistics

StreamFilter = Callable[[int], bool]


class PrivatePool:
    """A small and a large pool that share nothing with the default ones.

    use_count       graphs and objects that still hold the pool
    segment_count   times the device was asked on its behalf and has not got back
    no_split        requests take whole segments
    use_on_oom      default requests may take its free blocks when the device is full

    Source   c10/cuda/CUDACachingAllocator.cpp  PrivatePool
    """

    def __init__(
        self,
        mempool_id: MempoolId,
        statistics: "Statistics | None",
        *,
        no_split: bool = False,
        use_on_oom: bool = False,
    ) -> None:
        self.id = mempool_id
        self.use_count = 1
        self.segment_count = 0
        self.no_split = no_split
        self.use_on_oom = use_on_oom
        self.small = BlockPool(True, statistics.small_pool if statistics else None, self)
        self.large = BlockPool(False, statistics.large_pool if statistics else None, self)

    def use(self, settings: AllocatorSettings) -> None:
        """Split as the settings say."""
        self.small.use(settings)
        self.large.use(settings)


@dataclass(frozen=True)
class ActivePool:
    """A pool that serves the requests of the streams its filter accepts."""

    pool: PrivatePool
    accepts: StreamFilter
    is_capture: bool


class PrivatePools:
    """All private pools of one device, and which of them serve requests now.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::graph_pools,
             graph_pools_freeable, captures_underway
    """

    def __init__(self, statistics: "Statistics | None", settings: AllocatorSettings) -> None:
        self._statistics = statistics
        self._settings = settings
        self._pools: dict[MempoolId, PrivatePool] = {}
        self._freeable: RobinHoodTable[PrivatePool] = RobinHoodTable()
        self.active: list[ActivePool] = []

    def __getitem__(self, mempool_id: MempoolId) -> PrivatePool:
        if mempool_id not in self._pools:
            raise ValueError(
                f"there is no private pool {mempool_id}; known are {sorted(self._pools)}"
            )
        return self._pools[mempool_id]

    def __contains__(self, mempool_id: MempoolId) -> bool:
        return mempool_id in self._pools

    @property
    def capturing(self) -> bool:
        """True while a graph is captured into one of the pools."""
        return any(active.is_capture for active in self.active)

    def hold(
        self, mempool_id: MempoolId, *, no_split: bool = False, use_on_oom: bool = False
    ) -> PrivatePool:
        """The pool, created if it is new, with one more holder."""
        pool = self._pools.get(mempool_id)
        if pool is None:
            pool = self._pools[mempool_id] = PrivatePool(
                mempool_id, self._statistics, no_split=no_split, use_on_oom=use_on_oom
            )
            pool.use(self._settings)
        else:
            pool.use_count += 1
            place = self._freeable.find(_mempool_key(mempool_id))
            if place is not None:  # held again before its memory went back
                self._freeable.erase(place)
        return pool

    def release(self, mempool_id: MempoolId) -> None:
        """One holder less; with the last one the pool's unused memory may go back."""
        pool = self[mempool_id]
        if pool.use_count == 0:
            raise ValueError(f"private pool {mempool_id} is not held by anyone")
        pool.use_count -= 1
        if pool.use_count == 0:
            self._freeable.insert(_mempool_key(mempool_id), pool)

    def begin(self, mempool_id: MempoolId, accepts: StreamFilter, is_capture: bool) -> None:
        """Requests of the accepted streams go to the pool, which is held meanwhile."""
        if any(active.pool.id == mempool_id for active in self.active):
            raise ValueError(f"requests already go to the private pool {mempool_id}")
        self.active.append(ActivePool(self.hold(mempool_id), accepts, is_capture))

    def end(self, mempool_id: MempoolId) -> None:
        """Requests no longer go to the pool; its holder remains."""
        for index, active in enumerate(self.active):
            if active.pool.id == mempool_id:
                del self.active[index]
                return
        raise ValueError(f"no requests go to the private pool {mempool_id}")

    def serving(self, stream: int) -> PrivatePool | None:
        """The innermost active pool that accepts the stream."""
        for active in reversed(self.active):
            if active.accepts(stream):
                return active.pool
        return None

    def use(self, settings: AllocatorSettings) -> None:
        """All pools, also those still to come, split as the settings say."""
        self._settings = settings
        for pool in self._pools.values():
            pool.use(settings)

    def free_bytes(self) -> int:
        """Bytes of all free blocks of all private pools."""
        return sum(
            block.size
            for pool in self._pools.values()
            for block_pool in (pool.small, pool.large)
            for block in block_pool.free_blocks()
        )

    def usable_on_oom(self) -> list[PrivatePool]:
        """The pools that lend their free blocks when the device is full."""
        return [pool for pool in self._pools.values() if pool.use_on_oom]

    def visit_freeable(
        self, release: Callable[[PrivatePool], None], only: MempoolId | None = None
    ) -> None:
        """Release what nobody holds, in PyTorch's table order; empty pools disappear."""
        place = self._freeable.next_place()
        while place is not None:
            pool = self._freeable[place]
            if only is None or pool.id == only:
                release(pool)
                if pool.segment_count == 0:
                    del self._pools[pool.id]
                    self._freeable.erase(place)
                    place = self._freeable.next_place(place)
                    continue
            place = self._freeable.next_place(place + 1)


class MemPool:
    """A private pool as an object; inside `with pool:` every request goes to it.

    Source   torch/cuda/memory.py  MemPool, use_mem_pool
    Differs  PyTorch drops the pool with the last reference to the object, this one with `drop`:
             the garbage collector may run in the middle of an allocation.
    """

    def __init__(
        self, allocator: "CachingAllocator", *, no_split: bool = False, use_on_oom: bool = False
    ) -> None:
        self._allocator = allocator
        self.id = allocator.create_pool(no_split=no_split, use_on_oom=use_on_oom)
        self._dropped = False

    def drop(self) -> None:
        """Nobody holds the pool any more; its unused memory goes back at once."""
        if not self._dropped:
            self._dropped = True
            self._allocator.release_pool(self.id)
            self._allocator.empty_cache(self.id)

    def __enter__(self) -> "MemPool":
        self._allocator.begin_allocate_to_pool(self.id)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._allocator.end_allocate_to_pool(self.id)
        self._allocator.release_pool(self.id)


def _mempool_key(mempool_id: MempoolId) -> int:
    """Source   c10/core/CachingDeviceAllocator.h  c10::MempoolIdHash."""
    return mempool_id[0] or mempool_id[1]
