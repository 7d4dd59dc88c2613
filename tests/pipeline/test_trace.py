"""What a trace file says, and what is drawn of it."""

import json

import pytest
import torch

from labkit.pipeline.profiling.queued_device import QueuedDevice
from labkit.pipeline.profiling.trace import TraceError, by_depth, read_trace, write_trace


def one_frame():
    device = QueuedDevice()
    device.host("decode", 3000)
    device.copy("upload", 1000)
    device.launch("network", 8000)
    device.synchronize()
    return device


def test_a_written_run_is_read_as_it_was(tmp_path):
    spans = one_frame().run.spans
    write_trace(spans, tmp_path / "trace.json")
    assert read_trace(tmp_path / "trace.json") == spans


def test_the_profilers_own_file_is_read(tmp_path):
    with torch.profiler.profile() as recorded, torch.profiler.record_function("a name"):
        torch.ones(3).add(1)
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    spans = read_trace(tmp_path / "trace.json")
    (outer,) = (span for span in spans if span["name"] == "a name")
    inner = [span for span in spans if span["name"] == "aten::add"]
    assert spans[0]["start"] == 0
    assert {span["kind"] for span in spans} == {"host"}
    assert outer["start"] <= inner[0]["start"] <= inner[0]["end"] <= outer["end"]


def test_kernels_and_copies_lie_in_their_streams_lane(tmp_path):
    def event(name, category, start, length, **about):
        return {"ph": "X", "name": name, "cat": category, "pid": 1, "tid": 5, "ts": start,
                "dur": length, "args": about}  # fmt: skip

    events = [
        event("cudaLaunchKernel", "cuda_runtime", 110, 5, correlation=7),
        event("cudaStreamSynchronize", "cuda_runtime", 120, 40),
        event("gemm", "kernel", 118, 30, stream=7, correlation=7),
        event("Memcpy HtoD", "gpu_memcpy", 100, 9, stream=9),
        {"ph": "M", "name": "process_name", "args": {}},
    ]
    (tmp_path / "trace.json").write_text(json.dumps(events))
    found = {span["name"]: span for span in read_trace(tmp_path / "trace.json")}
    assert (found["gemm"]["lane"], found["gemm"]["kind"]) == ("stream 7", "kernel")
    assert (found["Memcpy HtoD"]["lane"], found["Memcpy HtoD"]["start"]) == ("stream 9", 0)
    assert found["cudaStreamSynchronize"]["kind"] == "wait"
    assert found["gemm"]["correlation"] == found["cudaLaunchKernel"]["correlation"] == 7


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "[]", "3", '{"traceEvents": 3}', '{"traceEvents": []}', "[[]]",
     '[{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -2, "tid": 1}]',
     '[{"ph": "X", "cat": "kernel", "name": "k"}]', "[" * 100_000],
)  # fmt: skip
def test_what_is_no_trace_is_refused_by_name(tmp_path, text):
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(TraceError, match=r"trace\.json"):
        read_trace(tmp_path / "trace.json")


def test_each_call_lies_below_the_one_around_it():
    calls = [("a", 0, 9), ("b", 1, 5), ("c", 1, 2), ("d", 5, 8)]
    spans = [{"lane": "t", "name": name, "start": s, "end": e} for name, s, e in calls]
    assert {row["name"]: row["lane"] for row in by_depth(spans)} == {
        "a": "t, 1", "b": "t, 2", "c": "t, 3", "d": "t, 2"
    }  # fmt: skip
