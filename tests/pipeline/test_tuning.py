"""The fastest way of working is found by trying, and none that changes the film is taken."""

import pytest

from labkit.pipeline import tuning
from labkit.pipeline.frames import VideoError
from labkit.pipeline.scene import Scene
from labkit.pipeline.settings import Compute, Model, Processing, Settings
from labkit.pipeline.tuning import fastest, ways
from labkit.pipeline.video import make_example

pytest.importorskip("av", reason="PyAV, the extra `video`, is not installed")


BATCHES = Settings(processing=Processing(batch_size=4))


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(tuning.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(tuning.torch.cuda, "is_available", lambda: False)


@pytest.fixture
def costs(monkeypatch, two_cores):
    """Milliseconds of a frame by the way of working, on a clock of their own."""
    now, taken = [0.0], {}

    def first_packets(source, settings):
        hands = settings.processing
        key = hands.overlap, hands.workers, hands.worker_kind
        key = (*key, settings.compute.num_threads) if settings.compute.num_threads else key
        now[0] += taken.get(key, (9e-3, 0))[0] * 4
        return [[taken.get(key, (0, b"same"))[1]] * 4]

    monkeypatch.setattr(tuning, "_first_packets", first_packets)
    monkeypatch.setattr(tuning.time, "perf_counter", lambda: now[0])
    return taken


def test_the_fastest_is_taken(costs):
    costs[False, 2, "threads", 1] = 3e-3, b"same"
    found, each = fastest("film", Settings(Compute(num_threads=1)))
    assert found == Settings(Compute(num_threads=1), Processing(workers=2))
    assert {name: round(ms) for name, ms in each.items()} == {
        "one after another": 9, "overlap": 9, "2 threads": 3, "2 processes": 9,
    }  # fmt: skip


def test_what_changes_a_packet_is_not_taken(costs):
    costs[False, 2, "threads"] = 3e-3, b"another"
    costs[False, 0, "threads"] = 8e-3, b"same"
    found, each = fastest("film", Settings())
    assert found == Settings() and "2 threads" not in each


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (BATCHES, ["one after another", "overlap", "2 threads"]),
        (Settings(Compute(engine="exported")), ["one after another", "overlap"]),
    ],
)
def test_what_excludes_each_other_is_not_tried(two_cores, settings, names):
    assert [name for name in ways(settings) if "num_threads" not in name] == names


def test_it_tries_real_frames(tmp_path, two_cores, monkeypatch):
    monkeypatch.setattr(tuning, "TURNS", 1)
    make_example(tmp_path / "in.mkv", Scene(height=24, width=32, frames=5))
    _, each = fastest(tmp_path / "in.mkv", Settings(model=Model(2, 0)))
    assert list(each) == [
        "one after another", "one after another, num_threads 1", "overlap",
        "overlap, num_threads 1", "2 threads", "2 threads, num_threads 1", "2 processes",
    ]  # fmt: skip


def test_a_contradiction_is_told():
    both = Settings(processing=Processing(coarse_unless_detailed=1, reuse_unless_moved=1))
    with pytest.raises(VideoError, match="one of them"):
        fastest("film", both)


def test_one_thread_inside_of_operators_is_tried_where_none_is_asked_for(costs):
    costs[False, 2, "threads", 1] = 3e-3, b"same"
    found, each = fastest("film", Settings())
    assert found == Settings(Compute(num_threads=1), Processing(workers=2))
    assert len(each) == 7


@pytest.mark.parametrize(("threads", "of_all"), [(0, {0}), (3, {3}), (None, {0, 1})])
def test_a_job_that_was_begun_keeps_its_threads(two_cores, threads, of_all):
    tried = ways(Settings(), threads).values()
    assert {one.compute.num_threads for one in tried} == of_all
