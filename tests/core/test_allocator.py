import pytest

from labkit.core import allocator as allocators
from labkit.core.allocator import CPUAllocator, DataPtr
from labkit.core.device import CPU, Device


def test_the_deleter_runs_once_whoever_asks():
    freed = []
    pointer = DataPtr(64, CPU, "context", freed.append)
    pointer.clear()
    pointer.clear()
    del pointer
    assert freed == ["context"]


def test_the_deleter_runs_when_the_last_reference_goes():
    freed = []
    pointer = DataPtr(64, CPU, "context", freed.append)
    other = pointer
    del pointer
    assert freed == []
    del other
    assert freed == ["context"]


def test_released_context_is_no_longer_ours_to_free():
    freed = []
    pointer = DataPtr(64, CPU, "context", freed.append)
    assert pointer.release_context() == "context"
    del pointer
    assert freed == []


def test_host_memory_is_aligned_and_none_is_address_zero():
    allocator = CPUAllocator()
    assert all(allocator.allocate(size).address % 64 == 0 for size in (1, 7, 4096))
    assert allocator.allocate(0).address == 0


@pytest.mark.parametrize("nbytes", [-1, 1 << 62, 1 << 64])
def test_impossible_requests_say_the_size(nbytes):
    with pytest.raises(RuntimeError, match=str(nbytes)):
        CPUAllocator().allocate(nbytes)


def test_a_lower_priority_does_not_replace_an_allocator(monkeypatch):
    monkeypatch.setattr(allocators, "_allocators", {})
    allocators.set_allocator("lab", "high", priority=2)
    allocators.set_allocator("lab", "low", priority=1)
    assert allocators.get_allocator("lab") == "high"
    allocators.set_allocator("lab", "same", priority=2)
    assert allocators.get_allocator("lab") == "same"


def test_host_memory_is_served_by_default_again_once_the_allocator_is_put_back(monkeypatch):
    monkeypatch.setattr(allocators, "_allocators", dict(allocators._allocators))
    usual = allocators.get_allocator("cpu")
    assert allocators.serves_host_by_default()
    allocators.set_allocator("cpu", CPUAllocator())
    assert not allocators.serves_host_by_default()
    allocators.set_allocator("cpu", usual)
    assert allocators.serves_host_by_default()


def test_a_device_nobody_serves_is_named():
    with pytest.raises(RuntimeError, match=r"'lab'.*set_allocator"):
        allocators.get_allocator("lab")
    with pytest.raises(RuntimeError, match="register_copy"):
        allocators.copy_bytes(1, Device("lab"), 2, CPU, 4)


@pytest.mark.parametrize("spec", ["tpu", "cuda:", "cuda:-1", "cuda:01", "", 3, None, "cpu:x"])
def test_a_string_that_names_no_device_is_refused(spec):
    from labkit.core.device import device

    with pytest.raises(RuntimeError, match="device"):
        device(spec)
