"""Device memory: a stated capacity, real addresses, CUDA's errors."""

import gc
import signal
import subprocess
import sys

import numpy as np
import pytest

import labkit as lab
from labkit import cuda
from labkit.cuda.emulator.arena import GRANULARITY
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import InvalidValueError, OutOfMemoryError

MIB = 1 << 20


def test_a_device_holds_what_it_states_and_not_a_byte_more(small_device):
    assert small_device.memory_info() == (8 * MIB, 8 * MIB)
    whole = small_device.malloc(8 * MIB)
    with pytest.raises(
        OutOfMemoryError, match=r"cudaErrorMemoryAllocation.*asked for 1 bytes; 0 of"
    ):
        small_device.malloc(1)
    small_device.free(whole)
    assert small_device.memory_info()[0] == 8 * MIB


def test_fragmentation_refuses_what_would_fit_in_sum(small_device):
    pieces = [small_device.malloc(MIB) for _ in range(8)]
    for piece in pieces[::2]:
        small_device.free(piece)
    with pytest.raises(OutOfMemoryError) as refused:
        small_device.malloc(2 * MIB)
    assert (refused.value.free, refused.value.largest) == (4 * MIB, MIB)


def test_freed_neighbours_become_one_range(small_device):
    generator = np.random.default_rng(0)
    held = []
    for _ in range(300):
        if held and generator.random() < 0.5:
            small_device.free(held.pop(int(generator.integers(len(held)))))
        else:
            held.append(small_device.malloc(int(generator.integers(1, 20_000))))
    assert len(set(held)) == len(held)
    for address in held:
        small_device.free(address)
    assert small_device.malloc(8 * MIB) == small_device.arena.base


def test_what_was_freed_is_called_that_until_something_else_is_there(small_device):
    arena = small_device.arena
    first = arena.malloc(4096, guard=512)
    arena.free(first)
    assert arena.freed_at(first + 100) == (first, 4096)
    assert arena.freed_at(first + 4096) is None
    assert arena.malloc(512, guard=512) == first
    assert arena.freed_at(first + 100) is None
    assert arena.freed_at(first + 600) is None  # behind the new one, and its guard


@pytest.mark.parametrize("wrong", [12345, 1, -1])
def test_free_of_a_stranger_is_refused(small_device, wrong):
    with pytest.raises(InvalidValueError, match="not an address that malloc returned"):
        small_device.free(wrong)


def test_double_free_is_refused(small_device):
    address = small_device.malloc(100)
    small_device.free(address)
    with pytest.raises(InvalidValueError):
        small_device.free(address)


def test_bytes_survive_the_way_there_and_back(small_device):
    data = np.random.default_rng(1).integers(0, 256, 10_000, dtype=np.uint8)
    back = np.zeros_like(data)
    address = small_device.malloc(data.nbytes)
    small_device.memcpy(address, data.ctypes.data, data.nbytes)
    small_device.memcpy(back.ctypes.data, address, data.nbytes)
    np.testing.assert_array_equal(back, data)
    small_device.memset(address + 10, 7, 20)
    assert small_device.peek(address + 9, 22) == bytes([data[9]]) + b"\7" * 20 + bytes([data[30]])


def test_a_copy_past_an_allocation_is_refused_before_it_starts(small_device):
    address = small_device.malloc(100)
    host = np.zeros(200, np.uint8)
    with pytest.raises(InvalidValueError, match="leaves allocated memory"):
        small_device.memcpy(address, host.ctypes.data, 101)
    with pytest.raises(InvalidValueError, match="null pointer"):
        small_device.memcpy(0, host.ctypes.data, 1)


def test_one_page_of_memory_is_reachable_at_two_addresses(small_device):
    page = GRANULARITY
    room = small_device.address_reserve(2 * page)
    handle = small_device.memory_create(page)
    small_device.memory_map(room, page, handle)
    small_device.memset(room, 3, page)
    small_device.memory_unmap(room, page)
    small_device.memory_map(room + page, page, handle)
    assert small_device.peek(room + page, 4) == b"\3\3\3\3"
    assert small_device.memory_info()[0] == 8 * MIB - page
    small_device.memory_unmap(room + page, page)
    small_device.memory_release(handle)
    small_device.address_free(room, 2 * page)
    assert small_device.memory_info()[0] == 8 * MIB


def test_virtual_memory_and_malloc_share_the_capacity(small_device):
    small_device.malloc(7 * MIB)
    with pytest.raises(OutOfMemoryError):
        small_device.memory_create(2 * MIB)


def test_wrong_uses_of_virtual_memory_are_named(small_device):
    page = GRANULARITY
    room, handle = small_device.address_reserve(page), small_device.memory_create(page)
    with pytest.raises(InvalidValueError, match="was not reserved"):
        small_device.memory_map(room + page, page, handle)
    small_device.memory_map(room, page, handle)
    with pytest.raises(InvalidValueError, match="still mapped"):
        small_device.memory_release(handle)
    with pytest.raises(InvalidValueError, match="still mapped"):
        small_device.address_free(room, page)
    with pytest.raises(InvalidValueError, match="multiple of"):
        small_device.memory_create(page + 1)


def test_reset_gives_everything_back(small_device):
    small_device.malloc(MIB)
    small_device.memory_create(2 * MIB)
    small_device.reset()
    assert small_device.memory_info() == (8 * MIB, 8 * MIB)


def test_what_was_compiled_before_a_reset_runs_after_it(small_device):
    def four():
        return (lab.ones(2, device="cuda") * 2 + 2).tolist()

    assert four() == [4, 4]
    gc.collect()
    small_device.reset()
    assert four() == [4, 4]


def test_host_code_that_follows_a_device_address_ends():
    """As on a GPU: only the driver's copies reach device memory."""
    program = """
import ctypes
from labkit.cuda.emulator.arena import GRANULARITY
from labkit.cuda.emulator.driver import EmulatorDriver
device = EmulatorDriver(1 << 21)
address = device.malloc(64)
device.memset(address, 7, 64)
assert device.peek(address, 1) == bytes([7])
ctypes.string_at(address, 1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGSEGV, done.stderr


HEAP = r"""
__device__ int* numbers;
extern "C" __global__ void make() { if (threadIdx.x == 0) numbers = new int[32]; }
extern "C" __global__ void use(int* out, int from) {
    numbers[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = numbers[from + threadIdx.x];
}
extern "C" __global__ void end() { if (threadIdx.x == 0) delete[] numbers; }
"""


def test_what_a_thread_allocated_is_known_to_a_later_watched_launch():
    driver = EmulatorDriver(why="tracing")
    try:
        module = cuda.RawModule(HEAP, driver=driver)
        make, use, end = map(module.get_function, ("make", "use", "end"))
        out = np.zeros(32, "i")

        def found(start):
            findings = use(1, 32, (out, start), trace=cuda.Trace(races=False)).findings
            return [finding.message for finding in findings]

        make(1, 1, ())
        assert found(0) == [] and out.tolist() == list(range(32))
        assert found(8) == [
            "thread (24, 0, 0) of block (0, 0, 0) reads bytes 128 to 131 of 128 bytes that a "
            "thread allocated"
        ]
        end(1, 1, ())
        assert all("and that were freed" in message for message in found(0)) and found(0)
        make(1, 1, ())
        assert found(0) == []
    finally:
        driver.worker.stop()
