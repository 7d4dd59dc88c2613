"""Storages on the caching allocator: current stream, late frees, threads, and the emulator."""

import gc
import itertools
import sys
import threading
import weakref
from pathlib import Path

import pytest

import labkit.nn
from labkit.core.device import Device
from labkit.core.storage import Storage
from labkit.cuda import use
from labkit.cuda.emulator.arena import Arena
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.stream import Stream, current_stream
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.sizes import GIB, MIB
from labkit.memory.storages import cuda_storages
from labkit.memory.storages.storage_allocator import StorageAllocator
from tests.memory import invariants

CUDA = Device("cuda", 0)


def test_memory_comes_back_with_the_last_reference():
    storages = StorageAllocator(CachingAllocator(SimulatedDevice(GIB)), current_stream=lambda: 3)
    pointer = storages.allocate(1000)
    assert storages.allocator.live_blocks()[0].segment.stream == 3
    del pointer
    assert storages.allocator.live_blocks() == []


def test_a_free_in_the_middle_of_a_request_waits():
    """As the garbage collector causes it: a tensor dies while another one is being made."""
    allocator = CachingAllocator(SimulatedDevice(GIB))
    storages = StorageAllocator(allocator)
    doomed = [storages.allocate(5 * MIB)]
    seen = []

    def collector_runs():
        doomed.clear()
        seen.append(len(allocator.live_blocks()))
        return False

    allocator.free_memory_callbacks.append(collector_runs)
    kept = storages.allocate(30 * MIB)
    assert seen == [1], "the block was still allocated while the request was served"
    assert [block.address for block in allocator.live_blocks()] == [kept.address]
    invariants.check(allocator)


def test_a_failed_request_still_frees_what_died_meanwhile():
    allocator = CachingAllocator(SimulatedDevice(32 * MIB))
    storages = StorageAllocator(allocator)
    doomed = [storages.allocate(20 * MIB)]
    allocator.free_memory_callbacks.append(lambda: doomed.clear() or False)
    with pytest.raises(OutOfMemoryError):
        storages.allocate(20 * MIB)
    assert allocator.live_blocks() == []
    assert storages.allocate(20 * MIB).address


def test_threads_do_not_disturb_each_other():
    allocator = CachingAllocator(SimulatedDevice(GIB))
    storages = StorageAllocator(allocator)

    def work(seed):
        held = []
        for step in range(300):
            held.append(storages.allocate(512 * (1 + (seed * 7 + step * 13) % 400)))
            if step % 3:
                held.pop(0)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allocator.live_blocks() == []
    invariants.check(allocator)


def test_record_stream_defers_the_reuse():
    device = SimulatedDevice(GIB)
    storages = StorageAllocator(CachingAllocator(device))
    pointer = storages.allocate(1000)
    address = pointer.address
    storages.record_stream(pointer, 8)
    del pointer
    assert storages.allocate(1000).address != address
    device.complete(8)
    assert storages.allocate(1000).address == address


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_storages_of_the_emulator_come_from_the_cache(settings):
    with use(EmulatorDriver(256 * MIB)):
        storages = cuda_storages.install(settings)
        try:
            first = Storage.allocate(3 * MIB, CUDA)
            address = first.data_ptr()
            del first
            assert Storage.allocate(3 * MIB, CUDA).data_ptr() == address
            assert storages.allocator.memory_stats()["num_device_alloc"] == 1
            with pytest.raises(OutOfMemoryError):
                storages.allocate(GIB)
            storages.current.empty_cache()
            assert storages.allocator.reserved_bytes == 0
        finally:
            cuda_storages.uninstall()


def test_drivers_made_in_a_loop_are_let_go():
    """Each takes 64 GiB of address space: whoever kept them would soon find none."""
    storages = cuda_storages.install()
    alive = []
    try:
        for _ in range(40):
            driver = EmulatorDriver(MIB)
            alive.append(weakref.ref(driver))
            with use(driver):
                with Stream():
                    kept = Storage.allocate(4096, CUDA)
                assert current_stream().handle == 0
                del kept
            del driver
    finally:
        cuda_storages.uninstall()
    gc.collect()
    assert storages and sum(each() is not None for each in alive) == 0


def test_two_hundred_drivers_live_at_once():
    arenas = [Arena(MIB) for _ in range(200)]
    starts = sorted(arena.base for arena in arenas)
    assert all(b - a >= arenas[0].reserved for a, b in itertools.pairwise(starts))
    for arena in arenas:
        arena.close()
        arena.close()  # a second time is fine


def test_the_stack_of_a_tensors_memory_begins_at_the_callers_line():
    """Through the factory, an operator, a layer, and the backward pass of generated code."""
    driver = EmulatorDriver(64 * MIB)
    with use(driver):
        storages = cuda_storages.install()
        try:
            layer = labkit.nn.Linear(8, 4).to("cuda")
            storages.allocator.record_memory_history()
            x = labkit.ones(2, 8, device="cuda")
            product = x * x
            loss = layer(x).sum()
            loss.backward()
            entries = [e for e in storages.allocator.history.since() if e.action == "alloc"]
        finally:
            cuda_storages.uninstall()
    assert len(entries) >= 4 and product is not None
    folders = {Path(name).parts[-2] for entry in entries for _, name, _ in entry.frames[:1]}
    assert folders <= {"memory", "nn"}, "the test's own folder, or a layer"
    for entry in entries:
        assert any(name == __file__ for _, name, _ in entry.frames)
    assert entries[0].frames[0][:2] == (sys._getframe().f_code.co_name, __file__)
