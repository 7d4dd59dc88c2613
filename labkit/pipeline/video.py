"""A video job: decode a film, make every frame better with a small network, encode the result.

`naive` is the whole job in a few lines. `enhance_film` is the same job as a program one can leave
alone: it does what its settings say, keeps every finished frame whatever happens, goes on where it
was stopped, and gives the result its name in the end.
"""

import io
import itertools
import json
import os
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

from labkit.pipeline.enhancer import Enhancer, postprocess, preprocess, trained
from labkit.pipeline.enhancing import Batch, Computing, Enhancing
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
from labkit.pipeline.journal import Journal, JournalError
from labkit.pipeline.scene import Scene
from labkit.pipeline.settings import Model, Processing, Settings
from labkit.pipeline.timer import Timer


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
    training: Callable[[int, int], None] = lambda step, steps: None,
) -> int:
    """The film at `target` is the one at `source`, made better; returns its number of frames.

    While it works, finished frames lie in `<target>.unfinished`. Stopped in any way, even killed,
    the same call goes on behind the last of them; only a finished film gets the name `target`.

    report    called after each frame
    training  called with the finished and all steps while a new job's network is trained

    Raises   VideoError   a file cannot be read, or belongs to a job with other settings
             OSError      no room; every finished frame is kept
    """
    settings, timer = settings or Settings(), timer or Timer()
    require_av()
    container_of(target)
    film = film_of(source)
    if Path(target).exists() and Path(target).samefile(source):
        raise VideoError(f"{target} is the film to be read; give the result another name")
    if contradiction := settings.contradiction():
        raise VideoError(contradiction)
    with _journal_of(target) as journal, Computing(settings.compute) as device:
        with timer("train"):
            model = _begun(journal, _job(source, film, settings), settings.model, training)
        resumed = len(journal) - 1
        batches = batches_of(source, settings.processing, resumed, timer)
        job = Enhancing(model.to(device), film, settings, device, timer)
        with closing(job.packets(batches)) as done:
            for packet in itertools.chain.from_iterable(done):
                with timer("write"):
                    journal.append(packet)
                report(Progress(len(journal) - 1, resumed, film.count))
        count = len(journal) - 1
        _name(target, journal, settings.processing.codec, film)
    return count


def batches_of(
    source: str | Path, processing: Processing, finished: int, timer: Timer
) -> Generator[Batch]:
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


def threads_of(target: str | Path) -> int | None:
    """PyTorch's threads in the unfinished job of this name; None where there is none.

    Raises   VideoError   its file is no such job's, or another process has it
    """
    if not Path(f"{target}.unfinished").exists():
        return None
    with _journal_of(target) as journal:
        if not len(journal):
            return None
        job = json.loads(journal[0].partition(b"\n")[0])
    threads: int = job["settings"]["compute"]["num_threads"]
    return threads


def _job(source: str | Path, film: Film, settings: Settings) -> dict[str, Any]:
    """What must be the same for frames of two runs to belong together."""
    about = Path(source).stat()
    return {
        "source": [str(Path(source).resolve()), about.st_size, about.st_mtime_ns],
        "film": [film.width, film.height, str(film.rate)],
        "settings": settings.of_the_film(),
    }


def _journal_of(target: str | Path) -> Journal:
    try:
        return Journal(f"{target}.unfinished")
    except JournalError as error:
        raise VideoError(str(error)) from None


def _begun(
    journal: Journal, job: dict[str, Any], settings: Model, training: Callable[[int, int], None]
) -> Enhancer:
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
        steps = settings.train_steps
        model = trained(settings.channels, steps, settings.seed, lambda step: training(step, steps))
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        journal.append(json.dumps(job).encode() + b"\n" + file.getvalue())
    if settings.exact:
        model.body = exact(model.body)
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
