"""The pools of their own that graphs and `MemPool` have, and which of them serve requests now."""

from collections.abc import Callable
from dataclasses import dataclass

from labkit.memory.block import PrivatePool
from labkit.memory.history import MempoolId
from labkit.memory.robin_hood import RobinHoodTable

StreamFilter = Callable[[int], bool]


@dataclass(frozen=True)
class ActivePool:
    """A pool that serves the requests of the streams its filter accepts."""

    pool: PrivatePool
    accepts: StreamFilter
    is_capture: bool


class PrivatePools:
    """All private pools of one device, and which of them serve requests now.

    Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::graph_pools,
             graph_pools_freeable, use_on_oom_pools, captures_underway
    """

    def __init__(self) -> None:
        self._pools: dict[MempoolId, PrivatePool] = {}
        self._freeable: RobinHoodTable[PrivatePool] = RobinHoodTable()
        self._use_on_oom: RobinHoodTable[PrivatePool] = RobinHoodTable()
        self._created = 0
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

    def create(self, *, no_split: bool = False, use_on_oom: bool = False) -> MempoolId:
        """The id of a new pool with one holder, as `MemPool` makes it."""
        pool = self.hold(self.new_id(), no_split=no_split)
        if use_on_oom:
            self._use_on_oom.insert(_mempool_key(pool.id), pool)
        return pool.id

    def new_id(self) -> MempoolId:
        """The id of a pool that there is once somebody holds it.

        Source   aten/src/ATen/cuda/MemPool.h  MemPool::graph_pool_handle
        """
        self._created += 1
        return (0, self._created)

    def hold(self, mempool_id: MempoolId, *, no_split: bool = False) -> PrivatePool:
        """The pool, created if it is new, with one more holder."""
        pool = self._pools.get(mempool_id)
        if pool is None:
            pool = self._pools[mempool_id] = PrivatePool(mempool_id, no_split=no_split)
        else:
            pool.use_count += 1
            _discard(self._freeable, mempool_id)  # held again before its memory went back
        return pool

    def release(self, mempool_id: MempoolId) -> None:
        """One holder less; with the last one the pool's unused memory may go back."""
        pool = self[mempool_id]
        if pool.use_count == 0:
            raise ValueError(f"private pool {mempool_id} is not held by anyone")
        pool.use_count -= 1
        if pool.use_count == 0:
            self._freeable.insert(_mempool_key(mempool_id), pool)

    def begin(
        self,
        mempool_id: MempoolId,
        accepts: StreamFilter = lambda stream: True,
        *,
        capture: bool = False,
    ) -> None:
        """Requests of the accepted streams go to the pool, which gets one more holder.

        capture  a graph is being captured: no event is asked, and the cache is not emptied

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::beginAllocateToPool
        """
        if any(active.pool.id == mempool_id for active in self.active):
            raise ValueError(f"requests already go to the private pool {mempool_id}")
        self.active.append(ActivePool(self.hold(mempool_id), accepts, capture))

    def end(self, mempool_id: MempoolId) -> None:
        """Requests go where they went before; whoever began must still `release` the pool."""
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

    def free_bytes(self) -> int:
        """Bytes of all free blocks of all private pools."""
        return sum(
            block.size
            for pool in self._pools.values()
            for block_pool in (pool.small_blocks, pool.large_blocks)
            for block in block_pool.free_blocks()
        )

    def usable_on_oom(self) -> list[PrivatePool]:
        """The pools that lend their free blocks when the device is full, in table order."""
        return list(self._use_on_oom.values())

    def lend_no_more(self, mempool_id: MempoolId) -> None:
        """The pool lends nothing from now on.

        Source   c10/cuda/CUDACachingAllocator.cpp  DeviceCachingAllocator::setUseOnOOM
        """
        _discard(self._use_on_oom, mempool_id)

    def visit_freeable(
        self, release: Callable[[PrivatePool], None], only: MempoolId | None = None
    ) -> None:
        """Release what nobody holds, in PyTorch's table order; empty pools disappear."""
        place = self._freeable.next_place()
        while place is not None:
            pool = self._freeable[place]
            if only is None or pool.id == only:
                release(pool)
                if pool.reserved_bytes == 0:
                    del self._pools[pool.id]
                    self._freeable.erase(place)
                    place = self._freeable.next_place(place)
                    continue
            place = self._freeable.next_place(place + 1)


def _discard(table: RobinHoodTable[PrivatePool], mempool_id: MempoolId) -> None:
    place = table.find(_mempool_key(mempool_id))
    if place is not None:
        table.erase(place)


def _mempool_key(mempool_id: MempoolId) -> int:
    """Source   c10/core/Allocator.h  c10::MempoolIdHash."""
    return mempool_id[0] or mempool_id[1]
