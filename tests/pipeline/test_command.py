"""`labkit video`: what it says, what it tries, and what it keeps."""

import io
import signal
from dataclasses import replace

import pytest

from labkit import cli
from labkit.pipeline import command, video
from labkit.pipeline import frames as frames_module
from labkit.pipeline.frames import read_frames
from labkit.pipeline.journal import Journal
from labkit.pipeline.scene import Scene
from labkit.pipeline.settings import Compute, Model, Processing, Settings
from labkit.pipeline.timer import Timer
from labkit.pipeline.video import enhance_film, make_example

pytest.importorskip("av", reason="PyAV, the extra `video`, is not installed")
QUICK = Settings(model=Model(channels=2, train_steps=1))


@pytest.fixture
def film(tmp_path):
    make_example(tmp_path / "in.mkv", Scene(height=24, width=32, frames=11))
    return tmp_path / "in.mkv"


def test_without_pyav_the_message_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(frames_module, "av", None)
    assert cli.main(["video", "a.mkv", "b.mkv"]) == 1
    assert "pip install -e '.[video]'" in capsys.readouterr().err


def test_the_command_profiles_and_interrupted_says_what_is_kept(film, tmp_path, capsys):
    config = tmp_path / "settings.yaml"
    config.write_text("model: {channels: 2, train_steps: 1}\n", encoding="utf-8")
    target = str(tmp_path / "out.mkv")
    assert cli.main(["video", str(film), target, "--config", str(config), "--profile"]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == "training the network: step 0/1"
    assert "frame 11/11" in said.err
    for name in ("decode", "network", "encode", "three stages side by side: at most"):
        assert name in said.out
    assert cli.main(["video", "--show-config", "--config", str(config)]) == 0
    assert "channels: 2" in capsys.readouterr().out


def test_the_rate_is_of_frames_and_not_of_the_training_before_them(monkeypatch):
    now = iter((0.0, 50.0, 50.5, 51.0))
    monkeypatch.setattr(command.time, "perf_counter", lambda: next(now))
    line = command.ProgressLine(io.StringIO())
    rates = []
    for finished in (8, 9, 10):
        line(command.Progress(finished, 7, 20))
        rates.append("2.0 frames/s" in line.text)
    assert rates == [False, True, True]
    assert line.text.startswith("frame 10/20, ")
    assert line.text.endswith("7 of an earlier run")


def test_training_is_told_at_once_and_then_now_and_again(monkeypatch):
    now = iter((0.0, 1.0, 9.0, 11.0, 12.0))
    monkeypatch.setattr(command.time, "perf_counter", lambda: next(now))
    said = io.StringIO()
    line = command.ProgressLine(said)
    for step in range(4):
        line.training(step, 100)
    lines = said.getvalue().splitlines()
    assert lines == [f"training the network: step {step}/100" for step in (0, 2)]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (7.0, "three stages side by side: at most 2.00x faster"),
        (5.0, "6.000 s of stages in 4.000 s"),
    ],
)
def test_a_profile_says_what_overlapping_gains_or_could(seconds, told):
    timer = Timer()
    for name, each in {"train": 1.0, "decode": 3.0, "network": 2.0, "encode": 1.0}.items():
        timer.add(name, each)
    assert told in command.profile(timer, seconds).splitlines()[-1]


def test_the_command_takes_the_fastest_way_and_tells_it(film, tmp_path, capsys, monkeypatch):
    fast, asked = replace(QUICK, processing=Processing(workers=2)), []
    monkeypatch.setattr(
        command, "fastest", lambda *given: asked.append(given) or (fast, {"one": 2.0})
    )
    target = tmp_path / "out.mkv"
    assert cli.main(["video", str(film), str(target), "--optimize"]) == 0
    said = capsys.readouterr().err
    assert "2.0 ms a frame: one\n" in said
    assert asked == [(str(film), Settings(), None)]
    assert "compute: {num_threads: 0}" in said
    assert "processing: {overlap: false, workers: 2, worker_kind: threads}" in said
    assert len(list(read_frames(target))) == 11


def test_an_unfinished_job_keeps_the_threads_that_were_chosen_for_it(film, tmp_path, monkeypatch):
    target, chosen = tmp_path / "out.mkv", replace(QUICK, compute=Compute(num_threads=1))
    assert video.threads_of(target) is None

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enhance_film(film, target, chosen, stop)
    asked = []
    monkeypatch.setattr(command, "fastest", lambda *given: asked.append(given) or (chosen, {}))
    config = tmp_path / "settings.yaml"
    config.write_text("model: {channels: 2, train_steps: 1}\n", encoding="utf-8")
    command_line = ["video", str(film), str(target), "--optimize", "--config", str(config)]
    assert cli.main(command_line) == 0
    assert asked == [(str(film), QUICK, 1)]
    Journal(f"{target}.unfinished").close()
    assert video.threads_of(target) is None


def test_ctrl_c_says_that_finished_frames_are_kept(film, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "labkit.pipeline.command.ProgressLine.__call__",
        lambda line, progress: signal.raise_signal(signal.SIGINT),
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it
    try:
        assert cli.main(["video", str(film), str(tmp_path / "out.mkv")]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "stopped; finished frames are kept" in capsys.readouterr().err


def test_a_film_that_was_cut_off_is_told_with_both_numbers(film, tmp_path, capsys):
    content = film.read_bytes()
    film.write_bytes(content[: len(content) // 2])
    assert cli.main(["video", str(film), str(tmp_path / "out.mkv")]) == 0
    count = len(list(read_frames(tmp_path / "out.mkv")))
    assert 0 < count < 10
    told = f"finished, {count} frames; {film} announces 11: it may have been cut off\n"
    assert capsys.readouterr().out.endswith(told)
