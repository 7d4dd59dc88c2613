"""The allocator serving others: labkit's storages, and CuPy's hooks.

Whether CuPy itself is served needs a card: the test marked `gpu`.
"""

import os
import subprocess
import sys
import types

import pytest

from labkit.core.device import Device
from labkit.core.storage import Storage
from labkit.cuda import tensor_memory, use
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.stream import Stream
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.sizes import MIB
from labkit.memory.snapshots.snapshot import columns
from labkit.memory.storages.serving import (
    Serving,
    allocator_on_device,
    serve_cupy,
)
from labkit.memory.storages.storage_allocator import StorageAllocator
from labkit.show.memory.sources import allocator_of

CUDA = Device("cuda", 0)
STREAM = 0x5555_0000_1000  # a cudaStream_t is a pointer


def test_our_snapshot_stands_in():
    allocator = CachingAllocator(SimulatedDevice(64 * MIB))
    allocator.record_memory_history()
    serving = Serving(StorageAllocator(allocator))
    serving.storages.take(1000, 0)
    found = columns(serving.snapshot())
    assert [found.actions[a] for a in found.events["action"]][:2] == ["segment_alloc", "alloc"]
    assert allocator_of(serving) is allocator  # show.memory(serving)


@pytest.fixture
def emulator():
    driver = EmulatorDriver(64 * MIB)
    with use(driver):
        yield driver


def test_the_same_call_serves_labkits_storages_on_the_emulator(emulator):
    allocator = allocator_on_device("max_split_size_mb:20")
    before = tensor_memory.serving()
    with serve_cupy(allocator):
        storage = Storage.allocate(1000, CUDA)
        with Stream() as stream:
            other = Storage.allocate(2 * MIB, CUDA)
        streams = sorted(block.segment.stream for block in allocator.live_blocks())
        assert streams == sorted([0, stream.handle])
        assert storage.data_ptr() in {block.address for block in allocator.live_blocks()}
        del storage, other
        assert allocator.live_blocks() == []
    assert tensor_memory.serving() is before


def test_what_was_served_outlives_the_service(emulator):
    allocator = allocator_on_device()
    with serve_cupy(allocator):
        kept = Storage.allocate(1000, CUDA)
    assert len(allocator.live_blocks()) == 1
    del kept
    assert allocator.live_blocks() == []


def test_an_allocator_of_another_driver_is_refused(emulator):
    with pytest.raises(ValueError, match="SimulatedDevice"):
        serve_cupy(CachingAllocator(SimulatedDevice(MIB)))
    allocator = allocator_on_device()
    with use(EmulatorDriver(MIB)), pytest.raises(ValueError, match="EmulatorDriver"):
        serve_cupy(allocator)


@pytest.fixture
def cupy_driver(monkeypatch):
    """labkit's CuPy driver over a stand-in for CuPy that has its allocator hooks alone."""
    cupy, cuda = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
    runtime = types.ModuleType("cupy.cuda.runtime")
    runtime.CUDARuntimeError = type("CUDARuntimeError", (Exception,), {})
    runtime.memGetInfo = lambda: (10, 100)
    memory = types.SimpleNamespace(OutOfMemoryError=type("OutOfMemoryError", (MemoryError,), {}))
    state = {"allocator": "the pool"}

    class PythonFunctionAllocator:
        def __init__(self, malloc, free):
            self.malloc_func, self.free_func = malloc, free

        def malloc(self, size):
            return self.malloc_func(size, 0)

    cuda.PythonFunctionAllocator = PythonFunctionAllocator
    cuda.get_allocator = lambda: state["allocator"]
    cuda.set_allocator = lambda allocator: state.update(allocator=allocator)
    cuda.get_current_stream = lambda: types.SimpleNamespace(ptr=STREAM)
    cuda.memory, cuda.runtime, cupy.cuda = memory, runtime, cuda
    for name, module in {"cupy": cupy, "cupy.cuda": cuda, "cupy.cuda.runtime": runtime}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "labkit.cuda.cupy.driver", raising=False)
    from labkit.cuda.cupy import driver as cupy_driver

    yield cupy_driver.CupyDriver.__new__(cupy_driver.CupyDriver), state, memory
    sys.modules.pop("labkit.cuda.cupy.driver", None)


def test_cupys_hooks_are_called_as_cupy_calls_them(cupy_driver):
    driver, state, memory = cupy_driver
    asked, given_back = [], []

    def malloc(size, stream):
        asked.append((size, stream))
        return None if size > 1000 else 4096

    undo = driver.serve_arrays(malloc, given_back.append)
    allocator = state["allocator"]
    assert allocator(512) == 4096 and asked == [(512, STREAM)]
    allocator.__self__.free_func(4096, 0)
    assert given_back == [4096]
    with pytest.raises(memory.OutOfMemoryError):
        allocator(2000)
    undo()
    assert state["allocator"] == "the pool"


ON_A_CARD = """
import torch
from labkit.memory.storages.serving import allocator_on_device, serve_cupy
allocator = allocator_on_device()
allocator.record_memory_history()
"""
CUPY = """
import cupy
with serve_cupy(allocator) as serving:
    x = cupy.ones(1000, dtype="float32"); assert float((x * 3).sum()) == 3000
    assert 4000 in [block.requested_size for block in allocator.live_blocks()]
    try: cupy.empty(1 << 50, dtype="uint8"); raise SystemExit("no error")
    except cupy.cuda.memory.OutOfMemoryError: pass
    del x
assert 4000 not in [block.requested_size for block in allocator.live_blocks()]
"""


@pytest.mark.gpu
def test_on_a_card():
    subprocess.run(
        [sys.executable, "-c", ON_A_CARD + CUPY],
        check=True, timeout=300, env={**os.environ, "LABKIT_CUDA": "gpu"},
    )  # fmt: skip
