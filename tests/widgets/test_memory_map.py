"""The memory map's data: what travels, what is cut, what the picture and Python read from it."""

import random

import numpy as np
import pytest

from labkit.memory.sizes import TRACE_SIZES
from labkit.widgets.base import unpack_columns
from labkit.widgets.memory import memory_map
from labkit.widgets.memory.memory_map import MemoryMap
from labkit.widgets.memory.memory_trace import blocks_at, cut, encode, live_bytes, reserved_bytes

ACTIONS = (
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
    "segment_unmap", "snapshot", "oom",
)  # fmt: skip
ALLOC, ASKED, FREED, SEGMENT = range(4)
BASE = 0x7F0000000000


def make_trace(rows, segments=(), blocks=(), **more):
    """rows (action, address, size), segments (address, size), blocks (address, size, state)."""
    rows = np.array(rows, np.int64).reshape(-1, 3)
    zeros = np.zeros(len(rows), np.int64)
    segments = np.array(segments, np.int64).reshape(-1, 2)
    blocks = np.array(blocks, np.int64).reshape(-1, 3)
    owner = np.searchsorted(segments[:, 0], blocks[:, 0], side="right") - 1
    none = np.zeros(len(segments), np.int64)
    return {
        "events": {
            "action": rows[:, 0].astype(np.uint8), "address": rows[:, 1], "size": rows[:, 2],
            "stream": zeros, "pool": zeros, "note": zeros, "stack": zeros + (len(rows) > 0),
            "time_us": np.arange(len(rows)) * 3 + 10**15,
        },
        "segments": {
            "address": segments[:, 0], "size": segments[:, 1], "stream": none, "pool": none,
            "large": none, "expandable": none, "stack": none,
        },
        "blocks": {
            "address": blocks[:, 0], "size": blocks[:, 1], "requested": blocks[:, 1],
            "state": blocks[:, 2], "segment": owner, "stack": np.zeros(len(blocks), np.int64),
        },
        "actions": ACTIONS, "streams": (0,), "pools": ((0, 0),), "notes": ("",),
        "frames": [("f", "model.py", 3), ("g", "model.py", 4)],
        "stack_starts": np.array([0, 0, 2, 3]), "stack_members": np.array([0, 1, 1]),
        "settings": {}, "sizes": TRACE_SIZES, **more,
    }  # fmt: skip


def random_trace(seed, entries=400):
    """A trace that began before the recording, with what is alive after each entry."""
    rng = random.Random(seed)
    free = [BASE + 512 * i for i in range(40)]
    rng.shuffle(free)
    alive = {free.pop(): (512, False) for _ in range(5)}
    rows, states = [], [dict(alive)]
    while len(rows) < entries:
        address = rng.choice(list(alive)) if alive and rng.random() < 0.6 else None
        if address is None:
            if not free:
                continue
            address = free.pop(rng.randrange(len(free)))
            alive[address] = (512 * rng.randint(1, 1), False)
            rows.append((ALLOC, address, alive[address][0]))
        elif not alive[address][1]:
            alive[address] = (alive[address][0], True)
            rows.append((ASKED, address, alive[address][0]))
        else:
            size, _ = alive.pop(address)
            free.append(address)
            rows.append((FREED, address, size))
        states.append(dict(alive))
    blocks = [(a, size, 2 if pending else 1) for a, (size, pending) in sorted(alive.items())]
    return make_trace(rows, [(BASE, 40 * 512)], blocks), states


@pytest.mark.parametrize("seed", range(3))
def test_the_blocks_after_any_entry_are_those_of_a_plain_walk(seed):
    trace, states = random_trace(seed)
    for step, alive in enumerate(states):
        found = blocks_at(trace, step)
        assert found["address"].tolist() == sorted(alive)
        assert found["requested"].tolist() == [alive[a][0] for a in sorted(alive)]
        assert found["pending"].tolist() == [alive[a][1] for a in sorted(alive)]
    assert live_bytes(trace).tolist() == [sum(s for s, _ in alive.values()) for alive in states]


@pytest.mark.parametrize("keep", [0, 1, 57, 400])
def test_a_cut_trace_has_the_same_states(keep):
    trace, states = random_trace(7)
    shorter = cut(trace, keep)
    assert len(shorter["events"]["action"]) == keep
    for step in range(keep + 1):
        alive = states[len(states) - 1 - keep + step]
        assert blocks_at(shorter, step)["address"].tolist() == sorted(alive)


def test_a_cut_keeps_only_the_stacks_and_decisions_it_needs():
    trace = make_trace([(ALLOC, BASE, 512)] * 4)
    trace["events"]["stack"] = np.array([1, 1, 2, 2])
    trace["decisions"] = {1: {"why": "early"}, 3: {"why": "late"}}
    shorter = cut(trace, 2)
    assert shorter["events"]["stack"].tolist() == [1, 1]
    assert shorter["frames"] == [("g", "model.py", 4)]
    assert shorter["stack_starts"].tolist() == [0, 0, 1]
    assert shorter["decisions"] == {1: {"why": "late"}}


def test_addresses_travel_as_ranks_and_an_oom_keeps_its_free_bytes():
    oom = ACTIONS.index("oom")
    trace = make_trace(
        [(ALLOC, BASE + 1024, 5), (ALLOC, BASE, 3 << 31), (oom, 77, 5)],
        [(BASE, 4096)],
        [(BASE + 1024, 512, 1)],
    )
    meta, columns = encode(trace)
    assert columns["addresses"].tolist() == [BASE, BASE + 1024]
    assert columns["place"].tolist() == [1, 0, 0]
    assert columns["block_place"].tolist() == [1]
    assert meta["ooms"] == {"2": 77}
    widget = MemoryMap(trace)
    unpacked = unpack_columns(widget.meta["schema"], widget.data)
    assert unpacked["0.addresses"].tolist() == [BASE, BASE + 1024]
    assert unpacked["0.size"].tolist() == [5, 3 << 31, 5]
    assert unpacked["0.time"].tolist() == [0, 3, 6]


def test_numbers_javascript_cannot_hold_become_floats():
    widget = MemoryMap(make_trace([(ALLOC, 2**60, 2**61)]))
    columns = unpack_columns(widget.meta["schema"], widget.data)
    assert columns["0.size"].dtype == columns["0.addresses"].dtype == np.float64


def test_reserved_bytes_end_at_the_final_map():
    trace = make_trace(
        [(SEGMENT, BASE, 4096), (4, BASE, 4096), (5, BASE, 8192), (6, BASE, 4096)],
        [(BASE + 4096, 4096), (BASE + 10**6, 512)],
    )
    assert reserved_bytes(trace).tolist() == [512, 4608, 512, 8704, 4608]


def test_text_form_counts_and_has_no_address():
    trace = make_trace([(ALLOC, BASE, 100)], [(BASE, 4096)], [(BASE, 512, 1)])
    expected = "MemoryMap(1 entries, 1 segments, 512 bytes live, 4096 bytes reserved)"
    assert repr(MemoryMap(trace)) == expected
    assert repr(MemoryMap(trace, trace)).endswith("reserved, compared with another)")
    with pytest.raises(ValueError, match="one trace, or two to compare; got 3"):
        MemoryMap(trace, trace, trace)


def test_an_empty_trace_and_an_empty_map_are_drawn():
    for trace in (make_trace([]), make_trace([], [(BASE, 4096)]), make_trace([(8, 5, 512)])):
        widget = MemoryMap(trace, title="empty")
        assert "empty" in widget.svg()
        assert widget.frame == len(trace["events"]["action"])


def test_the_picture_shows_the_peak_and_the_end():
    rows = [(SEGMENT, BASE, 8192), (ALLOC, BASE, 2048), (ALLOC, BASE + 2048, 4096)]
    rows += [(ASKED, BASE, 2048), (FREED, BASE, 2048)]
    widget = MemoryMap(make_trace(rows, [(BASE, 8192)], [(BASE + 2048, 4096, 1)]), title="steps")
    picture = widget.svg()
    assert "segments and blocks at the peak, after entry 3" in picture
    assert "segments and blocks after the last entry (5)" in picture
    assert "live 6 KiB at most" in picture
    assert "reserved 8 KiB at most" in picture
    assert picture == widget.svg()


def test_the_picture_says_no_round_number_that_is_not_one():
    rows = [(SEGMENT, BASE, 2 << 20), (ALLOC, BASE, (1 << 20) + 512)]
    picture = MemoryMap(make_trace(rows, [(BASE, 2 << 20)], [])).svg()
    assert "reserved 2 MiB at most" in picture
    assert "live 1024.5 KiB at most" in picture


def test_the_picture_of_a_large_map_stays_small():
    blocks = [(BASE + 1024 * i, 512, 1) for i in range(20_000)]
    widget = MemoryMap(make_trace([], [(BASE, 1024 * 20_000)], blocks))
    assert len(widget.svg()) < 400_000


def test_the_bars_of_a_simple_map_have_one_scale_for_every_entry():
    rows = [(SEGMENT, BASE, 8192), (ALLOC, BASE, 2048), (SEGMENT, BASE + 10**6, 1 << 20)]
    trace = make_trace(rows, [(BASE, 8192), (BASE + 10**6, 1 << 20)], [(BASE, 2048, 1)])
    wide = []
    for entries in (1, 2, 3):
        picture = MemoryMap(trace, simple=True, frame=entries).svg()
        bars = [tag for tag in picture.split("<rect ")[1:] if "#f1f3f5" in tag]
        wide.append(float(bars[0].partition(' width="')[2].partition('"')[0]))
    assert wide[0] == wide[1] == wide[2] < 20, "the first segment, beside one 128 times as long"


def long_trace(entries):
    pairs = [[(ALLOC, BASE, 512), (ASKED, BASE, 512), (FREED, BASE, 512)]] * (entries // 3)
    rows = [row for pair in pairs for row in pair]
    trace = make_trace(rows, [(BASE, 4096)])
    trace["events"]["size"] = trace["events"]["size"] + (1 << 33)  # eight bytes each
    return trace


def test_a_large_trace_stays_in_the_kernel_and_a_cut_one_is_saved(monkeypatch):
    monkeypatch.setattr(memory_map, "SAVED_BYTES", 20_000)
    monkeypatch.setattr(memory_map, "CHUNK_BYTES", 30_000)
    trace = long_trace(6000)
    widget = MemoryMap(trace)
    assert len(widget.data) <= 20_000
    assert widget.meta["whole"] == widget.frame == 6000
    kept = widget.meta["traces"][0]["entries"]
    assert 0 < kept < 6000
    sent = []
    monkeypatch.setattr(
        widget, "send", lambda content, buffers=None: sent.append((content, buffers))
    )
    widget._handle_custom_msg({"kind": "need"}, [])
    assert [content["index"] for content, _ in sent] == list(range(len(sent)))
    assert all(content["count"] == len(sent) > 1 for content, _ in sent)
    whole = b"".join(bytes(buffers[0]) for _, buffers in sent)
    assert len(whole) == sent[0][0]["total"] == widget.meta["held"]
    meta = sent[-1][0]["meta"]
    assert "meta" not in sent[0][0]
    columns = unpack_columns(meta["schema"], whole)
    assert columns["0.size"].tolist() == trace["events"]["size"].tolist()
    assert all(len(bytes(buffers[0])) <= 30_000 for _, buffers in sent)


def test_a_small_trace_is_saved_whole_and_asks_for_nothing(monkeypatch):
    widget = MemoryMap(make_trace([(ALLOC, BASE, 512)]))
    assert "held" not in widget.meta
    monkeypatch.setattr(widget, "send", lambda *_, **__: pytest.fail("nothing is held back"))
    widget._handle_custom_msg({"kind": "need"}, [])
    widget._handle_custom_msg("nonsense", [])
    widget._handle_custom_msg({"kind": "other"}, [])


def test_a_replay_is_asked_for_from_the_page(monkeypatch):
    row = {"settings": "a:1", "peak_reserved": 1, "peak_allocated": 1, "fragmentation": 0.0,
           "retries": 0, "ran_out": ""}  # fmt: skip

    def replay(settings):
        if settings == "bad":
            raise ValueError("unknown option bad")
        return {**row, "settings": settings}

    widget = MemoryMap(make_trace([(ALLOC, BASE, 512)]), what_if=[row], replay=replay)
    sent = []
    monkeypatch.setattr(widget, "send", sent.append)
    widget._handle_custom_msg({"kind": "what_if", "settings": "b:2"}, [])
    widget._handle_custom_msg({"kind": "what_if", "settings": "bad"}, [])
    assert [row["settings"] for row in widget.what_if] == ["a:1", "b:2"]
    assert "replayed in" in sent[0]["error"]
    assert sent[1]["error"] == "ValueError: unknown option bad"


def test_an_update_follows_a_reader_at_the_end_only():
    widget = MemoryMap(make_trace([(ALLOC, BASE, 512)]))
    two = make_trace([(ALLOC, BASE, 512), (ASKED, BASE, 512)])
    widget.update(two, live="running")
    assert widget.frame == 2
    assert widget.meta["live"] == "running"
    widget.frame = 1
    widget.update(make_trace([(ALLOC, BASE + 512 * i, 512) for i in range(9)]))
    assert widget.frame == 1
    assert widget.meta["whole"] == 9
