"""An out-of-memory error explained: what was idle, and why it could not help."""

import pytest

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.mem_pool import MemPool
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.sizes import MIB
from labkit.memory.snapshots.explain_oom import explain_oom
from labkit.memory.snapshots.snapshot import load
from tests.memory.mutation import FIXTURES


def run_out(allocator, size, stream=0):
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(size, stream)
    return explain_oom(allocator.snapshot())


def recorded(total, settings="", fraction=None):
    allocator = CachingAllocator(SimulatedDevice(total), settings, fraction)
    allocator.record_memory_history("all", None)
    return allocator


def test_the_recorded_fragmentation():
    report = explain_oom(load(FIXTURES / "snapshots" / "infer_growing.pickle.gz"))
    small = next(group for group in report.not_usable if group.reason == "too_small")
    assert (report.wanted, small.bytes, small.largest) == (13074432, 67010560, 12582912)
    assert "63.91 MiB in 13 pieces are too small: the largest piece has 12.00 MiB." in str(report)
    assert "Fragmentation" in report.sentences[-1]
    assert sum(group.bytes for group in report.not_usable) == report.reserved - report.live


def test_capacity():
    allocator = recorded(64 * MIB)
    allocator.malloc(50 * MIB)
    assert "Capacity: even together, 14.00 MiB" in str(run_out(allocator, 40 * MIB))


def test_another_stream():
    allocator = recorded(64 * MIB)
    kept, freed = allocator.malloc(2 * MIB, 5), allocator.malloc(17 * MIB, 5)
    held = allocator.malloc(42 * MIB)
    allocator.free(freed)
    report = run_out(allocator, 5 * MIB)
    assert report.not_usable[0].reason == "other_stream"
    assert "Streams" in report.sentences[-1]
    assert kept
    assert held


def test_a_private_pool():
    allocator = recorded(64 * MIB)
    with MemPool(allocator):
        allocator.free(allocator.malloc(40 * MIB))
    report = run_out(allocator, 30 * MIB)
    assert [group.reason for group in report.not_usable] == ["private_pool"]
    assert "Pools" in report.sentences[-1]


def test_a_fraction():
    allocator = recorded(100 * MIB, fraction=0.3)
    assert "a memory fraction refused" in run_out(allocator, 40 * MIB).sentences[-1]


def test_what_happened_afterwards_is_undone():
    allocator = recorded(64 * MIB)
    held = allocator.malloc(50 * MIB)
    before = run_out(allocator, 40 * MIB)
    allocator.free(held)
    allocator.empty_cache()
    after = explain_oom(allocator.snapshot())
    assert (after.live, after.reserved) == (before.live, before.reserved) == (50 * MIB, 50 * MIB)


def test_a_recording_that_did_not_run_out_is_refused():
    with pytest.raises(ValueError, match="no request ran out of memory in the 740"):
        explain_oom(load(FIXTURES / "snapshots" / "train_mlp.pickle.gz"))
