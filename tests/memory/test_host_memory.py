"""Pinned host memory, cached."""

import pytest

from labkit.memory.device import SimulatedDevice
from labkit.memory.host_allocator import CachingHostAllocator
from labkit.memory.sizes import GIB, MIB


@pytest.fixture
def device():
    return SimulatedDevice(GIB)


class HostDriver:
    """Host memory at addresses that mean nothing, and the device's events."""

    def __init__(self, device):
        self.sizes, self.next = {}, 4096
        self.record_event, self.query_event = device.record_event, device.query_event

    def host_malloc(self, size):
        address, self.next = self.next, self.next + size
        self.sizes[address] = size
        return address

    def host_free(self, address):
        del self.sizes[address]


def host(device, settings=""):
    return CachingHostAllocator(HostDriver(device), settings)


@pytest.mark.parametrize(
    ("size", "block"), [(1, 1), (3, 4), (4096, 4096), (4097, 8192), (MIB + 1, 2 * MIB)]
)
def test_pinned_sizes_are_powers_of_two(device, size, block):
    allocator = host(device)
    allocator.allocate(size)
    assert allocator.stats()["active_bytes.current"] == block


def test_a_pinned_block_is_reused_last_in_first_out(device):
    allocator = host(device)
    first, second = allocator.allocate(5000), allocator.allocate(6000)
    allocator.free(first)
    allocator.free(second)
    assert [allocator.allocate(8000), allocator.allocate(8000)] == [second, first]
    assert allocator.stats()["num_host_alloc"] == 2


def test_a_pinned_block_waits_for_every_stream_that_used_it(device):
    allocator = host(device)
    address = allocator.allocate(100)
    assert allocator.record_event(address, 1)
    assert allocator.record_event(address, 2)
    allocator.free(address)
    device.complete(2)
    assert allocator.allocate(100) != address
    device.complete(1)
    assert allocator.allocate(100) == address


def test_a_slow_stream_hides_a_fast_one(device):
    allocator = host(device)
    slow, fast = allocator.allocate(100), allocator.allocate(100)
    allocator.record_event(slow, 1)
    allocator.record_event(fast, 2)
    allocator.free(slow)
    allocator.free(fast)
    device.complete(2)
    assert allocator.allocate(100) not in (slow, fast)


def test_thresholds_of_the_settings(device):
    allocator = host(device, "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:4")
    assert allocator.round_size(MIB) == MIB
    assert allocator.round_size(MIB + 5) == MIB + 5
    small, large = allocator.allocate(3 * MIB), allocator.allocate(5 * MIB)
    allocator.free(small)
    allocator.free(large)
    stats = allocator.stats()
    assert (stats["allocations.current"], stats["num_host_free"]) == (1, 1)
    assert allocator.allocate(3 * MIB + 512) != small, "the cached block is too small"
    assert allocator.allocate(2 * MIB + 512) == small


def test_emptying_the_pinned_cache(device):
    allocator = host(device)
    held, freed = allocator.allocate(100), allocator.allocate(5000)
    allocator.free(freed)
    allocator.empty_cache()
    assert allocator.stats()["allocated_bytes.current"] == 128
    allocator.free(held)
    allocator.empty_cache()
    assert allocator.stats()["allocated_bytes.current"] == 0


def test_misused_pinned_memory_is_refused(device):
    allocator = host(device)
    address = allocator.allocate(100)
    allocator.free(address)
    assert not allocator.record_event(12345, 1)
    for call in (allocator.free, lambda a: allocator.record_event(a, 1)):
        with pytest.raises(ValueError, match=hex(address)):
            call(address)
    with pytest.raises(ValueError, match="-5"):
        allocator.allocate(-5)
