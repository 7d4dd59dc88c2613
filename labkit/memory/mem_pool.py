"""A private pool as an object, for a `with` statement."""

from labkit.memory.caching_allocator import CachingAllocator


class MemPool:
    """A private pool as an object; inside `with pool:` every request goes to it.

    Source   torch/cuda/memory.py  MemPool, use_mem_pool
    Differs  PyTorch drops the pool with the last reference to the object, this one with `drop`:
             the garbage collector may run in the middle of an allocation.
    """

    def __init__(
        self, allocator: CachingAllocator, *, no_split: bool = False, use_on_oom: bool = False
    ) -> None:
        self._allocator = allocator
        self.id = allocator.private_pools.create(no_split=no_split, use_on_oom=use_on_oom)
        self._dropped = False

    def drop(self) -> None:
        """Nobody holds the pool any more: it lends nothing, its unused memory goes back at once."""
        if not self._dropped:
            self._dropped = True
            self._allocator.private_pools.lend_no_more(self.id)
            self._allocator.private_pools.release(self.id)
            self._allocator.empty_cache(self.id)

    def __enter__(self) -> "MemPool":
        self._allocator.private_pools.begin(self.id)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._allocator.private_pools.end(self.id)
        self._allocator.private_pools.release(self.id)
