"""The video job: right frames, and no finished frame lost, whatever stops it."""

import errno
import itertools
import os
import resource
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from labkit import cli
from labkit.pipeline import enhancing, video
from labkit.pipeline.enhancer import postprocess, preprocess, trained
from labkit.pipeline.frames import Encoder, Film, VideoError, film_of, read_frames, write_film
from labkit.pipeline.journal import Journal
from labkit.pipeline.scene import Scene, error
from labkit.pipeline.settings import Compute, Model, Processing, Settings
from labkit.pipeline.timer import Timer
from labkit.pipeline.video import enhance_film, make_example

pytest.importorskip("av", reason="PyAV, the extra `video`, is not installed")
SCENE = Scene(height=24, width=32, frames=11)
QUICK = Settings(model=Model(channels=2, train_steps=1))


@pytest.fixture
def film(tmp_path):
    make_example(tmp_path / "in.mkv", SCENE)
    return tmp_path / "in.mkv"


def with_processing(**changes):
    return replace(QUICK, processing=Processing(**changes))


def pictures(path):
    return np.stack(list(read_frames(path)))


def test_a_film_comes_back_as_it_was_written(film):
    assert film_of(film) == Film(32, 24, Fraction(25), 11)
    truth = np.stack([SCENE.recorded(index) for index in range(11)])
    assert (pictures(film) == truth).all()


def test_the_network_makes_a_film_better_that_it_has_not_seen():
    scene, model = Scene(seed=7), trained(steps=40)
    dark = scene.recorded(3)
    with torch.no_grad():
        (better,) = postprocess(model(preprocess([dark])))
    assert error(better, scene.truth(3)) < 0.4 * error(dark, scene.truth(3))


def test_training_leaves_the_random_state_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    threads = torch.get_num_threads()
    one, other = trained(2, 1), trained(2, 1)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads
    assert all(map(torch.equal, one.parameters(), other.parameters()))


def test_the_job_does_what_the_naive_program_does(film, tmp_path):
    video.naive(film, tmp_path / "naive.mkv", trained(2, 1))
    assert enhance_film(film, tmp_path / "out.mkv", QUICK) == 11
    assert (pictures(tmp_path / "out.mkv") == pictures(tmp_path / "naive.mkv")).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mkv", "naive.mkv", "out.mkv"]


def test_the_job_does_what_the_naive_program_does_with_frames_larger_than_a_band(tmp_path):
    make_example(tmp_path / "in.mkv", Scene(height=300, width=500, frames=2))
    video.naive(tmp_path / "in.mkv", tmp_path / "naive.mkv", trained(2, 1))
    assert enhance_film(tmp_path / "in.mkv", tmp_path / "out.mkv", QUICK) == 2
    assert (pictures(tmp_path / "out.mkv") == pictures(tmp_path / "naive.mkv")).all()


@pytest.mark.parametrize(
    "changes", [{"batch_size": 4}, {"overlap": True}, {"overlap": True, "batch_size": 3}]
)
def test_batches_and_threads_change_no_frame_by_more_than_rounding(film, tmp_path, changes):
    enhance_film(film, tmp_path / "plain.mkv", QUICK)
    enhance_film(film, tmp_path / "other.mkv", with_processing(**changes))
    plain, other = (pictures(tmp_path / f"{name}.mkv").astype(int) for name in ("plain", "other"))
    assert plain.shape == other.shape
    assert abs(plain - other).max() <= 1


WHOEVER = [
    {"overlap": True},
    {"workers": 1},
    {"workers": 3, "overlap": True},
    {"workers": 2, "worker_kind": "processes"},
    {"workers": 2, "worker_kind": "processes", "overlap": True},
]


@pytest.mark.parametrize("changes", WHOEVER, ids=str)
def test_whoever_does_the_work_the_bytes_are_the_same(film, tmp_path, changes):
    enhance_film(film, tmp_path / "plain.mkv", QUICK)
    enhance_film(film, tmp_path / "other.mkv", with_processing(**changes))
    assert (tmp_path / "other.mkv").read_bytes() == (tmp_path / "plain.mkv").read_bytes()


@pytest.mark.parametrize("changes", [{}, *WHOEVER], ids=str)
def test_whoever_does_the_work_frames_before_a_damaged_one_are_kept(film, tmp_path, changes):
    damaged(film, 7)
    with pytest.raises(VideoError, match=r"frame 7 of .* is damaged"):
        enhance_film(film, tmp_path / "out.mkv", with_processing(**changes))
    with Journal(tmp_path / "out.mkv.unfinished") as journal:
        assert len(journal) - 1 == 7


def test_page_locked_buffers_change_no_byte(film, tmp_path):
    plain = with_processing(batch_size=4)
    enhance_film(film, tmp_path / "plain.mkv", plain)
    enhance_film(film, tmp_path / "other.mkv", replace(plain, compute=Compute(pinned_buffers=2)))
    assert (tmp_path / "other.mkv").read_bytes() == (tmp_path / "plain.mkv").read_bytes()


def test_a_job_goes_on_with_other_workers(film, tmp_path):
    enhance_film(film, tmp_path / "once.mkv", QUICK)
    for frames, changes in enumerate(WHOEVER[1:], 1):
        with pytest.raises(Stopped):
            settings = with_processing(**changes)
            enhance_film(film, tmp_path / "out.mkv", settings, stop_after(frames, []))
    assert enhance_film(film, tmp_path / "out.mkv", QUICK) == 11
    assert (tmp_path / "out.mkv").read_bytes() == (tmp_path / "once.mkv").read_bytes()


def test_an_engine_computes_the_film(film, tmp_path):
    plain = with_processing(batch_size=4)
    enhance_film(film, tmp_path / "plain.mkv", plain)
    engine = replace(plain, compute=Compute("cpu", engine="exported"))
    enhance_film(film, tmp_path / "other.mkv", engine)
    plain, other = (pictures(tmp_path / f"{name}.mkv").astype(int) for name in ("plain", "other"))
    assert abs(plain - other).max() <= 1


def test_an_engine_that_is_not_here_is_told(film, tmp_path):
    absent = replace(QUICK, compute=Compute("cpu", engine="tensorrt"))
    with pytest.raises(VideoError, match="torch_tensorrt is not installed"):
        enhance_film(film, tmp_path / "out.mkv", absent)


@pytest.mark.parametrize(
    ("compute", "processing", "told"),
    [
        ({"graphs": True}, {"reuse_unless_moved": 0}, "decide frame by frame"),
        ({}, {"reuse_unless_moved": 8, "coarse_unless_detailed": 8}, "one of them"),
        ({"engine": "exported"}, {"coarse_unless_detailed": 8}, "no graphs, reuse or detail"),
        ({"engine": "exported", "precision": "bfloat16"}, {}, "whole float32 frames"),
        ({"engine": "exported"}, {"workers": 2}, "workers have to be 0"),
        ({}, {"workers": 2, "worker_kind": "processes", "batch_size": 2}, "batch_size has to be"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(film, tmp_path, compute, processing, told):
    both = Settings(Compute(**compute), Processing(**processing))
    with pytest.raises(VideoError, match=told):
        enhance_film(film, tmp_path / "both.mkv", both)
    assert not list(tmp_path.glob("both*"))


@pytest.mark.parametrize(("height", "width"), [(23, 31), (1, 1), (3, 50)])
@pytest.mark.parametrize("codec", ["ffv1", "mjpeg"])
def test_odd_sizes_are_sizes(tmp_path, height, width, codec):
    scene = Scene(height=height, width=width, frames=2)
    make_example(tmp_path / "in.mkv", scene)
    enhance_film(tmp_path / "in.mkv", tmp_path / "out.mp4", with_processing(codec=codec))
    assert pictures(tmp_path / "out.mp4").shape == (2, height, width, 3)


class Stopped(BaseException):
    """What a test stops a job with."""


def stop_after(frames, seen):
    def report(progress):
        seen.append(progress.finished)
        if len(seen) == frames:
            raise Stopped

    return report


@pytest.mark.parametrize("changes", [{}, {"batch_size": 4}, {"batch_size": 4, "overlap": True}])
def test_a_stopped_job_goes_on_behind_its_last_frame(film, tmp_path, changes):
    settings, seen = with_processing(**changes), []
    enhance_film(film, tmp_path / "once.mkv", settings)
    for frames in (3, 1, 5):
        with pytest.raises(Stopped):
            enhance_film(film, tmp_path / "out.mkv", settings, stop_after(frames, run := []))
        seen += run
        assert not (tmp_path / "out.mkv").exists()
    enhance_film(film, tmp_path / "out.mkv", settings, lambda p: seen.append(p.finished))
    assert seen == list(range(1, 12))  # none twice, none left out
    assert (pictures(tmp_path / "out.mkv") == pictures(tmp_path / "once.mkv")).all()


def damaged(film, frame):
    """The film with zeros inside the packet of one frame."""
    content = bytearray(film.read_bytes())
    packet = Encoder("ffv1", film_of(film)).encode(SCENE.recorded(frame))
    at = content.index(packet) + len(packet) // 2
    content[at : at + 8] = bytes(8)
    film.write_bytes(content)


def test_a_damaged_frame_ends_the_job_by_its_number(film, tmp_path):
    damaged(film, 4)
    with pytest.raises(VideoError, match=r"frame 4 of .*in.mkv is damaged: slice CRC mismatch"):
        enhance_film(film, tmp_path / "out.mkv", QUICK)
    with Journal(tmp_path / "out.mkv.unfinished") as journal:
        assert len(journal) - 1 == 4
    assert not (tmp_path / "out.mkv").exists()


def test_a_damaged_frame_can_be_replaced_by_the_one_before(film):
    whole = pictures(film)
    damaged(film, 4)
    found = np.stack(list(read_frames(film, "repeat")))
    assert (found[4] == whole[3]).all()
    assert (np.delete(found, 4, axis=0) == np.delete(whole, 4, axis=0)).all()


def test_a_first_frame_that_is_damaged_has_no_frame_before(film):
    damaged(film, 0)
    with pytest.raises(VideoError, match="frame 0"):
        list(read_frames(film, "repeat"))


def test_a_film_that_was_cut_off_before_its_first_frame_makes_no_film(film, tmp_path):
    content = film.read_bytes()
    film.write_bytes(
        content[: content.index(Encoder("ffv1", film_of(film)).encode(SCENE.recorded(0)))]
    )
    with pytest.raises(VideoError, match=r"in.mkv holds no whole frame"):
        enhance_film(film, tmp_path / "out.mkv", QUICK)
    assert not (tmp_path / "out.mkv").exists()


def test_a_frame_of_another_size_ends_the_job(film, tmp_path):
    small = Film(16, 12, Fraction(25), 1)
    packets = [Encoder("mjpeg", film_of(film)).encode(SCENE.recorded(0))]
    packets.append(Encoder("mjpeg", small).encode(SCENE.recorded(0)[::2, ::2].copy()))
    write_film(tmp_path / "two.avi", "mjpeg", film_of(film), packets)
    with pytest.raises(VideoError, match=r"frame 1 of .* has 16 x 12 pixels, the film 32 x 24"):
        list(read_frames(tmp_path / "two.avi"))


def test_other_settings_do_not_continue_a_job(film, tmp_path):
    with pytest.raises(Stopped):
        enhance_film(film, tmp_path / "out.mkv", QUICK, stop_after(2, []))
    with pytest.raises(VideoError, match=r"holds 2 frames of another film or with other settings"):
        enhance_film(film, tmp_path / "out.mkv", with_processing(batch_size=2))


def test_a_full_disk_keeps_every_finished_frame(film, tmp_path, monkeypatch, capsys):
    real, records = os.pwrite, itertools.count()

    def pwrite(descriptor, content, at):
        if next(records) > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    assert cli.main(["video", str(film), str(tmp_path / "out.mkv")]) == 1
    said = capsys.readouterr().err
    assert "out.mkv.unfinished: No space left on device; finished frames are kept" in said
    monkeypatch.undo()
    with Journal(tmp_path / "out.mkv.unfinished") as journal:
        assert len(journal) - 1 == 5  # the file's first line and the job took one write each
    assert cli.main(["video", str(film), str(tmp_path / "out.mkv")]) == 0
    assert len(pictures(tmp_path / "out.mkv")) == 11


def test_a_disk_that_is_full_in_the_end_leaves_no_half_film(film, tmp_path, monkeypatch):
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def short_of_room(*given):
        """The real one, on a system that stops writing as a full disk does."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most))
        try:
            write_film(*given)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    with monkeypatch.context() as patched, pytest.raises(OSError, match="File too large"):
        patched.setattr(video, "write_film", short_of_room)
        enhance_film(film, tmp_path / "out.mkv", QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mkv", "out.mkv.unfinished"]
    assert enhance_film(film, tmp_path / "out.mkv", QUICK) == 11


def test_one_job_at_a_time_writes_to_a_name(film, tmp_path):
    with (
        Journal(tmp_path / "out.mkv.unfinished"),
        pytest.raises(VideoError, match="another process is writing"),
    ):
        enhance_film(film, tmp_path / "out.mkv", QUICK)


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("absent.mkv", "out.mkv", "absent.mkv cannot be opened: No such file"),
        ("text.mkv", "out.mkv", "text.mkv cannot be opened: Invalid data"),
        ("in.mkv", "out.gif", "out.gif has to end in .mkv, .mp4, .avi"),
        ("in.mkv", "in.mkv", "in.mkv is the film to be read"),
        ("in.mkv", "absent/out.mkv", "absent/out.mkv.unfinished: No such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(film, tmp_path, capsys, source, target, told):
    (tmp_path / "text.mkv").write_text("no film", encoding="utf-8")
    assert cli.main(["video", str(tmp_path / source), str(tmp_path / target)]) == 1
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_settings_reach_pytorch_and_leave_it(film, tmp_path, monkeypatch):
    seen = []
    real = enhancing.as_numbers

    def as_numbers(pixels):
        where = pixels.device.type
        seen.append((torch.get_num_threads(), torch.get_float32_matmul_precision(), where))
        return real(pixels)

    monkeypatch.setattr(enhancing, "as_numbers", as_numbers)
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    compute = Compute(device="cpu", num_threads=1, allow_tf32=True, precision="bfloat16")
    timer = Timer()
    enhance_film(film, tmp_path / "out.mkv", replace(QUICK, compute=compute), timer=timer)
    assert set(seen) == {(1, "high", "cpu")}
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == before
    assert len(timer.seconds["network"]) == 11


def test_reuse_changes_no_byte_of_the_film_and_goes_on_where_it_was_stopped(film, tmp_path):
    exact = replace(QUICK, model=Model(channels=2, train_steps=1, exact=True))
    reusing = replace(exact, processing=Processing(batch_size=4, reuse_unless_moved=0))
    enhance_film(film, tmp_path / "whole.mkv", exact)

    def stop(progress):
        if progress.finished == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enhance_film(film, tmp_path / "reused.mkv", reusing, stop)
    enhance_film(film, tmp_path / "reused.mkv", reusing)
    assert (pictures(tmp_path / "reused.mkv") == pictures(tmp_path / "whole.mkv")).all()


def test_a_coarse_film_is_written(film, tmp_path):
    exact = Model(channels=2, train_steps=1, exact=True)
    coarse = Settings(model=exact, processing=Processing(coarse_unless_detailed=0))
    enhance_film(film, tmp_path / "coarse.mkv", coarse)
    enhance_film(film, tmp_path / "whole.mkv", Settings(model=exact))
    assert (pictures(tmp_path / "coarse.mkv") == pictures(tmp_path / "whole.mkv")).all()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_captured_network_gives_the_same_film(film, tmp_path, precision):
    plain = replace(
        QUICK, compute=Compute("cpu", precision), processing=Processing(batch_size=4)
    )  # the last batch is smaller
    graphs = replace(plain, compute=Compute("cpu", precision, graphs=True))
    enhance_film(film, tmp_path / "plain.mkv", plain)
    enhance_film(film, tmp_path / "graphs.mkv", graphs)
    assert (pictures(tmp_path / "graphs.mkv") == pictures(tmp_path / "plain.mkv")).all()
