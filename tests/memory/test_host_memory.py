"""Pinned host memory, file mappings, and the pool that is here to be measured."""

import gc
import os
import sys

import pytest

from labkit.core.storage import Storage
from labkit.memory.device import SimulatedDevice
from labkit.memory.host_allocator import CachingHostAllocator
from labkit.memory.sizes import GIB, MIB
from labkit.memory.storages.mapped_file import MappedFile


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


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(range(200)))
    return path


def test_a_private_mapping_leaves_the_file_alone(path):
    with MappedFile(path) as mapping:
        mapping.write(0, b"changed")
        assert mapping.read(0, 7) == b"changed"
    assert path.read_bytes() == bytes(range(200))


def test_a_shared_mapping_is_the_file_and_others_see_it(path):
    with MappedFile(path, shared=True) as one, MappedFile(path, shared=True) as other:
        one.write(10, b"changed")
        assert other.read(10, 7) == b"changed"
    assert path.read_bytes()[10:17] == b"changed"


def test_a_shared_mapping_makes_and_grows_the_file(tmp_path):
    with MappedFile(tmp_path / "new.bin", 1000, shared=True) as mapping:
        assert mapping.read(0, 1000) == bytes(1000)
        mapping.write(0, b"abc")
        mapping.resize(5000)
        assert mapping.read(0, 4) == b"abc\0"
        mapping.write(4997, b"end")
    assert (tmp_path / "new.bin").stat().st_size == 5000


def test_a_storage_on_a_file(path):
    with MappedFile(path, shared=True) as mapping:
        pointer = mapping.data_ptr()
        storage = Storage.from_data_ptr(pointer, mapping.nbytes)
        storage.bytes(writable=True)[:3] = (7, 8, 9)
        for refused in (mapping.close, lambda: mapping.resize(10)):
            with pytest.raises(BufferError):
                refused()
        del storage, pointer
        gc.collect()
    assert path.read_bytes()[:4] == bytes([7, 8, 9, 3])


def test_a_file_that_was_cut_short_is_noticed(path):
    with MappedFile(path) as mapping:
        os.truncate(path, 100)
        with pytest.raises(ValueError, match="truncated to 100 bytes, 200 are mapped"):
            mapping.read(0, 10)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"nbytes": 201}, ValueError, "200 bytes, a private mapping of 201"),
        ({"nbytes": 0}, ValueError, "cannot map 0 bytes"),
        ({"nbytes": -4}, ValueError, "cannot map -4 bytes"),
    ],
)
def test_bad_mappings_are_refused(path, arguments, error, words):
    with pytest.raises(error, match=words):
        MappedFile(path, **arguments)


def test_other_refusals_of_a_mapping(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        MappedFile(tmp_path / "missing.bin")
    with pytest.raises(IsADirectoryError):
        MappedFile(tmp_path, shared=True)
    (tmp_path / "empty.bin").touch()
    with pytest.raises(ValueError, match=r"empty.bin is empty"):
        MappedFile(tmp_path / "empty.bin")
    mapping = MappedFile(path)
    with pytest.raises(ValueError, match="only a shared mapping can resize"):
        mapping.resize(10)
    with pytest.raises(IndexError, match="195 to 205 lie outside the mapping of 200"):
        mapping.read(195, 10)
    mapping.close()
    mapping.close()
    with pytest.raises(ValueError, match="is closed"):
        mapping.read(0, 1)


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="root may write to any file"
)
def test_a_file_without_permission_is_refused(path):
    path.chmod(0o400)
    with pytest.raises(PermissionError):
        MappedFile(path, shared=True)
    assert MappedFile(path).nbytes == 200
