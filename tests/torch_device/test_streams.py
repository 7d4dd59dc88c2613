"""Streams, events and the current device: one per thread, and labkit's queues behind them."""

import threading

import pytest
import torch

from tests.torch_device.apart import apart, in_a_process


@apart
def test_each_thread_has_its_device():
    seen = []

    def look():
        seen.append(torch.lab.current_device())
        torch.lab.set_device(1)
        seen.append(torch.empty(1, device="lab").device.index)

    with torch.lab.device(1):
        assert torch.lab.current_device() == 1
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        with pytest.raises(ZeroDivisionError), torch.lab.device(0):
            raise ZeroDivisionError
        assert torch.lab.current_device() == 1
    assert (seen, torch.lab.current_device()) == ([0, 1], 0)
    with pytest.raises(RuntimeError, match="no device lab:5"):
        torch.lab.set_device(5)


@apart
def test_the_accelerator_is_this_one():
    assert torch.accelerator.current_accelerator() == torch.device("lab")
    assert (torch.accelerator.device_count(), torch.lab.device_count()) == (2, 2)
    assert torch.accelerator.is_available()


@apart
def test_work_goes_to_the_current_stream_and_waits_there():
    queue = torch.lab._devices[0].driver.queue
    x = torch.ones(3, device="lab")
    torch.lab.synchronize()
    side = torch.Stream("lab")
    assert side != torch.lab.current_stream()
    with side:
        assert torch.lab.current_stream() == side
        y = x + 1
    assert queue.log[-1].stream == side.stream_id
    assert not side.query()
    event = side.record_event()
    torch.lab.current_stream().wait_event(event)
    z = y * 3
    assert z.tolist() == [6, 6, 6]
    assert event.query()
    assert side.query()


@apart
def test_time_passes_between_two_events():
    start, end = (torch.Event("lab", enable_timing=True) for _ in range(2))
    start.record()
    torch.ones(3, device="lab") + 1
    end.record()
    torch.lab.synchronize()
    assert start.elapsed_time(end) > 0


@apart
def test_a_backward_runs_on_the_stream_of_its_forward():
    queue = torch.lab._devices[0].driver.queue
    x = torch.ones(3, device="lab", requires_grad=True)
    side = torch.Stream("lab")
    with side:
        loss = (x * 2).sum()
        loss.backward()
    mine = [work for work in queue.log if work.stream == side.stream_id and work.kind == "kernel"]
    assert {work.name for work in mine} >= {"lab_mul", "lab_sum"}
    side.synchronize()
    assert x.grad.tolist() == [2, 2, 2]


@apart
def test_a_failing_kernel_is_told_when_somebody_waits():
    table = torch.ones(3, 2, device="lab")
    found = torch.nn.functional.embedding(torch.tensor([7], device="lab"), table)
    with pytest.raises(RuntimeError, match="lab_embedding"):
        found.cpu()
    assert table.sum().item() == 6


@apart
def test_pinned_memory_may_be_left_to_its_stream():
    x = torch.arange(6.0).pin_memory()
    assert x.is_pinned() and x[2:].is_pinned() and not torch.ones(2).is_pinned()
    there = x.to("lab", non_blocking=True)
    assert torch.lab._devices[0].driver.queue.last(0) is not None, "nothing waited"
    assert there.tolist() == x.tolist()


def test_a_process_that_has_run_backward_is_told_why_it_is_too_late():
    done = in_a_process("""
import torch
torch.ones(1, requires_grad=True).sum().backward()
try:
    import labkit.torch_device
except RuntimeError as error:
    print(error)
""")
    assert "before the first one, in a new process" in done.stdout, done.stderr


@apart
def test_the_profiler_has_a_column_for_the_device():
    """Of the emulator: a microsecond for each kernel and copy, at the operator that asked."""
    layer, x = torch.nn.Linear(4, 3).to("lab"), torch.ones(2, 4, device="lab")
    layer(x)
    with torch.autograd.profiler.profile(use_device="lab") as seen:
        (layer(x) * 2).relu()
    table = seen.key_averages()
    assert "Self LAB" in table.table()
    times = {each.key: each.self_device_time_total for each in table}
    assert (times["aten::mul"], times["aten::relu"]) == (1, 1)
    assert times["aten::transpose"] == times["aten::empty"] == 0
    assert times["aten::addmm"] >= 1


@apart
@pytest.mark.parametrize("use_kineto", [False, True])
def test_the_profiler_counts_the_bytes_of_the_device(use_kineto):
    x = torch.ones(64, device="lab")
    older = torch.empty(100, dtype=torch.uint8, device="lab")
    with torch.autograd.profiler.profile(
        use_device="lab", use_kineto=use_kineto, profile_memory=True
    ) as seen:
        y = x * 2
        z = y.relu()
        del older, y
    table = seen.key_averages()
    assert "LAB Mem" in table.table() and z.nbytes == 256
    changes = {each.key: each.device_memory_usage for each in table}
    assert (changes["aten::mul"], changes["aten::relu"]) == (256, 256)
    assert changes["[memory]"] == -356


@apart
def test_what_another_stream_had_still_to_do_is_no_operators_time():
    queue = torch.lab._devices[0].driver.queue
    x = y = torch.ones(3, device="lab")
    torch.lab.synchronize()
    queue.reseed(0)  # any order that is legal
    with torch.Stream("lab"):
        for _ in range(100):
            y = y + 1
    with torch.autograd.profiler.profile(use_device="lab") as seen:
        (x * 2).relu()
    times = {each.key: each.self_device_time_total for each in seen.key_averages()}
    assert (times["aten::mul"], times["aten::relu"], times["aten::empty"]) == (1, 1, 0)
