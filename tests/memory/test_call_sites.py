"""Whose bytes they are, what grows, what changed between two snapshots, and parts of a trace."""

import gzip
import pickle
from pathlib import Path

import pytest

from labkit.memory.replay.replay import replay
from labkit.memory.snapshots.call_sites import (
    call_site,
    changes_by_site,
    growing_sites,
    live_by_site,
    regions,
)
from labkit.memory.snapshots.part import between
from labkit.memory.snapshots.report import report
from labkit.memory.snapshots.snapshot import SnapshotError, columns, load_columns

SNAPSHOTS = Path(__file__).parent / "fixtures" / "snapshots"


def recorded(name):
    return pickle.loads(gzip.decompress((SNAPSHOTS / f"{name}.pickle.gz").read_bytes()))


def stack(line):
    return [
        {"name": "at::empty", "filename": "empty.cpp", "line": 1},
        {"name": "linear", "filename": "/opt/torch/nn/functional.py", "line": 2},
        {"name": "step", "filename": "/home/me/train.py", "line": line},
        {"name": "main", "filename": "/home/me/train.py", "line": 99},
    ]


def program(moves):
    """A snapshot of [(line, name)] that allocates 512 bytes, or [name] that frees."""
    entries, held = [], {}
    for i, move in enumerate(moves):
        common = {"size": 512, "stream": 0, "time_us": i}
        if isinstance(move, tuple):
            line, name = move
            held[name] = (4096 + 512 * i, line)
            entries.append(
                {"action": "alloc", "addr": held[name][0], "frames": stack(line), **common}
            )
        else:
            address, _ = held.pop(move)
            for action in ("free_requested", "free_completed"):
                entries.append({"action": action, "addr": address, "frames": [], **common})
    blocks = [
        {"address": address, "size": 512, "requested_size": 512, "state": "active_allocated",
         "frames": stack(line)}
        for address, line in sorted(held.values())
    ]  # fmt: skip
    segment = {"address": 4096, "total_size": 2 << 20, "stream": 0, "blocks": blocks}
    return {"segments": [segment], "device_traces": [entries]}


def test_the_site_is_the_innermost_line_of_the_users_own():
    frames = [(f["name"], f["filename"], f["line"]) for f in stack(7)]
    assert call_site(frames) == "train.py:7 step"
    assert call_site(frames[:2]) == "functional.py:2 linear"
    assert call_site(frames[:1]) == "empty.cpp:1 at::empty"
    assert call_site([]) == "(no stack recorded)"


def test_a_leak_grows_and_the_work_of_each_step_does_not():
    moves = []
    for step in range(40):
        moves += [(1, "a"), (1, "b"), (2, ("kept", step)), "b", "a"]
    moves += [(1, "a"), (3, "once")]
    found = columns(program(moves))
    growing = growing_sites(found)
    assert list(growing) == ["train.py:2 step"]
    least = growing["train.py:2 step"]
    assert least[0] == 0 and least[-1] == 512 * 30
    assert live_by_site(found) == {
        "train.py:2 step": (40 * 512, 40),
        "train.py:1 step": (512, 1),
        "train.py:3 step": (512, 1),
    }


def test_the_leak_of_a_recording_is_found_and_a_training_loop_has_none():
    assert set(growing_sites(columns(recorded("infer_growing")))) == {
        "infer_growing.py:21 forward", "infer_growing.py:22 forward", "infer_growing.py:42 main",
    }  # fmt: skip
    for name in ("train_mlp", "train_resnet", "train_transformer"):
        assert growing_sites(columns(recorded(name))) == {}


def test_two_snapshots_differ_by_call_site():
    before = columns(program([(1, "a"), (2, "b"), (3, "c"), (3, "d"), (5, "e")]))
    after = columns(program([(1, "a"), (2, "b"), (2, "x"), (3, "c"), (4, "y")]))
    rows = {row.site: row for row in changes_by_site(before, after)}
    assert {site: row.kind for site, row in rows.items()} == {
        "train.py:2 step": "grown", "train.py:3 step": "shrunk", "train.py:4 step": "added",
        "train.py:5 step": "removed",
    }  # fmt: skip
    grown = rows["train.py:2 step"]
    assert (grown.bytes_before, grown.bytes_after) == (512, 1024)
    assert (grown.blocks_before, grown.blocks_after) == (1, 2)
    assert changes_by_site(before, before) == []


def test_regions_cover_the_entries_between_their_marks():
    snapshot = program([(1, i) for i in range(20)])
    marks = [("outer", "START", 2), ("inner", "START", 5), ("inner", "END", 9), ("x", "END", 9)]
    marks += [("outer", "END", 12), ("open", "START", 15)]
    snapshot["external_annotations"] = [
        {"name": name, "stage": stage, "time_us": time_us, "device": 0}
        for name, stage, time_us in marks
    ] + [{"name": "elsewhere", "stage": "START", "time_us": 3, "device": 1}]
    found = regions(columns(snapshot))
    assert found == [("outer", 2, 12, 0), ("inner", 5, 9, 1), ("open", 15, 20, 0)]


@pytest.mark.parametrize("name", ["train_mlp", "infer_growing", "infer_growing_expandable"])
def test_a_part_of_a_trace_ends_where_a_replay_of_it_stands(name):
    """What is live after `last` entries by undoing the rest is what the entries themselves say."""
    snapshot = recorded(name)
    entries = snapshot["device_traces"][0]
    for last in (len(entries) // 3, len(entries) // 2, len(entries)):
        live = set()
        for entry in entries[:last]:
            if entry["action"] == "alloc":
                live.add(entry["addr"])
            elif entry["action"] == "free_completed":
                live.discard(entry["addr"])
        part = between(snapshot, 10, last)
        blocks = [block for segment in part["segments"] for block in segment["blocks"]]
        active = {block["address"] for block in blocks if block["state"] != "inactive"}
        assert active == live
        assert part["device_traces"][0] == entries[10:last]
        assert len(columns(part)) == last - 10
        assert replay(part).requests > 0
        sized = {entry["addr"]: entry["frames"] for entry in entries[:last]
                 if entry["action"] == "alloc"}  # fmt: skip
        assert all(b["frames"] == sized[b["address"]] for b in blocks if b["address"] in active)


def test_a_part_without_entries_is_refused():
    with pytest.raises(SnapshotError, match="no entries from 9 to 9"):
        between(recorded("train_mlp"), 9, 9)


def test_the_report_steers_no_terminal():
    snapshot = program([(1, "a")])
    snapshot["segments"][0]["blocks"][0]["frames"] = [
        {"name": "\x1b[2Jgone\nsecond", "filename": "/a.py", "line": 1}
    ]
    text = report(columns(snapshot))
    assert "\x1b" not in text and "�[2Jgone�second" in text


def test_sites_and_regions_survive_contradictions():
    trace = recorded("train_mlp")
    trace["device_traces"][0].reverse()
    assert report(columns(trace))
    assert report(load_columns(pickle.dumps({"segments": [], "device_traces": []})))
