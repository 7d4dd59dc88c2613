"""The allocator serving others: C functions called as PyTorch calls them, CuPy's hooks, storages.

Whether PyTorch and CuPy themselves are served needs a card: the tests marked `gpu`.
"""

import ctypes
import os
import subprocess
import sys
import types

import pytest
import torch

from labkit.core.device import Device
from labkit.core.storage import Storage
from labkit.cuda import tensor_memory, use
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.stream import Stream
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.sizes import MIB
from labkit.memory.snapshots.snapshot import columns
from labkit.memory.storages.serving import (
    ALLOCATE,
    FREE,
    RECORD_STREAM,
    Serving,
    TorchCallbacks,
    allocator_on_device,
    serve_cupy,
    serve_torch,
)
from labkit.memory.storages.storage_allocator import StorageAllocator
from labkit.show.memory.sources import allocator_of
from tests.memory import invariants

CUDA = Device("cuda", 0)
STREAM = 0x5555_0000_1000  # a cudaStream_t is a pointer


class Caller:
    """C code's view of the callbacks: three addresses."""

    def __init__(self, bytes_on_device=64 * MIB):
        self.device = SimulatedDevice(bytes_on_device)
        self.allocator = CachingAllocator(self.device)
        self.allocator.record_memory_history()
        self.serving = Serving(StorageAllocator(self.allocator))
        self.callbacks = TorchCallbacks(self.serving)
        self.allocate = ALLOCATE(self.callbacks.allocate)
        self.free = FREE(self.callbacks.free)
        self.record_stream = RECORD_STREAM(self.callbacks.record_stream)

    def sizes_in_use(self):
        return sorted(block.requested_size for block in self.allocator.live_blocks())


def test_sizes_and_streams_arrive_and_frees_match():
    c = Caller()
    first, second = c.allocate(1000, 0, None), c.allocate(3 * MIB, 0, STREAM)
    assert c.sizes_in_use() == [1000, 3 * MIB]
    streams = {block.address: block.segment.stream for block in c.allocator.live_blocks()}
    assert streams == {first: 0, second: STREAM}
    c.free(first, 1000, 0, None)
    c.free(second, 3 * MIB, 0, STREAM)
    assert c.sizes_in_use() == [] and c.serving.errors == []
    invariants.check(c.allocator)


def test_a_random_program_through_the_pointers_is_the_same_without_them():
    import random

    c, plain = Caller(1 << 30), CachingAllocator(SimulatedDevice(1 << 30))
    rng, held = random.Random(5), []
    for _ in range(600):
        if held and rng.random() < 0.45:
            address, size, stream = held.pop(rng.randrange(len(held)))
            c.free(address, size, 0, stream or None)
            plain.free(address)
        else:
            size, stream = rng.choice((1, 600, 70_000, 2 * MIB, 11 * MIB)), rng.choice((0, STREAM))
            address = c.allocate(size, 0, stream or None)
            assert address == plain.malloc(size, stream)
            held.append((address, size, stream))
    assert c.allocator.memory_stats() == plain.memory_stats()


def test_running_out_is_a_null_pointer_and_kept(capsys):
    c = Caller(32 * MIB)
    assert c.allocate(64 * MIB, 0, None) is None  # c_void_p's way to say NULL
    assert isinstance(c.serving.errors[0], OutOfMemoryError)
    with pytest.raises(OutOfMemoryError, match=r"64\.00 MiB"):
        c.serving.check()
    assert "out of memory" in capsys.readouterr().err
    assert c.allocate(2 * MIB, 0, None), "the next request is served"


@pytest.mark.parametrize("size", [-1, -(1 << 40)])
def test_whatever_is_raised_becomes_out_of_memory(size, capsys):
    c = Caller()
    assert c.allocate(size, 0, None) is None
    assert isinstance(c.serving.errors[0], ValueError)
    assert capsys.readouterr().err.count("\n") == 1
    c.allocate(size, 0, None)
    assert capsys.readouterr().err == "", "said once"


def test_unknown_pointers_and_devices_are_refused_without_a_crash(capsys):
    c = Caller()
    address = c.allocate(512, 0, None)
    c.free(address + 512, 512, 0, None)
    c.free(address, 512, 3, None)
    c.record_stream(123, STREAM)
    assert c.allocate(512, 3, None) is None
    texts = [str(error) for error in c.serving.errors]
    assert len(texts) == 4 and sum("device 3" in text for text in texts) == 2
    assert c.sizes_in_use() == [512]
    capsys.readouterr()


def test_null_and_nothing_are_fine():
    c = Caller()
    assert c.allocate(0, 0, None) is None
    c.free(None, 0, 0, None)
    c.record_stream(None, None)
    assert c.serving.errors == [] and c.sizes_in_use() == []


def test_record_stream_holds_the_memory_back():
    c = Caller()
    address = c.allocate(512, 0, None)
    c.record_stream(address, STREAM)
    c.free(address, 512, 0, None)

    def actions():
        return [entry.action for entry in c.allocator.history.since()]

    assert actions() == ["segment_alloc", "alloc", "free_requested"]
    c.device.complete(STREAM)
    c.allocate(4096, 0, None)  # a request looks after what has finished
    assert actions()[3:] == ["free_completed", "alloc"]


def test_threads_may_call():
    """The backward pass frees from a thread of its own."""
    import threading

    c = Caller(1 << 30)

    def work():
        for _ in range(200):
            address = c.allocate(4096, 0, None)
            c.free(address, 4096, 0, None)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert c.sizes_in_use() == [] and c.serving.errors == []


def test_our_snapshot_stands_in():
    c = Caller()
    c.allocate(1000, 0, None)
    found = columns(c.serving.snapshot())
    assert [found.actions[a] for a in found.events["action"]][:2] == ["segment_alloc", "alloc"]
    assert allocator_of(c.serving) is c.allocator  # show.memory(serving)


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
    with pytest.raises(ValueError, match="emulator, which PyTorch's kernels cannot reach"):
        serve_torch(allocator)
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


def test_this_pytorch_offers_the_calls_or_has_no_cuda():
    """The CPU wheel has the Python classes, and not the C function behind them."""
    from torch.cuda.memory import CUDAPluggableAllocator, change_current_allocator

    assert callable(CUDAPluggableAllocator) and callable(change_current_allocator)
    if torch.version.cuda is None:
        assert not hasattr(torch._C, "_cuda_customAllocator")


ON_A_CARD = """
import torch
from labkit.memory.storages.serving import allocator_on_device, serve_torch, serve_cupy
allocator = allocator_on_device()
allocator.record_memory_history()
"""
TORCH = """
serving = serve_torch(allocator)
x = torch.ones(1000, device="cuda"); y = (x * 3).sum().item(); assert y == 3000, y
sizes = [block.requested_size for block in allocator.live_blocks()]
assert 4000 in sizes, sizes
side = torch.cuda.Stream()
with torch.cuda.stream(side): z = torch.ones(2000, device="cuda")
assert side.cuda_stream in {block.segment.stream for block in allocator.live_blocks()}
z.record_stream(torch.cuda.current_stream())
del x, z; torch.cuda.synchronize()
assert 4000 not in [block.requested_size for block in allocator.live_blocks()]
model = torch.nn.Linear(64, 64).cuda(); model(torch.ones(8, 64, device="cuda")).sum().backward()
serving.check(); assert len(serving.snapshot()["device_traces"][0]) > 5
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
@pytest.mark.parametrize("program", [TORCH, CUPY], ids=["torch", "cupy"])
def test_on_a_card(program):
    """In a process of its own: PyTorch's allocator can be exchanged once, before its first use."""
    subprocess.run(
        [sys.executable, "-c", ON_A_CARD + program],
        check=True, timeout=300, env={**os.environ, "LABKIT_CUDA": "gpu"},
    )  # fmt: skip


def test_the_pointers_stay_valid_as_long_as_the_callbacks():
    c = Caller()
    addresses = {c.callbacks.allocate, c.callbacks.free, c.callbacks.record_stream}
    assert len(addresses) == 3 and all(addresses)
    assert ctypes.cast(c.allocate, ctypes.c_void_p).value
