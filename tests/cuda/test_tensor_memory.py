"""labkit storages on "cuda", and the driver as the caching allocator sees it."""

import numpy as np
import pytest

from labkit.core import allocator
from labkit.core.device import Device
from labkit.cuda.memory_calls import MemoryCalls

CPU, CUDA = Device("cpu"), Device("cuda", 0)


def test_storages_come_from_the_driver_and_go_back(small_device):
    held = allocator.get_allocator("cuda").allocate(1000)
    assert held.device == CUDA
    assert small_device.is_device_address(held.address)
    assert small_device.memory_info()[0] < small_device.memory_info()[1]
    held.clear()
    assert small_device.memory_info()[0] == small_device.memory_info()[1]


def test_bytes_travel_between_host_and_device(small_device):
    data = np.random.default_rng(0).random(100)
    back = np.zeros_like(data)
    source, target = (allocator.get_allocator("cuda").allocate(data.nbytes) for _ in "ab")
    allocator.copy_bytes(source.address, CUDA, data.ctypes.data, CPU, data.nbytes)
    allocator.copy_bytes(target.address, CUDA, source.address, CUDA, data.nbytes)
    allocator.copy_bytes(back.ctypes.data, CPU, target.address, CUDA, data.nbytes)
    np.testing.assert_array_equal(back, data)


def test_memory_outlives_a_reset_without_a_fuss(small_device):
    held = allocator.get_allocator("cuda").allocate(1000)
    small_device.reset()
    held.clear()
    assert small_device.memory_info()[0] == small_device.memory_info()[1]


def test_running_out_is_an_answer_for_the_caching_allocator(small_device):
    calls = MemoryCalls(small_device)
    free, total = calls.memory_info()
    assert calls.malloc(total + 1) is None
    address = calls.malloc(free)
    assert calls.malloc(1) is None
    assert calls.create_page(2 << 20) is None
    calls.free(address)
    page, room = calls.create_page(2 << 20), calls.reserve(4 << 20)
    calls.map_page(room, 2 << 20, page)
    calls.unmap_page(room, 2 << 20)
    calls.release_page(page)
    calls.unreserve(room, 4 << 20)
    assert calls.memory_info() == (free, total)


def test_events_complete_when_their_stream_has_run(small_device):
    calls = MemoryCalls(small_device)
    address = calls.malloc(64)
    small_device.memset_async(address, 1, 64, 0)
    event = calls.record_event(0)
    assert not calls.query_event(event)
    calls.synchronize_event(event)
    assert calls.query_event(event)
    assert calls.stream_id(0) == 0


@pytest.mark.parametrize("handles", [50])
def test_events_leave_nothing_behind(small_device, handles):
    calls = MemoryCalls(small_device)
    for _ in range(handles):
        calls.synchronize_event(calls.record_event(0))
    assert not small_device._events
