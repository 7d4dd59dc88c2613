"""The video job's machinery beside its bounds, and the job's settings beside the naive one.

Adaptive batches run beside the largest fixed batch that fits, on a device of a stated size.

Stages are real work that releases Python's lock: pictures are packed by zlib. The bound of stages
side by side is the longest of them. It takes two idle cores to reach it: the other stages together
need less than the longest one. On a machine that is busy with other work the goals are missed.
"""

import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from labkit.bench import Bench
from labkit.pipeline.adaptive import adaptive
from labkit.pipeline.batch_search import largest_batch
from labkit.pipeline.enhancer import Enhancer
from labkit.pipeline.memory.capped import CappedMemory
from labkit.pipeline.memory.checkpointing import Checkpointed, Part, measured, plan
from labkit.pipeline.scene import Scene
from labkit.pipeline.staged import prefetch, staged
from labkit.pipeline.video import Model, Processing, Settings, enhance_film, make_example

PICTURES = [Scene(height=270, width=480).recorded(index).tobytes() for index in range(24)]
NAIVE = Settings(model=Model(train_steps=0))
GOAL_OF_TWO, GOAL_OF_THREE = 1 / 0.95, 1 / 0.90


def packed(share: float) -> Callable[[bytes], bytes]:
    """Pack this share of a picture, and hand the picture on."""

    def stage(picture: bytes) -> bytes:
        zlib.compress(picture[: int(share * len(picture))])
        return picture

    return stage


FETCH, TRAIN, WRITE = packed(0.3), packed(1), packed(0.3)


def alone() -> None:
    """The longest stage, with nothing beside it."""
    for picture in PICTURES:
        TRAIN(picture)


def one_after_the_other() -> None:
    """All three stages of a picture, then the next picture."""
    for picture in PICTURES:
        WRITE(TRAIN(FETCH(picture)))


def prefetched() -> None:
    """Fetching in a thread of its own, training in this one."""
    for picture in prefetch(map(FETCH, PICTURES)):
        TRAIN(picture)


def in_three_stages() -> None:
    """Each of three stages in a thread of its own."""
    for _ in staged(map(FETCH, PICTURES), TRAIN, WRITE):
        pass


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
    """A training step of a chain of convolutions, and one that computes all of it again."""

    def __init__(self) -> None:
        layers = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()) for _ in range(8)]
        self.chain, self.x = nn.Sequential(*layers), torch.rand(8, 16, 48, 48)
        costs = measured(self.chain, self.x)
        whole = sum(layer.saved for layer in costs)
        self.again = Checkpointed(self.chain, [Part(0, 4, True), Part(4, 8, True)])
        self.part = Checkpointed(self.chain, plan(costs, 7 * whole // 10))

    def step(self, model: nn.Module) -> Callable[[], object]:
        """Forward and backward, with the gradient of the input too."""
        return lambda: model(self.x.detach().requires_grad_()).sum().backward()


class Job:
    """The video job from one film to another, each time anew."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="labkit-bench-"))
        make_example(self.folder / "in.mkv", Scene(height=135, width=240))

    def done_with(self, **changes: object) -> Callable[[], object]:
        """The job as a function, with these settings of its processing."""
        settings = replace(NAIVE, processing=Processing(**changes))
        return lambda: enhance_film(self.folder / "in.mkv", self.folder / "out.mkv", settings)

    def clean_up(self) -> None:
        """Its films are gone."""
        shutil.rmtree(self.folder)


def BENCHES() -> Iterator[Bench]:
    """Threads beside their bound first, then what the settings do to a whole job."""
    yield Bench("prefetch / its bound", prefetched, alone, GOAL_OF_TWO, calls=1, work=24)
    yield Bench("three stages / their bound", in_three_stages, alone, GOAL_OF_THREE, 1, 24)
    yield Bench("three stages / one thread", in_three_stages, one_after_the_other, None, 1, 24)
    device = SmallDevice()
    mine, best = device.adapting, device.fixed
    yield Bench("adaptive / best fixed batch", mine, best, GOAL_OF_TWO, 1, 6144, clock="cpu")
    step = Step()
    plain = step.step(step.chain)
    yield Bench(
        "step, all computed again / plain", step.step(step.again), plain, 1.36, 1, clock="cpu"
    )
    yield Bench(
        "step, 70 % of the bytes / plain", step.step(step.part), plain, 1.36, 1, clock="cpu"
    )
    job = Job()
    try:
        naive = job.done_with()
        yield Bench("job, overlap / naive", job.done_with(overlap=True), naive, None, 1, 24)
        yield Bench("job, batches of 8 / naive", job.done_with(batch_size=8), naive, None, 1, 24)
    finally:
        job.clean_up()
