"""The video job's machinery beside its bounds, and the job's settings beside the naive one.

Stages are real work that releases Python's lock, and a pipeline of them has two bounds. Three that
compute, pictures packed by zlib, want three cores: their bound is the same stages in as many
threads with nothing handed from one to the other, measured in the same turns, on any cores.
Where one of them waits for a disk instead, two cores are enough, and the bound is the longest
stage alone; on cores that others use it says how busy they are.

A step that computes everything again needs one more forward. 1.36 is for a forward that is a third
of a step; where it is more, on this processor or for these layers, the step's own bound says so.

`results/pipeline.json` keeps what was measured.
"""

import mmap
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential
from torch.utils.data import DataLoader, IterableDataset

from labkit.bench import Bench, Count
from labkit.pipeline.adaptive import adaptive
from labkit.pipeline.bands import InBands
from labkit.pipeline.batch_search import largest_batch
from labkit.pipeline.enhancer import Enhancer, as_numbers, postprocess, preprocess, trained
from labkit.pipeline.frames import Encoder, film_of, read_frames, write_film
from labkit.pipeline.memory.capped import CappedMemory
from labkit.pipeline.memory.checkpointing import Checkpointed, Part, measured, plan, saved_bytes
from labkit.pipeline.scene import Scene
from labkit.pipeline.settings import Compute, Model, Processing, Settings
from labkit.pipeline.staged import prefetch, staged
from labkit.pipeline.video import enhance_film, make_example, naive

PICTURES = [Scene(height=270, width=480).recorded(index % 8).tobytes() for index in range(48)]
GOAL_OF_TWO, GOAL_OF_THREE = 1 / 0.95, 1 / 0.90
FILM = Scene(height=270, width=480, frames=16)
SIZES = {"1080p": (1080, 1920), "4K": (2160, 3840), "8K": (4320, 7680)}
BYTES_OF_A_PIXEL = 200
"""Of a frame computed whole: two layers' results, each in two orders, and what comes and goes."""


def packed(share: float) -> Callable[[bytes], bytes]:
    """Pack this share of a picture, and hand the picture on."""

    def stage(picture: bytes) -> bytes:
        zlib.compress(picture[: int(share * len(picture))])
        return picture

    return stage


FETCH, TRAIN, WRITE = packed(0.3), packed(1), packed(0.3)


def each(stage: Callable[[bytes], bytes]) -> None:
    """The stage on all pictures."""
    for picture in PICTURES:
        stage(picture)


def side_by_side(*stages: Callable[[bytes], bytes]) -> Callable[[], object]:
    """Each stage on all pictures in a thread of its own; none waits for another."""

    def run() -> None:
        with ThreadPoolExecutor(len(stages)) as pool:
            list(pool.map(each, stages))

    return run


def prefetched() -> None:
    """Fetching in a thread of its own, training in this one."""
    for picture in prefetch(map(FETCH, PICTURES)):
        TRAIN(picture)


def in_three_stages() -> None:
    """Each of three stages in a thread of its own."""
    for _ in staged(map(FETCH, PICTURES), TRAIN, WRITE):
        pass


def one_after_the_other() -> None:
    """All three stages of a picture, then the next picture."""
    for picture in PICTURES:
        WRITE(TRAIN(FETCH(picture)))


class Disk:
    """Pictures on a disk, read past the system's memory: who reads one really waits.

    Raises   OSError   the folder for temporary files is in memory, or its disk cannot be asked so
    """

    SIZE = 1 << 20
    """Bytes that are read for a picture, as a raw 4K frame has some of."""

    def __init__(self) -> None:
        with tempfile.NamedTemporaryFile(prefix="labkit-bench-") as file:
            file.write(os.urandom(self.SIZE) * len(PICTURES))
            file.flush()
            os.fsync(file.fileno())
            self.file = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        self.block = mmap.mmap(-1, self.SIZE)  # on a page's border, as the disk wants it

    def read(self) -> Iterator[bytes]:
        """Each picture, when its block is here."""
        for index, picture in enumerate(PICTURES):
            os.preadv(self.file, [self.block], index * self.SIZE)
            yield picture

    def prefetched(self) -> None:
        """Reading in a thread of its own, training in this one."""
        for picture in prefetch(self.read()):
            TRAIN(picture)

    def in_three_stages(self) -> None:
        """Reading, training and writing in a thread each."""
        for _ in staged(self.read(), TRAIN, WRITE):
            pass


def waiting_questions() -> Iterator[Bench]:
    """Pipelines with a stage that waits, beside the longest stage alone."""
    try:
        disk = Disk()
    except (OSError, AttributeError) as error:  # AttributeError: a system without O_DIRECT
        print(f"  a stage that waits: skipped, {tempfile.gettempdir()} has no disk to ask: {error}")
        return
    count, longest = len(PICTURES), partial(each, TRAIN)
    try:
        yield Bench("prefetch from a disk / the longest stage", disk.prefetched, longest,
                    GOAL_OF_TWO, 1, count)  # fmt: skip
        yield Bench("three stages, one at a disk / the longest stage", disk.in_three_stages,
                    longest, GOAL_OF_THREE, 1, count)  # fmt: skip
    finally:
        os.close(disk.file)


class SmallDevice:
    """A network on crops, on a device with room for some of them at once."""

    def __init__(self) -> None:
        self.model, self.crops = Enhancer(), torch.rand(6144, 3, 32, 32)
        self.best = largest_batch(lambda batch: self.run(self.crops[:batch])) or 1

    def run(self, crops: torch.Tensor) -> torch.Tensor:
        """The crops, made better.

        Raises   torch.OutOfMemoryError   they do not fit
        """
        with torch.inference_mode(), CappedMemory(4 << 20):
            return self.model(crops)

    def adapting(self) -> None:
        """All crops, in batches whose size is found on the way."""
        for _ in adaptive(self.run, self.crops):
            pass

    def fixed(self) -> None:
        """All crops, in the largest batches that fit."""
        for start in range(0, len(self.crops), self.best):
            for _ in self.run(self.crops[start : start + self.best]):
                pass


class Step:
    """A training step of a chain of convolutions whose forward is a third of the step."""

    def __init__(self) -> None:
        layers = [nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()) for _ in range(8)]
        self.chain, self.x = nn.Sequential(*layers), torch.rand(4, 64, 28, 28)
        self.costs = measured(self.chain, self.x)
        self.whole = sum(layer.saved for layer in self.costs)
        self.half = Checkpointed(self.chain, [Part(0, 4, True), Part(4, 8, False)])
        self.again = Checkpointed(self.chain, [Part(0, 4, True), Part(4, 8, True)])
        self.planned = Checkpointed(self.chain, plan(self.costs, 6 * self.whole // 10))

    def step(self, model: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        """Forward and backward, with the gradient of the input too."""
        return lambda: model(self.x.detach().requires_grad_()).sum().backward()

    def step_and_forward(self) -> None:
        """What a step that computes everything again has to do."""
        with torch.no_grad():
            self.chain(self.x)
        self.step(self.chain)()

    def torchs(self, x: torch.Tensor) -> torch.Tensor:
        """PyTorch's own checkpoints, the first of two halves computed again."""
        return checkpoint_sequential(self.chain, 2, x, use_reentrant=False)

    def saved(self, model: nn.Module) -> int:
        """Bytes that this way of computing the chain saves."""
        return saved_bytes(model, self.x.detach().requires_grad_())[0]

    def stated(self) -> int:
        """Bytes that the plan says are kept."""
        parts = self.planned.parts
        entries = sum(self.costs[part.start].entry for part in parts if part.again)
        kept = [self.costs[part.start : part.end] for part in parts if not part.again]
        return entries + sum(layer.saved for part in kept for layer in part)


class Torchs(nn.Module):
    """PyTorch's checkpoints of a chain, as a module."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.chain, self.run = step.chain, step.torchs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The chain's result."""
        return self.run(x)


def apart(name: str, one: Callable[[], float], other: Callable[[], float]) -> Count:
    """Two numbers of bytes are within 5 % of each other."""
    pair = one(), other()
    return Count(name, lambda: max(pair), lambda: min(pair), 1.05)


class Decoded(IterableDataset):  # type: ignore[misc]
    """The frames of a film, for a worker of a DataLoader."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Any]:
        return read_frames(self.path)


class Job:
    """The video job from one film to another, each time anew, with a network that is not trained.

    Its films lie in memory where there is a folder for that: a disk has moods.
    """

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self.folder = Path(
            tempfile.mkdtemp("", "labkit-bench-", memory if memory.is_dir() else None)
        )
        self.source, self.target = self.folder / "in.mkv", self.folder / "out.mkv"
        make_example(self.source, FILM)
        self.model = trained(steps=0)

    def naive(self) -> None:
        """The program of a few lines."""
        naive(self.source, self.target, self.model)

    def done_with(self, compute: Compute | None = None, **changes: Any) -> Callable[[], object]:
        """The job as a function, with these settings."""
        settings = Settings(compute or Compute(), Processing(**changes), Model(train_steps=0))
        return lambda: enhance_film(self.source, self.target, settings)

    def peer(self) -> Callable[[], object]:
        """The same job by torch's DataLoader, in a worker process, and torch.compile."""
        loader = DataLoader(
            Decoded(self.source), batch_size=None, num_workers=1, persistent_workers=True,
            collate_fn=lambda frame: frame,
        )  # fmt: skip
        network, film = torch.compile(self.model), film_of(self.source)

        def run() -> None:
            encoder, packets = Encoder("ffv1", film), []
            for frame in loader:
                with torch.no_grad():
                    better = network(preprocess([frame]))
                packets.append(encoder.encode(postprocess(better)[0]))
            write_film(self.target, "ffv1", film, packets)

        return run

    def clean_up(self) -> None:
        """Its films are gone."""
        shutil.rmtree(self.folder)


def job_questions(job: Job) -> Iterator[Bench]:
    """What each setting does to a whole film, and the tuned job beside its peers."""
    frames, plain = FILM.frames, job.done_with()
    tuned = job.done_with(Compute(engine="simd"), overlap=True)
    yield Bench("job, tuned / naive", tuned, job.naive, 1.0, 1, frames)
    yield Bench("job, tuned / naive, processor time", tuned, job.naive, 1.0, 1, frames, "process")
    yield Bench("job, tuned / DataLoader and torch.compile", tuned, job.peer(), 1.0, 1, frames)
    two = {"workers": 2}
    for name, changed in {
        "journal and checks": (plain, job.naive),
        "pinned_buffers: 2": (job.done_with(Compute(pinned_buffers=2)), plain),
        "batch_size: 8": (job.done_with(batch_size=8), plain),
        "graphs": (job.done_with(Compute(graphs=True)), plain),
        "engine: exported": (job.done_with(Compute(engine="exported")), plain),
        "engine: aot_inductor": (job.done_with(Compute(engine="aot_inductor")), plain),
        "engine: simd": (job.done_with(Compute(engine="simd")), plain),
        "overlap": (job.done_with(overlap=True), plain),
        "workers: 2, threads": (job.done_with(**two), plain),
        "workers: 2, threads, overlap": (job.done_with(overlap=True, **two), plain),
        "workers: 2, processes": (job.done_with(worker_kind="processes", **two), plain),
    }.items():
        yield Bench(f"job, {name} / without", *changed, None, 1, frames)


def pixel_questions() -> Iterator[Bench]:
    """A pixel of a large frame beside one of a small frame, and what bands gain or cost a frame."""
    whole = Enhancer()
    in_bands = InBands(whole)
    room = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def on(model: nn.Module, height: int, width: int) -> Callable[[], object]:
        frame = as_numbers(torch.randint(0, 256, (1, height, width, 3), dtype=torch.uint8))
        return torch.inference_mode()(lambda: model(frame))

    small = 540 * 960
    for name, (height, width) in SIZES.items():
        pixels = height * width
        if pixels * BYTES_OF_A_PIXEL > room:
            print(f"  a pixel at {name}: skipped, {room >> 20} MiB of memory are free")
            continue
        large = on(in_bands, height, width)
        yield Bench(
            f"a pixel at {name} / at 540p", large, on(in_bands, 540, 960), 2.0, 1, pixels, "cpu",
            small,
        )  # fmt: skip
        alone = on(whole, height, width)
        yield Bench(f"a {name} frame, in bands / whole", large, alone, None, 1, pixels, "cpu")


def BENCHES() -> Iterator[Bench | Count]:
    """Threads beside their bound first, then what the settings do to a whole job."""
    two, three = side_by_side(FETCH, TRAIN), side_by_side(FETCH, TRAIN, WRITE)
    count = len(PICTURES)
    yield Bench("prefetch / its bound", prefetched, two, GOAL_OF_TWO, 1, count)
    yield Bench("three stages / their bound", in_three_stages, three, GOAL_OF_THREE, 1, count)
    yield Bench("three stages / one thread", in_three_stages, one_after_the_other, None, 1, count)
    yield from waiting_questions()
    device = SmallDevice()
    mine, best = device.adapting, device.fixed
    yield Bench("adaptive / best fixed batch", mine, best, GOAL_OF_TWO, 1, 6144, clock="cpu")
    step = Step()
    plain = step.step(step.chain)
    for name, model in {
        "60 % of the bytes": step.planned, "half computed again": step.half,
        "all computed again": step.again,
    }.items():  # fmt: skip
        yield Bench(f"step, {name} / plain", step.step(model), plain, 1.36, 1, clock="cpu")
    bound = step.step_and_forward
    yield Bench("step, all computed again / its bound", step.step(step.again), bound, 1.02, 1,
                clock="cpu")  # fmt: skip
    torchs = Torchs(step)
    yield apart("bytes saved, half / by torch", lambda: step.saved(step.half),
                lambda: step.saved(torchs))  # fmt: skip
    yield apart("bytes saved, stated / by torch", step.stated, lambda: step.saved(step.planned))
    yield from pixel_questions()
    job = Job()
    try:
        yield from job_questions(job)
    finally:
        job.clean_up()
