"""`labkit video IN OUT`: a dark, noisy film becomes a bright, clean one."""

import argparse
import sys
import time
from pathlib import Path
from typing import TextIO

import psutil

from labkit.pipeline.config import ConfigError, dump, load
from labkit.pipeline.frames import VideoError, film_of
from labkit.pipeline.settings import Settings
from labkit.pipeline.timer import Timer
from labkit.pipeline.tuning import fastest
from labkit.pipeline.video import Progress, enhance_film, make_example, threads_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("source", metavar="IN", nargs="?", help="the film to be read")
    parser.add_argument("target", metavar="OUT", nargs="?", help="the film: .mkv, .mp4 or .avi")
    parser.add_argument("--config", metavar="FILE", help="settings, in YAML")
    parser.add_argument("--profile", action="store_true", help="where the time went")
    parser.add_argument(
        "--optimize", action="store_true",
        help="try the first frames in every way that changes no byte, and take the fastest",
    )  # fmt: skip
    parser.add_argument("--show-config", action="store_true", help="print all settings as YAML")
    parser.add_argument("--example", metavar="FILE", help="write a film to try it on, and stop")


def run(arguments: argparse.Namespace) -> int:
    """Do the job; 1 with one line of text where it cannot be done."""
    timer = Timer()
    try:
        settings = load(arguments.config, Settings) if arguments.config else Settings()
        if arguments.show_config:
            print(dump(settings), end="")
            return 0
        if arguments.example:
            scene = make_example(arguments.example)
            print(f"{arguments.example}: {scene.frames} frames, {scene.width} x {scene.height}")
            return 0
        if not (arguments.source and arguments.target):
            raise VideoError("give a film to read and a name for the result: labkit video IN OUT")
        if arguments.optimize:
            settings = _optimized(arguments.source, settings, threads_of(arguments.target))
        line = ProgressLine(sys.stderr)
        started = time.perf_counter()
        try:
            count = enhance_film(
                arguments.source, arguments.target, settings, line, timer, line.training
            )
        finally:
            line.end()
        if arguments.profile:
            print(profile(timer, time.perf_counter() - started))
    except (ConfigError, VideoError) as error:
        return _refuse(str(error))
    except OSError as error:
        name = error.filename or f"{arguments.target}.unfinished"
        text = f"{name}: {error.strerror or error}"
        return _refuse(text + _kept(arguments.target))
    except KeyboardInterrupt:
        print(f"labkit video: stopped{_kept(arguments.target)}", file=sys.stderr)
        return 130
    print(f"{arguments.target}: finished, {count} frames{_missing(arguments.source, count)}")
    return 0


def _missing(source: str, count: int) -> str:
    """What to think of a film that ends before its file says; a frame more or less is usual."""
    announced = film_of(source).count or 0
    if announced <= count + 1:
        return ""
    return f"; {source} announces {announced}: it may have been cut off"


def _optimized(source: str, settings: Settings, threads: int | None) -> Settings:
    """The settings that were the fastest; what was tried is told."""
    found, taken = fastest(source, settings, threads)
    tried = "\n".join(f"  {ms:8.1f} ms a frame: {name}" for name, ms in taken.items())
    hands = found.processing
    print(
        f"{tried}\n"
        f"compute: {{num_threads: {found.compute.num_threads}}}\n"
        f"processing: {{overlap: {str(hands.overlap).lower()}, workers: {hands.workers}, "
        f"worker_kind: {hands.worker_kind}}}",
        file=sys.stderr,
    )
    return found


def _refuse(text: str) -> int:
    print(f"labkit video: {text}", file=sys.stderr)
    return 1


def _kept(target: str | None) -> str:
    if target and Path(f"{target}.unfinished").exists():
        return "; finished frames are kept, the same command goes on behind them"
    return ""


class ProgressLine:
    """One line that counts: frames, their rate since the first one of this run, memory.

    Before the first frame, the network is trained, and its steps count: that is no frame's time.
    A terminal's line is written over itself, five times a second; elsewhere one follows in ten
    seconds.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.said = time.perf_counter()
        self.first: tuple[float, int] | None = None
        self.text = ""

    def __call__(self, progress: Progress) -> None:
        now = time.perf_counter()
        self.first = self.first or (now, progress.finished)
        self.text = self.line(progress, now - self.first[0], progress.finished - self.first[1])
        self._due(now)

    def training(self, step: int, steps: int) -> None:
        """So many steps of the network's training are finished; the first line comes at once."""
        self.text = f"training the network: step {step}/{steps}"
        if step == 0:
            self._say()
        self._due(time.perf_counter())

    def _due(self, now: float) -> None:
        if now - self.said >= (0.2 if self.live else 10):
            self.said = now
            self._say()

    @staticmethod
    def line(progress: Progress, seconds: float, frames: int) -> str:
        """The text when so many frames have taken so many seconds."""
        of = f"/{progress.count}" if progress.count else ""
        rate = f", {frames / seconds:.1f} frames/s" if frames and seconds else ""
        memory = psutil.Process().memory_info().rss >> 20
        resumed = f", {progress.resumed} of an earlier run" if progress.resumed else ""
        return f"frame {progress.finished}{of}{rate}, {memory} MiB{resumed}"

    def _say(self) -> None:
        end = "\x1b[K\r" if self.live else "\n"
        print(self.text, end=end, file=self.stream, flush=True)

    def end(self) -> None:
        """The last state stands on a line of its own."""
        if self.text:
            self.live = False
            self._say()
            self.text = ""


def profile(timer: Timer, seconds: float) -> str:
    """A table: per stage its seconds, calls and share; and what overlapping gains, or could."""
    totals = timer.totals()
    training = totals.pop("train", 0.0)
    known = sum(totals.values())
    lines = [f"{'stage':<14}{'seconds':>9}{'calls':>8}{'share':>8}"]
    for name, total in sorted(totals.items(), key=lambda pair: -pair[1]):
        lines.append(f"{name:<14}{total:>9.3f}{len(timer.seconds[name]):>8}{total / known:>8.0%}")
    lines.append(f"{'the job':<14}{seconds:>9.3f}, of it {training:.3f} for the network's training")
    decode = totals.get("decode", 0.0)
    network = sum(totals.get(name, 0.0) for name in ("preprocess", "network", "postprocess"))
    longest = max(decode, network, known - decode - network)
    working = seconds - training
    if known > working:
        lines.append(f"side by side: {known:.3f} s of stages in {working:.3f} s")
    elif longest:
        lines.append(f"three stages side by side: at most {known / longest:.2f}x faster")
    return "\n".join(lines)
