"""Memory of the device: labkit's allocator serves it, and host code cannot touch it."""

import gc
import signal
import threading

import pytest
import torch

from tests.torch_device.apart import apart, in_a_process


@apart
def test_every_byte_is_the_caching_allocators():
    torch.lab.empty_cache()
    before = torch.lab.memory_allocated()
    x = torch.empty(1000, device="lab")
    view = x[10:]
    allocator = torch.lab.allocator
    assert torch.lab.memory_allocated() - before == 4096
    assert x.data_ptr() in {block.address for block in allocator.live_blocks()}
    assert allocator.driver.driver.is_device_address(x.data_ptr())
    del x
    assert torch.lab.memory_allocated() - before == 4096, "the view holds the storage"
    del view
    assert torch.lab.memory_allocated() == before
    assert torch.empty(1000, device="lab").device.index == 0


@apart
def test_pytorch_and_labkit_count_alike():
    held = [torch.empty(size, device="lab:1") for size in (10, 70_000, 3_000_000)]
    theirs = torch.accelerator.memory_stats(1)
    ours = torch.lab.memory_stats(1)
    named = {key: value for key, value in theirs.items() if key in ours}
    assert len(named) > 100
    figures = ("allocation", "segment", "reserved_bytes", "requested_bytes", "active")
    assert [named[k] for k in named if k.startswith(figures)] == [
        ours[k] for k in named if k.startswith(figures)
    ]
    assert torch.accelerator.memory_allocated(1) == torch.lab.memory_allocated(1) > 12_000_000
    del held[:]
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved(1) == 0


@apart
def test_addresses_are_those_of_the_allocator_alone():
    """The same requests in the same order, made of a caching allocator without PyTorch."""
    from labkit.cuda.emulator.driver import EmulatorDriver
    from labkit.cuda.memory_calls import MemoryCalls
    from labkit.memory.caching_allocator import CachingAllocator

    torch.lab.empty_cache()
    assert torch.lab.memory_reserved(1) == 0
    alone = CachingAllocator(MemoryCalls(EmulatorDriver(256 << 20)))
    theirs, ours, starts = {}, {}, []
    generator = torch.Generator().manual_seed(4)
    for turn in range(60):
        if turn % 3 == 2 and theirs:
            gone = sorted(theirs)[int(torch.randint(len(theirs), (1,), generator=generator))]
            del theirs[gone]
            alone.free(ours.pop(gone))
        nbytes = int(torch.randint(1, 3_000_000, (1,), generator=generator))
        theirs[turn] = torch.empty(nbytes, dtype=torch.uint8, device="lab:1")
        ours[turn] = alone.malloc(nbytes)
        starts.append((theirs[turn].data_ptr(), ours[turn]))
    assert len({theirs - ours for theirs, ours in starts}) == 1


@apart
def test_a_block_that_another_stream_uses_is_not_reused_before_it_is_done():
    side = torch.Stream("lab")
    x = torch.ones(2048, device="lab")
    torch.lab.synchronize()
    with side:
        y = x * 2
    x.record_stream(side)
    address = x.data_ptr()
    del x
    assert torch.empty(2048, device="lab").data_ptr() != address
    assert y.sum().item() == 4096


@apart
def test_a_full_device_says_so_and_goes_on():
    with pytest.raises(torch.OutOfMemoryError, match=r"256\.00 MiB"):
        torch.empty(1 << 30, device="lab")
    assert torch.lab.memory_stats()["num_ooms"] >= 1
    assert torch.ones(3, device="lab").sum().item() == 3


@apart
def test_a_tensor_that_dies_with_an_exception_leaves_the_exception_alone():
    class Odd:
        def __index__(self):
            raise KeyError("the real error")

    before = torch.lab.memory_allocated()
    for _ in range(20):
        with pytest.raises((KeyError, TypeError)):
            torch.ones(100, device="lab").view(Odd())
    gc.collect()
    assert torch.lab.memory_allocated() == before


@apart
def test_cycles_that_die_in_the_middle_of_a_request_free_their_memory():
    before = torch.lab.memory_allocated()
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(50):
            cycle = [torch.empty(100, device="lab")]
            cycle.append(cycle)
            del cycle
            torch.empty(10, device="lab") + 1
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert torch.lab.memory_allocated() == before


@apart
def test_threads_share_the_device_and_leave_nothing_behind():
    from tests.torch_device import models

    models.losses(models.mlp, models.sgd, 1, "lab")
    gc.collect()
    x, found = torch.randn(6, 6), []
    there = x.to("lab")
    before = torch.lab.memory_allocated()

    def work(turn):
        w = there.clone().requires_grad_()
        for _ in range(5):
            ((there @ w) * turn).sum().backward()
        found.append((turn, w.grad.cpu()))

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(1, 5)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    one = x.sum(0)[:, None].expand(6, 6)
    for turn, gradient in found:
        torch.testing.assert_close(gradient, 5 * turn * one)
    assert len(found) == 4
    found.clear()
    gc.collect()
    assert torch.lab.memory_allocated() == before


@apart
def test_show_memory_draws_the_device():
    import labkit.show as show

    torch.lab.record_memory_history()
    held = torch.empty(5000, device="lab")
    view = show.memory(torch.lab)
    torch.lab.record_memory_history(enabled=None)
    snapshot = torch.lab.memory_snapshot()
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    assert held.data_ptr() in {block["address"] for block in blocks}
    assert f"{torch.lab.memory_allocated()} bytes live" in repr(view)


def test_host_code_that_touches_a_tensors_memory_ends_its_process():
    done = in_a_process("""
import ctypes, torch, labkit.torch_device
x = torch.ones(4, device="lab")
torch.lab.synchronize()
print("alive", flush=True)
ctypes.string_at(x.data_ptr(), 1)
print("still alive")
""")
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "alive\n"), done.stderr


def test_a_process_ends_well_with_tensors_streams_and_a_generator_alive():
    done = in_a_process("""
import torch, labkit.torch_device
x = torch.ones(4, device="lab", requires_grad=True)
(x * 2).sum().backward()
stream, event, generator = torch.Stream("lab"), torch.Event("lab"), torch.Generator("lab")
event.record(stream)
cycle = [x]
cycle.append(cycle)
print(x.grad.tolist())
""")
    assert (done.returncode, done.stdout) == (0, "[2.0, 2.0, 2.0, 2.0]\n"), done.stderr
    assert done.stderr == ""


def test_an_import_that_cannot_be_says_why_and_leaves_pytorch_as_it_was():
    done = in_a_process("""
import os, tempfile, torch
torch.cuda.is_initialized = lambda: True
try:
    import labkit.torch_device
except RuntimeError as error:
    print(str(error).partition(",")[0])
torch.cuda.is_initialized = lambda: False
os.environ["PATH"], os.environ["LABKIT_CACHE"] = "", tempfile.mkdtemp()
try:
    import labkit.torch_device
except RuntimeError as error:
    print(type(error).__name__, "g++" in str(error))
print(torch._C._get_privateuse1_backend_name(), hasattr(torch, "lab"))
""")
    assert done.stdout.splitlines() == [
        "torch.cuda is in use in this process",
        "CompilerMissing True",
        "privateuseone False",
    ], done.stderr
