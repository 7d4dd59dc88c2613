"""Snapshots of PyTorch open, ours open in PyTorch's viewer code, and hostile files do nothing."""

import base64
import gc
import gzip
import io
import json
import os
import pickle
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch.cuda._memory_viz as memory_viz

from labkit.memory.snapshots.snapshot import SnapshotError, columns, load, load_columns, save
from tests.memory.damaged import in_a_small_process, small_snapshot

SNAPSHOTS = Path(__file__).parent / "fixtures" / "snapshots"
SUMMARY = json.loads((SNAPSHOTS / "summary.json").read_text(encoding="utf-8"))["snapshots"]


def read_as_python(name):
    with gzip.open(SNAPSHOTS / f"{name}.pickle.gz") as file:
        return pickle.load(file)


@pytest.mark.parametrize("facts", SUMMARY, ids=lambda facts: facts["name"])
def test_columns_hold_every_entry_of_a_recording(facts):
    path = SNAPSHOTS / facts["file"]
    expected, trace = read_as_python(facts["name"]), load_columns(path)
    assert load(path) == expected
    entries = expected["device_traces"][0]
    assert len(trace) == facts["trace_entries"]
    events = trace.events
    assert [trace.actions[code] for code in events["action"]] == [e["action"] for e in entries]
    addresses = [e["device_free"] if e["action"] == "oom" else e["addr"] for e in entries]
    assert events["address"].tolist() == addresses
    assert events["size"].tolist() == [e["size"] for e in entries]
    assert events["time_us"].tolist() == [e["time_us"] for e in entries]
    assert [trace.notes[code] for code in events["note"]] == [e["user_metadata"] for e in entries]
    for index, entry in enumerate(entries):
        frames = [(f["name"], f["filename"], f["line"]) for f in entry["frames"]]
        assert trace.stacks[events["stack"][index]] == frames
    blocks = [block for segment in expected["segments"] for block in segment["blocks"]]
    assert trace.blocks["address"].tolist() == [block["address"] for block in blocks]
    assert trace.blocks["requested"].tolist() == [block["requested_size"] for block in blocks]
    assert Counter(actions_of(trace)) == facts["actions"]
    assert len(trace.stacks.frames) == facts["distinct_frames"]


@pytest.mark.parametrize("name", ["h200_torch_2_11", "h200_torch_2_11_expandable"])
def test_a_recording_of_an_h200_under_torch_2_11_opens(name):
    """Three steps of a convolutional net, two streams, a MemPool, a captured graph, C++ stacks."""
    trace = load_columns(Path(__file__).parent / "fixtures" / "gpu" / f"{name}.pickle.gz")
    assert trace.pools == ((0, 0), (1, 0), (0, 1))
    assert len(trace.streams) == 3
    counts = Counter(actions_of(trace))
    assert counts["oom"] == 1
    assert counts["free_requested"] == counts["free_completed"]
    assert counts["segment_map"] == (3 if name.endswith("expandable") else 0)
    deepest = max(range(len(trace.stacks)), key=lambda stack: len(trace.stacks[stack]))
    files = {file for _, file, _ in trace.stacks[deepest]}
    assert "train_convnet.py" in files
    assert any(file.endswith(".cpp") for file in files)
    assert trace.segments["size"].sum() > trace.blocks["requested"].sum() > 0


def actions_of(trace):
    return [trace.actions[code] for code in trace.events["action"]]


def test_streams_pools_and_notes_are_small_numbers_with_a_table():
    trace = columns(small_snapshot())
    assert trace.streams == (0, 7)
    assert trace.pools == ((0, 0), (0, 1))
    assert trace.events["stream"].tolist() == [1, 1]
    assert trace.events["pool"].tolist() == [1, 1]
    assert [trace.notes[n] for n in trace.events["note"]] == ["", "step 1"]
    assert trace.stacks[trace.events["stack"][1]] == [("forward", "model.py", 3)]
    assert trace.events["stack"][1] == trace.blocks["stack"][0]
    assert trace.segments["expandable"].tolist() == [1]


def test_a_frame_without_a_line_is_in_line_0():
    """Code that stands in no line has line -1 in Python, and in a file what that is unsigned."""
    snapshot = small_snapshot()
    snapshot["device_traces"][0][1]["frames"][0]["line"] = 2**64 - 1
    trace = columns(snapshot)
    assert trace.stacks[trace.events["stack"][1]] == [("forward", "model.py", 0)]
    snapshot["device_traces"][0][1]["frames"][0]["line"] = 2**64 - 2
    with pytest.raises(SnapshotError, match="is at line 18446744073709551614"):
        columns(snapshot)


def test_equal_frames_are_one_stack_even_when_no_object_is_shared():
    snapshot = small_snapshot()
    frames = [{"name": f"f{i % 3}", "filename": "m.py", "line": i % 3} for i in range(9)]
    snapshot["device_traces"] = [
        [
            {"action": "alloc", "addr": 0, "size": 1, "frames": [dict(f) for _ in range(40)]}
            for f in frames
        ]
    ]
    trace = columns(snapshot)
    assert trace.events["stack"].tolist() == [1, 2, 3] * 3


def test_stacks_that_differ_in_one_frame_anywhere_stay_apart():
    shared = [{"name": f"f{i}", "filename": "m.py", "line": i} for i in range(41)]
    rng = random.Random(0)
    stacks = []
    for position in range(40):
        stack = shared[:40]
        stack[position] = shared[40]
        stacks += [stack] * rng.randint(1, 4)
    rng.shuffle(stacks)
    entries = [{"action": "alloc", "addr": 0, "size": 1, "frames": list(s)} for s in stacks]
    trace = columns({"segments": [], "device_traces": [entries]})
    assert len(trace.stacks) == 41
    for index, stack in enumerate(stacks):
        assert [f[2] for f in trace.stacks[trace.events["stack"][index]]] == [
            f["line"] for f in stack
        ]


def test_the_device_with_the_longest_trace_is_shown_unless_another_is_named():
    snapshot = small_snapshot()
    snapshot["device_traces"] = [[], *snapshot["device_traces"]]
    assert columns(snapshot).device == 1
    assert len(columns(snapshot).segments["size"]) == 0
    assert columns(snapshot, device=0).segments["size"].tolist() == [2 << 20]
    assert columns({"segments": [{**small_snapshot()["segments"][0], "device": 3}]}).device == 3


@pytest.mark.parametrize("device", [-1, 9])
def test_a_device_of_which_there_is_nothing_is_refused(device):
    with pytest.raises(SnapshotError, match=rf"of device {device}: it has traces of 1 devices"):
        columns(small_snapshot(), device)


@pytest.mark.parametrize("missing", ["pool_id", "time_us", "user_metadata", "frames", "stream"])
def test_keys_that_older_releases_lack_get_defaults(missing):
    snapshot = small_snapshot()
    for entry in snapshot["device_traces"][0]:
        entry.pop(missing, None)
    trace = columns(snapshot)
    column = {"pool_id": "pool", "user_metadata": "note", "frames": "stack"}.get(missing, missing)
    assert trace.events[column].tolist() == [0, 0]


def test_a_snapshot_of_the_first_format_opens():
    """Blocks without address or frames; a list of segments instead of a dict; device_free."""
    history = {"addr": 1, "real_size": 700, "frames": [{"name": "f", "filename": "a", "line": 1}]}
    blocks = [
        {"size": 1024, "state": "active_allocated", "history": [history]},
        {"size": 512, "state": "active_awaiting_free", "history": []},
        {"size": 512, "state": "inactive"},
    ]
    segment = {"address": 8192, "total_size": 2048, "segment_type": "large", "blocks": blocks}
    trace = columns(load([segment]))
    assert trace.blocks["address"].tolist() == [8192, 9216, 9728]
    assert trace.blocks["requested"].tolist() == [700, 512, 512]
    assert trace.blocks["state"].tolist() == [1, 2, 0]
    assert trace.stacks[trace.blocks["stack"][0]] == [("f", "a", 1)]
    oom = {"action": "oom", "device_free": 42, "size": 7}
    trace = columns({"segments": [], "device_traces": [[oom, {"action": "snapshot", "size": 0}]]})
    assert trace.events["address"].tolist() == [42, 0]


def test_an_action_of_a_later_release_is_kept():
    entry = {"action": "alloc_again", "addr": 0, "size": 1}
    trace = columns({"segments": [], "device_traces": [[entry]]})
    assert actions_of(trace) == ["alloc_again"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "big"}, r"device trace\[1\]: size is 'big'"),
        ({"size": None}, r"device trace\[1\]: size is missing"),
        ({"addr": 2**70}, r"addr is '1180591620717411303424'"),
        ({"stream": "main"}, r"stream is 'main'"),
        ({"action": 3}, r"action is '3', not a str"),
        ({"action": []}, r"action is '\[\]', not a str"),
        ({"pool_id": 4}, r"pool_id is '4', not a pair of numbers"),
        ({"pool_id": (1, 2, 3)}, r"pool_id"),
        ({"frames": "none"}, r"frames is a str"),
        ({"frames": [4]}, r"a frame is a int"),
        ({"frames": [{"name": "f"}]}, r"needs name and filename"),
        ({"user_metadata": {}}, r"user_metadata is '\{\}', not a str"),
    ],
)
def test_a_wrong_field_is_named(change, message):
    snapshot = small_snapshot()
    snapshot["device_traces"][0][1].update(change)
    with pytest.raises(SnapshotError, match=message):
        columns(snapshot)


@pytest.mark.parametrize(
    ("snapshot", "message"),
    [
        ({"segments": 3}, "segments is a int"),
        ({"segments": [3]}, r"segments\[0\] is a int"),
        ({"device_traces": {}}, "device_traces is a dict"),
        ({"device_traces": [[None]]}, r"device_traces\[0\]\[0\] is a NoneType"),
        ({"segments": [{"total_size": 1}]}, r"segments\[0\]: address is missing"),
        ({"segments": [{"total_size": 1, "address": 0, "blocks": [{}]}]}, r"block of size"),
        ({"segments": [{"total_size": 1, "address": 0, "device": "x"}]}, r"devices \['x'\]"),
    ],
)
def test_a_wrong_shape_is_named(snapshot, message):
    with pytest.raises(SnapshotError, match=message):
        columns(snapshot)


class Touch:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def test_nothing_in_a_hostile_pickle_runs(tmp_path):
    for protocol in range(6):
        target = tmp_path / f"made_{protocol}"
        hostile = {**small_snapshot(), "extra": Touch(target)}
        with pytest.raises(SnapshotError, match=r"asks for \w+\.mkdir"):
            load(pickle.dumps(hostile, protocol))
        assert not target.exists()
    pickle.loads(pickle.dumps(Touch(tmp_path / "proof")))  # the plain loader does run it
    assert (tmp_path / "proof").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a pickle",
        b"\x80\x04",
        b"\x80\x04(((((u.",
        b"\x80\x04K\x01\x82\x01.",  # extension registry
        b"\x80\x04\x8c\x03keyQ.",  # persistent id
        b"\x80\x02}q\x00h\x05.",  # memo slot never filled
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"(ios\nsystem\n(S'true'\ntR.",
        b"\x80\x63.",  # protocol 99
        b"\x80\x04]r\xff\xff\xff\xff.",  # a memo of 64 GiB
        b"\x80\x04]p99999999999999\n.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\x00\x00\x00].",  # a frame of a terabyte
        b"\x80\x04\x8e" + (1 << 50).to_bytes(8, "little") + b"x.",  # so many bytes to come
        b"\x80\x04]\x94h\x00a.",  # a list of itself
        b"\x80\x04K\x05.",
        pickle.dumps(["a", "b"]),
        pickle.dumps({"weights": 1}),
        pickle.dumps(np.float32(1)),
        b"PK\x03\x04rest of a zip",
        gzip.compress(pickle.dumps({"segments": []}), mtime=0)[:-9],
        b"\x1f\x8bnot gzip at all",
    ],
    ids=repr,
)
def test_a_broken_or_hostile_stream_is_refused(data):
    with pytest.raises(SnapshotError):
        load(data)
    gc.collect(0)  # what the load left is young


def test_every_truncation_of_a_snapshot_is_refused():
    assert set(in_a_small_process("truncated")) == {"refused"}


def test_flipped_bytes_give_a_snapshot_or_an_error_and_nothing_else():
    said = in_a_small_process("flipped")
    assert len(said) == 1500 and said.count("refused") > 500


def test_structures_that_blow_up_when_walked_are_refused_without_walking_them():
    bomb = []
    for _ in range(200):
        bomb = [bomb, bomb]  # 2 ** 200 leaves, 200 lists
    snapshot = small_snapshot()
    snapshot["device_traces"][0][1]["frames"] = [bomb]
    with pytest.raises(SnapshotError, match="a frame is a list"):
        columns(load(pickle.dumps(snapshot)))
    loop = []
    loop.append(loop)
    with pytest.raises(SnapshotError):
        columns({"segments": loop, "device_traces": []})


def test_sizes_are_limited_after_decompression():
    with pytest.raises(SnapshotError, match="max_bytes=100"):
        load(pickle.dumps(small_snapshot()), max_bytes=100)
    with pytest.raises(SnapshotError, match="max_bytes=1000000"):
        load(gzip.compress(bytes(50_000_000)), max_bytes=1_000_000)


def test_the_collector_is_as_it_was_after_success_and_failure():
    for was_enabled in (True, False):
        (gc.enable if was_enabled else gc.disable)()
        try:
            load_columns(pickle.dumps(small_snapshot()))
            assert gc.isenabled() is was_enabled
            with pytest.raises(SnapshotError):
                load(b"")
            assert gc.isenabled() is was_enabled
        finally:
            gc.enable()


def test_memory_is_limited_only_while_loading():
    if sys.platform != "linux":
        pytest.skip("the address space is limited on Linux only")
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(SnapshotError, match="MiB of memory"):
        load(b"\x80\x04]r\xff\xff\xff\xff.")
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_progress_reaches_the_end_of_a_large_file(tmp_path):
    path = tmp_path / "large.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "pad": list(range(1 << 16, 2_000_000))}))
    seen = []
    load(path, progress=seen.append)
    assert seen == sorted(seen)
    assert len(seen) >= 2
    assert 0.8 < seen[-1] <= 1


def test_sources_of_each_kind(tmp_path):
    snapshot = small_snapshot()
    plain, zipped = tmp_path / "a.pickle", tmp_path / "a.pickle.gz"
    save(snapshot, plain)
    save(snapshot, str(zipped))
    assert zipped.read_bytes()[:2] == b"\x1f\x8b"
    for source in (plain, str(zipped), plain.read_bytes(), bytearray(plain.read_bytes()), snapshot):
        assert load(source) == snapshot
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.pickle")
    with pytest.raises(TypeError, match="not a int"):
        load(4)


def test_what_no_viewer_could_read_is_not_written(tmp_path):
    snapshot = small_snapshot()
    snapshot["device_traces"][0][1]["size"] = "big"
    with pytest.raises(SnapshotError):
        save(snapshot, tmp_path / "x.pickle")
    assert not (tmp_path / "x.pickle").exists()


@pytest.mark.parametrize("name", ["train_mlp", "infer_growing_expandable"])
def test_torchs_own_viewer_code_opens_what_is_saved(name, tmp_path):
    path = save(read_as_python(name), tmp_path / "saved.pickle")
    data = pickle.loads(path.read_bytes())
    assert data == read_as_python(name)
    for page in (memory_viz.trace_plot(data), memory_viz.segment_plot(data)):
        (embedded,) = json.loads(re.search(r"const local_files = (.*)", page)[1])
        stored = pickle.loads(base64.b64decode(embedded["base64"]))
        assert stored["device_traces"] == data["device_traces"]
    assert memory_viz.segsum(data)
    assert memory_viz.trace(data)


def test_reading_a_snapshot_needs_no_torch():
    code = "import labkit.memory.snapshots.snapshot, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_file_object_is_read_from_its_bytes():
    stream = io.BytesIO(pickle.dumps(small_snapshot(), protocol=2))
    assert load(stream.getvalue()) == small_snapshot()
