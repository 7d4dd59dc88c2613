"""The documents' code does what it does there, faults included."""

from labkit.course.documents.pipeline_sketches import WILD, MemoryPool
from labkit.memory.device import SimulatedDevice
from labkit.memory.sizes import MIB


def test_only_the_exact_size_is_found_again():
    pool = MemoryPool(SimulatedDevice(64 * MIB))
    first = pool.allocate(1000)
    pool.free(first, 1000)
    assert pool.allocate(1001) != first
    assert pool.allocate(1000) == first
    assert pool.misses == 2


def test_every_miss_and_every_free_waits():
    pool = MemoryPool(SimulatedDevice(64 * MIB))
    for _ in range(3):
        pool.free(pool.allocate(100), 100)
    assert pool.waits == 4


def test_a_full_device_gives_a_wild_pointer_and_looking_leaves_a_key():
    device = SimulatedDevice(4 * MIB)
    pool = MemoryPool(device)
    assert pool.allocate(8 * MIB) == WILD
    assert pool.free_chunks == {8 * MIB: []}


def test_clear_frees_what_came_back_and_nothing_else():
    device = SimulatedDevice(64 * MIB)
    pool = MemoryPool(device)
    kept, gone = pool.allocate(2 * MIB), pool.allocate(4 * MIB)
    pool.free(gone, 4 * MIB)
    pool.clear()
    assert device.memory_info()[0] == 62 * MIB
    device.free(kept)
