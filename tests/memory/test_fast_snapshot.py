"""The fast way into a snapshot: column for column what reading every dict gives."""

import gzip
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from labkit.memory.snapshots.fast import read_fast
from labkit.memory.snapshots.part import between
from labkit.memory.snapshots.plain_machine import NotRegular
from labkit.memory.snapshots.snapshot import SnapshotError, columns, load, load_columns, load_part
from labkit.memory.snapshots.trace import segments_before
from labkit.memory.snapshots.trace_table import TraceTable
from tests.memory.damaged import in_a_small_process, parts, synthetic

FIXTURES = sorted(Path(__file__).with_name("fixtures").glob("*/*.pickle.gz"))
SOME = [path for path in FIXTURES if path.name.startswith(("train_resnet", "gc_1", "expandable_0"))]
FEW_DICTS = 100


def read(data):
    """The columns by the fast way, and how many rows were read as dicts all the same."""
    snapshot = read_fast(io.BytesIO(data), len(data))
    return columns(snapshot), sum(len(trace.dicts) for trace in snapshot["device_traces"])


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_recordings_of_pytorch(path):
    data = gzip.decompress(path.read_bytes())
    found, dicts = read(data)
    assert parts(found) == parts(columns(load(data))) == parts(load_columns(path))
    assert dicts < FEW_DICTS < len(found)


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("share_lists", [True, False])
def test_every_width_of_number_and_text(share_lists, metadata, protocol):
    data = synthetic(4100, 3, share_lists, metadata, protocol)  # over several batches and frames
    found, dicts = read(data)
    assert parts(found) == parts(columns(load(data)))
    assert dicts < 2 * len(found) // 97 + FEW_DICTS


def test_the_trace_of_another_device():
    data = synthetic(900)
    snapshot = read_fast(io.BytesIO(data), len(data))
    assert parts(columns(snapshot, 1)) == parts(columns(load(data), 1))


def test_a_part_is_the_part_of_the_dicts():
    """Whatever way it is read: equal entries, memory before them, and stacks of what is live."""
    for path in SOME:
        whole = load(path)
        count = len(whole["device_traces"][0])
        for first, last in ((0, count // 3), (count // 2, count // 2 + 40), (-30, count)):
            assert load_part(path, first, last) == between(whole, first, last)


def test_what_an_address_held_follows_from_its_first_entries():
    """The map undone by all later entries, and by those few that `between` picks from them."""
    for path in SOME:
        whole = load(path)
        count = len(whole["device_traces"][0])
        for last in (1, count // 4, count // 2, count - 5):
            expected, found = segments_before(whole, last), between(whole, 0, last)["segments"]
            for segment in (*expected, *found):
                for block in segment["blocks"]:
                    block["frames"] = []
            assert found == expected


def test_a_part_makes_no_dicts_of_the_rest(monkeypatch):
    made = []
    rows = TraceTable.rows

    def counted(self, places):
        made.extend(places.tolist())
        return rows(self, places)

    def never(*_):
        raise AssertionError("the whole pickle was read")

    monkeypatch.setattr(TraceTable, "rows", counted)
    monkeypatch.setattr("labkit.memory.snapshots.snapshot.load_plain", never)
    data = synthetic(3000, share_lists=True)
    assert len(load_part(data, 1000, 1100)["device_traces"][0]) == 100
    events = columns(read_fast(io.BytesIO(data), len(data))).events
    moves = np.stack([events["address"], events["action"]])[:, 1100:]
    assert len(made) <= 100 + 2 * len(np.unique(moves, axis=1).T) < 3000


def test_a_part_of_what_is_irregular_is_read_the_general_way():
    data = pickle.dumps(pickle.loads(synthetic(300)), 2)
    assert load_part(data, 7, 90) == between(load(data), 7, 90)
    assert load_part(synthetic(300), 7, 90, 1) == between(load(synthetic(300)), 7, 90, 1)


def test_a_stack_of_one_that_looks_like_the_end_of_a_list():
    """A frame's line 101 is the byte of APPENDS: a row must not be cut there."""
    rows = [
        {"action": "alloc", "addr": i, "size": 1, "stream": 0, "time_us": i,
         "frames": [{"name": f"n{i}", "filename": "x", "line": 101} for _ in range(3)]}
        for i in range(60)
    ]  # fmt: skip
    data = pickle.dumps({"segments": [], "device_traces": [rows]}, 4)
    assert parts(read(data)[0]) == parts(columns(load(data)))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3])
def test_older_protocols_are_read_the_general_way(protocol):
    data = pickle.dumps(pickle.loads(synthetic(120)), protocol)
    with pytest.raises(NotRegular):
        read(data)
    assert parts(load_columns(data)) == parts(columns(load(data)))


def test_damaged_bytes_never_read_as_something_else():
    """Flipped, cut and doubled bytes: what both ways read is the same; most is refused by both."""
    said = in_a_small_process("read_both_ways")
    assert "different" not in said
    assert said.count("equal") > 30 and said.count("refused") > 30


def test_a_file_cut_short_is_refused():
    data = synthetic(300)
    for size in (0, 1, 9, 30, len(data) // 2, len(data) - 1):
        with pytest.raises(SnapshotError):
            load_columns(data[:size])


def test_progress_grows_to_its_end():
    told = []
    data = synthetic(2000)
    read_fast(io.BytesIO(data), len(data), told.append)
    assert told == sorted(told) and told[-1] == 1
