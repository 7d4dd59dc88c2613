"""show.memory reads allocators, snapshots and torch.cuda, and follows a loop that runs."""

import gzip
import pickle
import random
import re
import sys
import time
from pathlib import Path

import pytest
import torch

from labkit import show
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.snapshots.snapshot import SnapshotError
from labkit.widgets.base import unpack_columns

memory_sources = sys.modules["labkit.show.memory.sources"]
SNAPSHOTS = Path(__file__).parents[1] / "memory" / "fixtures" / "snapshots"
MIB = 1 << 20


def new_allocator(total=256 * MIB, settings="", explain=True):
    allocator = CachingAllocator(SimulatedDevice(total), settings)
    allocator.record_memory_history()
    if explain:
        allocator.explain()
    return allocator


def column(widget, name):
    return unpack_columns(widget.meta["schema"], widget.data)[f"0.{name}"].tolist()


def test_an_allocator_is_shown_with_a_reason_for_each_entry():
    allocator = new_allocator()
    first = allocator.malloc(100)
    second = allocator.malloc(MIB + 1)
    allocator.free(first)
    widget = show.memory(allocator)
    actions = [widget.meta["traces"][0]["actions"][code] for code in column(widget, "action")]
    assert actions == ["segment_alloc", "alloc"] * 2 + ["free_requested", "free_completed"]
    decisions = widget.meta["traces"][0]["decisions"]
    assert sorted(decisions, key=int) == [str(i) for i in range(6)]
    assert "100 bytes are rounded to 512 bytes" in decisions["0"]["why"]
    assert decisions["1"]["candidates"] == []
    places = column(widget, "place")
    addresses = column(widget, "addresses")
    assert [addresses[places[i]] for i in (1, 3)] == [first, second]
    assert repr(widget).startswith("MemoryMap(6 entries, 2 segments")


def test_a_simple_map_draws_a_short_block_that_can_be_seen():
    allocator = new_allocator()
    allocator.malloc(100)
    widget = show.memory(allocator, simple=True)
    assert widget.simple and widget.what_if == []
    rectangles = re.findall(r'<rect [^>]*width="([\d.]+)"[^>]*fill="#0072B2"', widget.svg())
    assert [float(width) for width in rectangles] == [6.0], "512 bytes of 2 MiB are 0.2 pixels"
    assert "live" not in widget.svg().replace("bytes live", ""), "the time line is left out"


def test_each_call_of_empty_cache_is_a_region_of_the_trace():
    allocator = CachingAllocator(SimulatedDevice(256 * MIB))
    allocator.record_memory_history(max_entries=5)
    allocator.explain()
    for _ in range(3):
        allocator.free(allocator.malloc(100))
        allocator.empty_cache()
    kept = allocator.malloc(100)
    allocator.empty_cache()
    regions = show.memory(allocator).meta["traces"][0]["regions"]
    assert kept
    assert regions == [["empty_cache()", 2, 3, 0], ["empty_cache()", 5, 5, 0]], "of five entries"


def test_looking_leaves_no_entry_in_the_trace():
    allocator = new_allocator()
    allocator.malloc(100)
    before = allocator.history.total
    show.memory(allocator)
    assert allocator.history.total == before


def test_candidates_say_why_they_were_not_taken():
    allocator = new_allocator()
    blocks = [allocator.malloc(4096) for _ in range(5)]
    for index in (1, 3):
        allocator.free(blocks[index])
    allocator.malloc(4096)
    widget = show.memory(allocator)
    last = widget.meta["traces"][0]["decisions"][str(widget.meta["whole"] - 1)]
    verdicts = {candidate["address"]: candidate["verdict"] for candidate in last["candidates"]}
    assert verdicts[blocks[1]] == "taken"
    assert "higher address" in verdicts[blocks[3]]
    assert [c["chosen"] for c in last["candidates"]].count(True) == 1


def test_decisions_line_up_when_old_entries_were_dropped():
    allocator = CachingAllocator(SimulatedDevice(64 * MIB))
    allocator.record_memory_history(max_entries=5)
    allocator.explain()
    sizes = [1000 + 3000 * i for i in range(9)]
    for size in sizes:
        allocator.malloc(size)
    decisions = show.memory(allocator).meta["traces"][0]["decisions"]
    whys = [decisions[str(i)]["why"].split(" bytes")[0] for i in range(5)]
    assert whys == [str(size) for size in sizes[-5:]]


def test_without_history_the_map_is_shown_and_the_cure_is_named():
    allocator = CachingAllocator(SimulatedDevice(64 * MIB))
    allocator.malloc(100)
    widget = show.memory(allocator)
    assert "record_memory_history()" in widget.meta["remarks"][0]
    assert column(widget, "block_size")[0] == 512


@pytest.mark.parametrize("name", ["train_mlp", "infer_growing", "train_resnet"])
def test_a_recording_of_pytorch_is_shown_from_each_kind_of_source(name):
    path = SNAPSHOTS / f"{name}.pickle.gz"
    data = gzip.decompress(path.read_bytes())
    for source in (path, str(path), data, pickle.loads(data)):
        widget = show.memory(source, what_if=())
        assert widget.meta["whole"] == len(pickle.loads(data)["device_traces"][0])
        assert widget.frame == widget.meta["whole"]
    assert show.memory(path, what_if=()).meta["title"] == path.name


def test_two_sources_are_compared():
    names = ("infer_growing", "infer_growing_expandable")
    paths = [SNAPSHOTS / f"{name}.pickle.gz" for name in names]
    widget = show.memory(*paths, what_if=(), frame=100)
    assert [trace["entries"] for trace in widget.meta["traces"]] == [12425, 14430]
    assert widget.frame == 100
    with pytest.raises(TypeError, match="got 3"):
        show.memory(*paths, paths[0])
    with pytest.raises(TypeError, match="got 0"):
        show.memory()


def test_other_settings_are_replayed_on_a_device_of_the_recorded_size():
    widget = show.memory(SNAPSHOTS / "infer_growing.pickle.gz")
    rows = {row["settings"]: row for row in widget.what_if}
    assert "wanted" in rows[""]["ran_out"]
    assert rows["expandable_segments:True"]["ran_out"] == ""
    assert rows["expandable_segments:True"]["peak_reserved"] < rows[""]["peak_reserved"]
    assert len(rows) == 5


def test_in_a_notebook_the_replays_wait_until_the_map_is_shown(monkeypatch):
    from IPython.core.events import EventManager, post_run_cell

    class Shell:
        events = EventManager(None, {"post_run_cell": post_run_cell})

        def get_ipython(self):
            return self

    monkeypatch.setitem(sys.modules, "IPython", Shell())
    widget = show.memory(SNAPSHOTS / "train_mlp.pickle.gz")
    assert widget.what_if == []
    Shell.events.trigger("post_run_cell", None)
    assert len(widget.what_if) == 5
    widget.what_if = []
    Shell.events.trigger("post_run_cell", None)
    assert widget.what_if == []


def test_the_device_shown_is_the_device_replayed():
    snapshot = pickle.loads(gzip.decompress((SNAPSHOTS / "train_mlp.pickle.gz").read_bytes()))
    for segment in snapshot["segments"]:
        segment["device"] = 1
    alone = show.memory(SNAPSHOTS / "train_mlp.pickle.gz").what_if
    second = {**snapshot, "device_traces": [[], *snapshot["device_traces"]]}
    assert [row["peak_reserved"] for row in show.memory(second).what_if] == [
        row["peak_reserved"] for row in alone
    ]


def test_a_large_file_is_read_again_for_a_replay(monkeypatch, tmp_path):
    monkeypatch.setattr(memory_sources, "KEPT_ENTRIES", 100)
    widget = show.memory(SNAPSHOTS / "train_mlp.pickle.gz", what_if=())
    sent = []
    monkeypatch.setattr(widget, "send", sent.append)
    widget._handle_custom_msg({"kind": "what_if", "settings": ""}, [])
    assert widget.what_if[0]["peak_reserved"] > 0
    assert "replayed" in sent[0]["error"]


def test_a_snapshot_without_a_trace_says_so():
    widget = show.memory({"segments": [], "device_traces": [[]]})
    assert "without _record_memory_history" in widget.meta["remarks"][0]
    assert not widget.meta["can_replay"]


@pytest.mark.parametrize("source", [3, None, object(), torch.ones(2)])
def test_what_cannot_be_shown_is_refused(source):
    with pytest.raises(TypeError, match="takes an allocator"):
        show.memory(source)


def test_reading_a_large_file_is_told_under_the_cell(monkeypatch, tmp_path):
    progress = sys.modules["labkit.show.memory.progress"]
    told = []

    class Shell:
        @staticmethod
        def get_ipython():
            return object()

    class Line:
        def __init__(self, text):
            told.append(text)

        def write(self, text):
            told.append(text)

    path = tmp_path / "large.pickle"
    pad = list(range(1 << 16, 2_500_000))
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [], "pad": pad}))
    monkeypatch.setitem(sys.modules, "IPython", Shell)
    monkeypatch.setattr(progress, "_Line", Line)
    show.memory(path)
    assert told == []
    monkeypatch.setattr(progress, "TOLD_BYTES", 1_000_000)
    show.memory(path)
    assert told[0] == "reading large.pickle (12 MB)"
    assert all(text.startswith("reading large.pickle (12 MB): ") for text in told[1:-1])
    assert len(told) >= 4
    assert told[-1].startswith("read large.pickle (12 MB) in ")


def test_broken_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        show.memory(tmp_path / "none.pickle")
    (tmp_path / "broken").write_bytes(b"x")
    with pytest.raises(SnapshotError):
        show.memory(tmp_path / "broken")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
@pytest.mark.parametrize("source", ["cuda", "cuda:0", torch.device("cuda"), torch.cuda])
def test_torch_cuda_without_a_gpu_is_refused_clearly(source):
    for live in (False, True):
        with pytest.raises(RuntimeError, match=r"torch\.cuda is not available here"):
            show.memory(source, live=live)


def test_torch_cuda_is_read_by_a_thread(monkeypatch):
    """With torch.cuda's four calls replaced by a recording that grows by an entry per look."""
    snapshot = pickle.loads(gzip.decompress((SNAPSHOTS / "train_mlp.pickle.gz").read_bytes()))
    entries, looks = snapshot["device_traces"][0], []

    def grown():
        looks.append(1)
        return {**snapshot, "device_traces": [entries[: len(looks)]]}

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, 8 << 30))
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", grown)
    assert show.memory("cuda", what_if=()).meta["title"] == "a card"
    view = show.memory(torch.cuda, live=True, every=0.001)
    deadline = time.monotonic() + 120
    while view.looks < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    view.stop()
    assert view.looks >= 4
    assert view.meta["whole"] == len(looks)
    assert view.meta["live"] == ""
    count = len(looks)
    time.sleep(0.02)
    assert len(looks) == count


@pytest.mark.gpu
def test_torch_cuda_is_shown_live():
    torch.cuda.memory._record_memory_history()
    try:
        keep = torch.ones(1 << 20, device="cuda")
        widget = show.memory("cuda")
        assert widget.meta["whole"] >= 1
        view = show.memory(torch.cuda, live=True, every=0.05)
        del keep
        deadline = time.monotonic() + 10
        while view.looks < 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        view.stop()
        assert view.looks >= 2
    finally:
        torch.cuda.memory._record_memory_history(None)


def test_a_live_map_follows_the_loop_and_stops():
    allocator = CachingAllocator(SimulatedDevice(64 * MIB))
    view = show.memory(allocator, live=True, every=1e-9)
    assert allocator.history is not None
    assert "Live" in view.meta["live"]
    for _ in range(20):
        allocator.free(allocator.malloc(1000))
    assert view.looks >= 1
    assert view.frame == view.meta["whole"] > 0
    view.stop()
    looks = view.looks
    assert view.meta["live"] == ""
    assert view.meta["whole"] == len(allocator.history) == 61
    assert "malloc" not in vars(allocator)
    allocator.malloc(5)
    assert view.looks == looks


def test_looking_takes_a_small_part_of_the_time(monkeypatch):
    allocator = CachingAllocator(SimulatedDevice(64 * MIB))
    view = show.memory(allocator, live=True, every=1e-9)
    live = sys.modules["labkit.show.memory.live"]
    now = [100.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    reread = live.read_source

    def slow(source):
        now[0] += 1.0
        return reread(source)

    monkeypatch.setattr(live, "read_source", slow)
    view._next = 0.0
    allocator.malloc(5)
    assert view.looks == 1
    now[0] += 9.0
    allocator.malloc(5)
    assert view.looks == 1
    now[0] += 1.5
    allocator.malloc(5)
    assert view.looks == 2
    view.stop()


def test_a_live_map_is_in_no_stack_it_shows():
    allocator = new_allocator()
    view = show.memory(allocator, live=True)
    allocator.malloc(100)
    view.stop()
    (_, file, _), *_ = allocator.history.since()[-1].frames
    assert file == __file__


def test_a_second_live_map_replaces_the_first():
    allocator = CachingAllocator(SimulatedDevice(64 * MIB))
    first = show.memory(allocator, live=True)
    second = show.memory(allocator, live=True)
    assert first.meta["live"] == ""
    second.stop()
    assert "malloc" not in vars(allocator)


def test_live_needs_one_source_that_can_change():
    with pytest.raises(TypeError, match="live follows an allocator"):
        show.memory(SNAPSHOTS / "train_mlp.pickle.gz", live=True)
    allocator = new_allocator()
    with pytest.raises(TypeError, match="one source"):
        show.memory(allocator, allocator, live=True)
    with pytest.raises(ValueError, match="above 0"):
        show.memory(allocator, live=True, every=0)


def test_random_programs_are_shown_whatever_they_did():
    rng = random.Random(3)
    for settings in ("", "expandable_segments:True", "max_split_size_mb:20"):
        allocator = new_allocator(48 * MIB, settings)
        alive = []
        for _ in range(120):
            if alive and rng.random() < 0.45:
                allocator.free(alive.pop(rng.randrange(len(alive))))
                continue
            try:
                alive.append(allocator.malloc(rng.choice([100, 5000, MIB, 3 * MIB, 14 * MIB])))
            except RuntimeError:
                allocator.free(alive.pop())
        widget = show.memory(allocator, what_if=())
        assert widget.meta["whole"] == len(allocator.history)
        assert "<svg" in widget.svg()


def test_a_trace_that_ran_out_explains_itself():
    ran_out = show.memory(SNAPSHOTS / "infer_growing.pickle.gz")
    assert "12.47 MiB (a segment of 14.00 MiB) was wanted on stream 0" in ran_out.autopsy[0]
    assert show.memory(SNAPSHOTS / "train_mlp.pickle.gz").autopsy == []
    assert show.memory(SNAPSHOTS / "infer_growing.pickle.gz", autopsy=["mine"]).autopsy == ["mine"]
