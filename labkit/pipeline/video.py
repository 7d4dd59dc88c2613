"""A video job: decode a film, make every frame better with a small network, encode the result.

`naive` is the whole job in a few lines. `enhance_film` is the same job as a program one can leave
alone: it does what its settings say, keeps every finished frame whatever happens, goes on where it
was stopped, and gives the result its name in the end.
"""

import io
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from labkit.pipeline.coarse import CoarseFirst
from labkit.pipeline.config import setting
from labkit.pipeline.enhancer import Enhancer, postprocess, preprocess, trained
from labkit.pipeline.exact import exact
from labkit.pipeline.frames import (
    Codec,
    Encoder,
    Film,
    VideoError,
    container_of,
    film_of,
    read_frames,
    require_av,
    write_film,
)
from labkit.pipeline.graph_runner import GraphRunner
from labkit.pipeline.journal import Journal, JournalError
from labkit.pipeline.scene import Frame, Scene
from labkit.pipeline.staged import staged
from labkit.pipeline.temporal import Reusing
from labkit.pipeline.timer import Timer


@dataclass(frozen=True)
class Compute:
    """Where and how the network computes; 0 threads is PyTorch's own choice.

    graphs  capture the network once for each shape of a batch, and replay it
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    allow_tf32: bool = False
    num_threads: int = setting(0, at_least=0)
    graphs: bool = False


@dataclass(frozen=True)
class Processing:
    """How frames move: how many at once, and whether decoding and encoding have their own threads.

    max_queue_size          batches that may wait between two stages, when they overlap
    reuse_unless_moved      compute again only where a pixel moved by more steps of 0..255 than
                            this; the first frame of each batch is computed whole
    coarse_unless_detailed  compute at half the size, and again only the blocks that lose more
                            steps of 0..255 by that
    """

    batch_size: int = setting(1, at_least=1)
    overlap: bool = False
    max_queue_size: int = setting(2, at_least=1)
    on_damaged_frame: Literal["stop", "repeat"] = "stop"
    codec: Codec = "ffv1"
    reuse_unless_moved: int | None = setting(None, at_least=0)
    coarse_unless_detailed: int | None = setting(None, at_least=0)


@dataclass(frozen=True)
class Model:
    """The network, trained when a job begins: the same numbers give the same weights.

    exact   round its numbers so that all its sums are exact: reuse then changes no bit
    """

    channels: int = setting(8, at_least=1)
    train_steps: int = setting(100, at_least=0)
    seed: int = setting(0, at_least=0)
    exact: bool = False


@dataclass(frozen=True)
class Settings:
    """All settings of the video job; as they stand, it is the naive one."""

    compute: Compute = Compute()
    processing: Processing = Processing()
    model: Model = Model()


@dataclass(frozen=True)
class Progress:
    """After a frame: how many are finished, how many before this run, how many there will be."""

    finished: int
    resumed: int
    count: int | None


def naive(source: str | Path, target: str | Path, model: Enhancer) -> None:
    """The film at `target` is the one at `source`, made better frame by frame."""
    film = film_of(source)
    encoder = Encoder("ffv1", film)
    packets = []
    for frame in read_frames(source):
        with torch.no_grad():
            better = model(preprocess([frame]))
        packets.append(encoder.encode(postprocess(better)[0]))
    write_film(target, "ffv1", film, packets)


def enhance_film(
    source: str | Path,
    target: str | Path,
    settings: Settings | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
    timer: Timer | None = None,
) -> int:
    """The film at `target` is the one at `source`, made better; returns its number of frames.

    While it works, finished frames lie in `<target>.unfinished`. Stopped in any way, even killed,
    the same call goes on behind the last of them; only a finished film gets the name `target`.

    Raises   VideoError   a file cannot be read, or belongs to a job with other settings
             OSError      no room; every finished frame is kept
    """
    settings, timer = settings or Settings(), timer or Timer()
    require_av()
    container_of(target)
    film = film_of(source)
    if Path(target).exists() and Path(target).samefile(source):
        raise VideoError(f"{target} is the film to be read; give the result another name")
    shortcuts = settings.processing.reuse_unless_moved, settings.processing.coarse_unless_detailed
    if None not in shortcuts:
        raise VideoError("reuse_unless_moved or coarse_unless_detailed: a job takes one of them")
    if settings.compute.graphs and shortcuts != (None, None):
        raise VideoError("a graph repeats one computation; reuse and detail decide frame by frame")
    with _journal_of(target) as journal, _computing(settings.compute) as device:
        with timer("train"):
            model = _begun(journal, _job(source, film, settings), settings.model)
        batches = _batches(source, settings.processing, len(journal) - 1, timer)
        network = _network(model.to(device), settings)
        enhance = _enhance_with(network, device, settings.compute, timer)
        encoder = Encoder(settings.processing.codec, film)
        resumed = len(journal) - 1
        for frames in _through(batches, enhance, settings.processing):
            for frame in frames:
                with timer("encode"):
                    packet = encoder.encode(frame)
                with timer("write"):
                    journal.append(packet)
                report(Progress(len(journal) - 1, resumed, film.count))
        count = len(journal) - 1
        _name(target, journal, settings.processing.codec, film)
    return count


def _batches(
    source: str | Path, processing: Processing, finished: int, timer: Timer
) -> Iterator[tuple[list[Frame], int]]:
    """(frames, how many of them are finished already) from the batch that is not yet complete on.

    Batches begin where they would in a job without a break: another batch may round otherwise.
    """
    size = processing.batch_size
    skipped, done = finished - finished % size, finished % size
    frames = timer.each("decode", read_frames(source, processing.on_damaged_frame))
    rest = itertools.islice(frames, skipped, None)
    try:
        while batch := list(itertools.islice(rest, size)):
            yield batch, done
            done = 0
    finally:
        frames.close()


def _network(model: Enhancer, settings: Settings) -> nn.Module:
    if settings.model.exact:
        model.body = exact(model.body)
    moved = settings.processing.reuse_unless_moved
    detailed = settings.processing.coarse_unless_detailed
    if detailed is not None:
        return CoarseFirst(model, detailed)
    return model if moved is None else Reusing(model, moved)


def _enhance_with(
    model: nn.Module, device: torch.device, compute: Compute, timer: Timer
) -> Callable[[tuple[list[Frame], int]], Sequence[Frame]]:
    dtype = getattr(torch, compute.precision)
    network = GraphRunner(model) if compute.graphs else model
    cached = not compute.graphs  # a cast kept by autocast would not outlive the capture

    def enhance(batch: tuple[list[Frame], int]) -> Sequence[Frame]:
        frames, done = batch
        with torch.inference_mode():
            with timer("preprocess"):
                pixels = preprocess(frames, device)
            wanted = dtype != torch.float32
            mixed = torch.autocast(device.type, dtype, enabled=wanted, cache_enabled=cached)
            with timer("network"), mixed:
                better = network(pixels)
            with timer("postprocess"):
                return postprocess(better)[done:]

    return enhance


def _through(
    batches: Iterable[Any], enhance: Callable[[Any], Sequence[Frame]], processing: Processing
) -> Iterator[Sequence[Frame]]:
    if processing.overlap:
        return staged(batches, enhance, room=processing.max_queue_size)
    return map(enhance, batches)


class _computing:
    """PyTorch computes as the settings say, and afterwards as before; gives the device."""

    def __init__(self, compute: Compute) -> None:
        self.compute = compute

    def __enter__(self) -> torch.device:
        wanted = self.compute.device
        if wanted == "auto":
            wanted = "cuda" if torch.cuda.is_available() else "cpu"
        if wanted == "cuda" and not torch.cuda.is_available():
            raise VideoError("compute.device is cuda, and there is no CUDA device here")
        self.before = torch.get_num_threads(), torch.get_float32_matmul_precision()
        if self.compute.num_threads:
            torch.set_num_threads(self.compute.num_threads)
        torch.set_float32_matmul_precision("high" if self.compute.allow_tf32 else "highest")
        return torch.device(wanted)

    def __exit__(self, *error: object) -> None:
        torch.set_num_threads(self.before[0])
        torch.set_float32_matmul_precision(self.before[1])


def _job(source: str | Path, film: Film, settings: Settings) -> dict[str, Any]:
    """What must be the same for frames of two runs to belong together."""
    about = Path(source).stat()
    return {
        "source": [str(Path(source).resolve()), about.st_size, about.st_mtime_ns],
        "film": [film.width, film.height, str(film.rate)],
        "settings": asdict(settings),
    }


def _journal_of(target: str | Path) -> Journal:
    try:
        return Journal(f"{target}.unfinished")
    except JournalError as error:
        raise VideoError(str(error)) from None


def _begun(journal: Journal, job: dict[str, Any], settings: Model) -> Enhancer:
    """The journal's first record is this job and its network; the network is returned.

    Raises   VideoError   the journal belongs to another job
    """
    model = Enhancer(settings.channels)
    if len(journal):
        found, _, weights = journal[0].partition(b"\n")
        if json.loads(found) != job:
            raise VideoError(
                f"{journal.path} holds {len(journal) - 1} frames of another film or with other "
                "settings; finish that job, or delete the file"
            )
        model.load_state_dict(torch.load(io.BytesIO(weights), weights_only=True))
    else:
        model = trained(settings.channels, settings.train_steps, settings.seed)
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        journal.append(json.dumps(job).encode() + b"\n" + file.getvalue())
    model.eval()
    return model


def _name(target: str | Path, journal: Journal, codec: Codec, film: Film) -> None:
    """The film under its name, whole; the journal is gone."""
    new = Path(f"{target}.new")
    try:
        write_film(new, codec, film, (journal[at] for at in range(1, len(journal))))
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    journal.path.unlink()


def make_example(path: str | Path, scene: Scene | None = None) -> Scene:
    """A film to try things on: the scene as its camera recorded it."""
    require_av()
    scene = scene or Scene()
    film = Film(scene.width, scene.height, Fraction(25), scene.frames)
    encoder = Encoder("ffv1", film)
    packets = (encoder.encode(scene.recorded(index)) for index in range(scene.frames))
    write_film(path, "ffv1", film, packets)
    return scene
