"""Snapshots as PyTorch writes them, history with frames, and what a look leaves behind."""

import sys

import pytest
from torch.cuda import _memory_viz

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.sizes import GIB, MIB
from labkit.memory.snapshots.snapshot import load
from tests.memory.mutation import FIXTURES


def used(context="all", **options):
    allocator = CachingAllocator(SimulatedDevice(GIB))
    allocator.record_memory_history("all", context, **options)
    kept = allocator.malloc(3 * MIB)
    dropped = allocator.malloc(1000)
    allocator.record_stream(dropped, 4)
    allocator.free(dropped)
    assert kept
    return allocator


def keys(rows):
    return {key for row in rows for key in row}


def test_the_format_is_pytorchs():
    ours = used().snapshot()
    theirs = load(FIXTURES / "snapshots" / "infer_growing.pickle.gz")
    assert ours.keys() == theirs.keys()
    assert ours["allocator_settings"].keys() == theirs["allocator_settings"].keys()
    assert keys(ours["segments"]) == keys(theirs["segments"])
    assert keys(ours["segments"][0]["blocks"]) == keys(theirs["segments"][0]["blocks"])
    recorded = [entry for entry in theirs["device_traces"][0] if entry["action"] != "oom"]
    assert keys(ours["device_traces"][0]) == keys(recorded)


@pytest.mark.parametrize("view", ["segsum", "trace", "segment_plot", "trace_plot"])
def test_pytorchs_own_viewer_opens_it(view):
    assert getattr(_memory_viz, view)(used().snapshot())


def test_a_look_is_an_entry_of_the_next_look():
    allocator = used()
    first, second = (allocator.snapshot()["device_traces"][0] for _ in range(2))
    assert [entry["action"] for entry in second[len(first) :]] == ["snapshot"]
    assert second[-1]["size"] == 3 * MIB + 1024


def test_the_innermost_frame_is_the_callers():
    allocator = used()
    frames = allocator.snapshot()["device_traces"][0][0]["frames"]
    assert (frames[0]["name"], frames[0]["filename"]) == ("used", __file__)
    assert any(frame["name"] == "test_the_innermost_frame_is_the_callers" for frame in frames)
    blocks = [b for s in allocator.memory_map() for b in s["blocks"] if b["state"] != "inactive"]
    assert all(block["frames"][0]["name"] == "used" for block in blocks)


@pytest.mark.parametrize(
    ("context", "in_trace", "in_blocks"),
    [(None, False, False), ("state", False, True), ("alloc", True, True), ("all", True, True)],
)
def test_what_gets_frames(context, in_trace, in_blocks):
    snapshot = used(context).snapshot()
    assert any(entry.get("frames") for entry in snapshot["device_traces"][0]) == in_trace
    assert bool(snapshot["segments"][0]["blocks"][0]["frames"]) == in_blocks


def test_only_the_newest_entries_are_kept():
    allocator = used(max_entries=2)
    assert [e.action for e in allocator.history.since()] == ["alloc", "free_requested"]
    assert [e.action for e in allocator.history.since(allocator.history.total - 1)] == [
        "free_requested"
    ]


def test_actions_can_be_skipped():
    allocator = used(skip_actions=["alloc"])
    assert "alloc" not in [e.action for e in allocator.history.since()]


def test_only_states_are_kept_when_asked():
    allocator = CachingAllocator(SimulatedDevice(GIB))
    allocator.record_memory_history("state")
    allocator.malloc(100)
    snapshot = allocator.snapshot()
    assert snapshot["device_traces"] == [[]]
    frames = snapshot["segments"][0]["blocks"][0]["frames"]
    assert frames[0]["name"] == sys._getframe().f_code.co_name


@pytest.mark.parametrize(
    "bad",
    [{"enabled": "some"}, {"context": "every"}, {"max_entries": -1}, {"skip_actions": ["malloc"]}],
)
def test_bad_histories_are_refused(bad):
    allocator = CachingAllocator(SimulatedDevice(GIB))
    with pytest.raises(ValueError, match=str(next(iter(bad.values()))).strip("[]'")):
        allocator.record_memory_history(**bad)
