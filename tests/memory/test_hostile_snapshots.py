"""Snapshots of strangers: no code runs, no file takes more than it explains, damage is named."""

import copy
import os
import pickle
import sys

import pytest

from labkit import show
from labkit.memory.replay.exactly import replay_exactly
from labkit.memory.replay.replay import replay
from labkit.memory.snapshots.explain_oom import explain_oom
from labkit.memory.snapshots.findings import findings
from labkit.memory.snapshots.snapshot import SnapshotError, columns, load, load_columns
from tests.memory import hostile
from tests.memory.damaged import in_a_small_process
from tests.memory.hostile import FIXTURES, in_a_child, mutations, real

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks and reads /proc")


def changed(change):
    snapshot = real()
    change(snapshot)
    return pickle.dumps(snapshot)


def tuple_bombs():
    """A few bytes that are never hashed to their end: as a key, and as values of a snapshot."""
    doubled = b")" + b"2\x86" * 60
    yield "key", b"\x80\x04}" + doubled + b"K\x01s."
    long = b"(" + b"K\x01" * 30_000 + b"t\x94"
    yield "long key", b"\x80\x04}" + long + b"K\x01s" + b"h\x00K\x01s" * 30_000 + b"."
    for name in ("pool_id", "action", "frames"):
        snapshot = real()
        snapshot["device_traces"][0][0][name] = "HERE"
        before, after = pickle.dumps(snapshot, 2).split(b"X\x04\x00\x00\x00HERE")
        yield name, before + doubled + after


@pytest.mark.parametrize("read", [load, load_columns])
def test_a_tuple_that_is_never_hashed_to_its_end_is_refused(read):
    names, sources = zip(*tuple_bombs(), strict=True)
    assert in_a_child(read, sources) == "r" * len(names), names


def test_bombs_are_small_in_memory_and_time():
    assert in_a_small_process("bombs_said", hostile.__name__) == {
        "gzip": "r", "empty lists": "r", "empty sets": "r", "devices": "o", "annotations": "r",
        "settings": "r", "deep": "r",
    }  # fmt: skip


def test_200_mutated_recordings_are_read_or_refused():
    said = in_a_small_process("mutations_said", hostile.__name__)
    assert len(said) == 200 and said.count("r") > 60 and said.count("o") > 40


def test_what_is_read_of_a_mutated_recording_is_shown_replayed_or_refused():
    def use(data):
        show.memory(data, what_if=("", "expandable_segments:True")).svg()
        snapshot = load(data)
        replay_exactly(snapshot)

    in_a_child(use, list(mutations(24)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["device_traces"][0][4].update(size=1.5), r"trace\[4\]: size is '1.5'"),
        (lambda s: s["device_traces"][0][4].update(stream=1 << 80), r"trace\[4\]: stream is"),
        (lambda s: s["device_traces"][0][4].update(size=1 << 200), r"trace\[4\]: size"),
        (lambda s: s["device_traces"][0][4].update(size=1 << 62), "no device has so many bytes"),
        (lambda s: s["device_traces"][0][4].pop("addr"), r"trace\[4\]: addr is missing"),
        (lambda s: s["segments"][0].update(device="x"), r"segments\[0\]: device is 'x'"),
        (lambda s: s["segments"][0].update(segment_type=3), r"segments\[0\]: segment_type is '3'"),
        (lambda s: s["segments"][0].update(is_expandable="no"), r"is_expandable is 'no', not a b"),
        (lambda s: s["segments"][0].update(total_size=10**5000), "a number of 16610 bits"),
        (lambda s: s.update(allocator_settings=[]), "allocator_settings is a list"),
        (lambda s: s["allocator_settings"].update(a={"b": {1}}), r"allocator_settings\.a\.b is"),
        (lambda s: s["allocator_settings"].update(me=s["allocator_settings"]), r"settings\.me\.me"),
        (lambda s: s.update(external_annotations=["x"]), r"external_annotations\[0\] is a str"),
        (
            lambda s: s.update(external_annotations=[{"stage": "START", "name": 3}]),
            r"external_annotations\[0\]: name is '3'",
        ),
    ],
)
def test_the_place_of_what_is_wrong_is_named(change, message):
    with pytest.raises(SnapshotError, match=message):
        load_columns(changed(change))


def test_settings_of_a_later_release_are_shown_and_do_no_harm():
    def change(snapshot):
        snapshot["allocator_settings"] = {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,colour:red",
            "colour": {"shade": [1, "dark"]},
        }

    data = changed(change)
    assert load_columns(data).settings["colour"] == {"shade": [1, "dark"]}
    result = replay(load(data))
    assert result.settings.expandable_segments and "colour" in result.settings.text


def test_pipes_and_folders_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "no regular file"), (tmp_path, "a folder")):
        for read in (load, load_columns, show.memory):
            with pytest.raises(SnapshotError, match=what):
                read(path)


def test_a_recording_of_pytorch_has_no_findings():
    for path in sorted(FIXTURES.glob("*/*.pickle.gz")):
        assert findings(load_columns(path)) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda s: s["device_traces"][0].reverse(), "is older than the one before it"),
        (lambda s: s["device_traces"][0][4].update(size=-5), "entry 4 has a negative size: -5"),
        (lambda s: s["segments"].append(copy.deepcopy(s["segments"][0])), "inside another one"),
        (lambda s: s["segments"][0].update(total_size=-1), "segment 0 has no positive size: -1"),
        (lambda s: s["segments"][0].update(total_size=512), "lies outside its segment"),
        (lambda s: s["segments"][0]["blocks"][0].update(size=1 << 20), "begins inside another"),
        (lambda s: s["segments"][0]["blocks"][0].update(requested_size=-3), "negative size"),
    ],
)
def test_contradictions_are_told_and_shown(change, sentence):
    data = changed(change)
    assert any(sentence in finding for finding in findings(load_columns(data)))
    assert any(sentence in remark for remark in show.memory(data).meta["remarks"])


def test_a_trace_that_cannot_be_made_again_says_so():
    snapshot = real()
    for entry in snapshot["device_traces"][0]:
        entry.pop("stream")
    columns(snapshot)
    for make in (replay, replay_exactly):
        with pytest.raises(SnapshotError, match=r"contradicts itself \(KeyError: 'stream'\)"):
            make(snapshot)
    assert any("Other settings" in remark for remark in show.memory(snapshot).meta["remarks"])
    snapshot["device_traces"][0].append({"action": "oom", "size": 5})
    with pytest.raises(SnapshotError, match="explain_oom: the recording contradicts itself"):
        explain_oom(snapshot)
