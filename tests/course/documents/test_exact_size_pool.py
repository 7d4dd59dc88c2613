"""The document's pool beside the allocator: what it keeps, and when it runs out."""

import random

import pytest

from labkit.course.documents.exact_size_pool import ExactSizePool
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.sizes import GIB, MIB


def test_it_reserves_more_and_runs_out_first():
    """Sizes that vary a little from step to step, as sequence lengths do."""
    chooser = random.Random(0)
    steps = [[chooser.randrange(MIB, 12 * MIB) for _ in range(20)] for _ in range(10)]

    def run(allocator):
        for sizes in steps:
            live = [allocator.malloc(size) for size in sizes]
            for address in live:
                allocator.free(address)

    naive, caching = (
        ExactSizePool(SimulatedDevice(8 * GIB)),
        CachingAllocator(SimulatedDevice(8 * GIB)),
    )
    run(naive)
    run(caching)
    assert naive.hits == 0
    assert naive.peak_reserved_bytes > 4 * caching.memory_stats()["reserved_bytes.all.peak"]
    with pytest.raises(OutOfMemoryError):
        run(ExactSizePool(SimulatedDevice(400 * MIB)))
    run(CachingAllocator(SimulatedDevice(400 * MIB)))


def test_it_reuses_exactly_that_size():
    pool = ExactSizePool(SimulatedDevice(GIB))
    address = pool.malloc(1000)
    pool.free(address)
    assert pool.malloc(999) != address
    assert pool.malloc(1000) == address
    with pytest.raises(ValueError, match="is not an allocated block"):
        pool.free(address + 1)
