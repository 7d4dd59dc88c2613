"""torch.profiler on the device: each kernel, copy and fill, and the operator that asked for it."""

import json
import tempfile
from pathlib import Path

import pytest
import torch

from tests.torch_device.apart import apart

pytestmark = pytest.mark.skipif(torch.__version__ < "2.13", reason="2.11 asks no device's tracer")


@apart
def test_kernels_have_names_and_times_in_pytorchs_profiler_below_their_operators():
    """Of the emulator: a microsecond each, also on the engine's threads."""
    x = torch.ones(4, 4, device="lab:1", requires_grad=True)
    with torch.profiler.profile() as seen:
        (x * 2).relu().sum().backward()
    table = seen.key_averages()
    assert "Self LAB" in table.table()
    times = {each.key: each.self_device_time_total for each in table}
    counts = {each.key: each.count for each in table}
    for kernel in ("lab_mul", "lab_relu", "lab_sum"):
        assert times[kernel] == counts[kernel] >= 1
    assert times["aten::relu"] == 1 and times["aten::empty"] == 0
    kernels = [one for one in seen.events() if one.key == "lab_mul"]
    operators = [one for one in seen.events() if one.key == "aten::mul" and one.kernels]
    assert len(kernels) == 2 == len(operators), "forward, and backward on a thread of the engine"
    assert {one.kernels[0].name for one in operators} == {"lab_mul"}
    assert len({one.thread for one in operators}) == 2


@apart
def test_the_trace_for_chrome_has_the_work_of_each_device_and_stream():
    x, y = torch.ones(3, device="lab"), torch.ones(3, device="lab:1")
    side = torch.Stream("lab:1")
    with torch.profiler.profile() as seen:
        for _ in range(2):
            x.clone()
        with side:
            y.relu()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    work = sorted((one for one in events if one.get("cat") in kinds), key=lambda one: one["ts"])
    copies, (relu,) = work[:-1], work[-1:]
    assert [one["cat"] for one in copies] == ["gpu_memcpy"] * 2 and relu["name"] == "lab_relu"
    assert {one["args"]["device"] for one in copies} == {0} and relu["args"]["device"] == 1
    assert relu["args"]["stream"] == relu["tid"] == side.stream_id != 0
    assert copies[0]["ts"] + copies[0]["dur"] <= copies[1]["ts"] + 1e-3
    (operator,) = [one for one in events if one["name"] == "aten::relu"]
    assert relu["args"]["External id"] == operator["args"]["External id"]
    assert operator["ts"] <= relu["ts"] <= operator["ts"] + operator["dur"]


@apart
def test_the_devices_are_heard_of_only_while_a_profiler_asks_for_them():
    x = torch.ones(3, device="lab")
    queues = [device.driver.queue for device in torch.lab._devices]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        assert not any(queue.listeners for queue in queues)
        x * 2
    assert {str(one.device_type) for one in seen.events()} == {"DeviceType.CPU"}
    with torch.profiler.profile() as seen:
        assert all(queue.listeners for queue in queues)
    x * 2
    assert not any(queue.listeners for queue in queues) and not seen.events()
