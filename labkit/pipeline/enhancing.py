"""Batches of frames to packets: one stage after another, side by side, or by several workers.

Whoever does the work, the packets are the same, and in order.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labkit.pipeline import engines
from labkit.pipeline.bands import InBands
from labkit.pipeline.coarse import CoarseFirst
from labkit.pipeline.enhancer import as_numbers, postprocess
from labkit.pipeline.frames import Encoder, Film, VideoError
from labkit.pipeline.graph_runner import GraphRunner
from labkit.pipeline.memory.shared_pool import SharedPool
from labkit.pipeline.scene import Frame
from labkit.pipeline.settings import Compute, Settings
from labkit.pipeline.simd.engine import simd
from labkit.pipeline.staged import prefetch, staged
from labkit.pipeline.temporal import Reusing
from labkit.pipeline.thread_pipeline import thread_pipeline
from labkit.pipeline.timer import Timer
from labkit.pipeline.upload import Uploader

Batch = tuple[list[Frame], int]
"""Frames, and how many of them are finished already: the first ones."""
Stage = Callable[[Any], Any]
ENGINES = {
    each.__name__: each for each in (engines.exported, engines.aot_inductor, simd, engines.tensorrt)
}
"""The builders by the name that the settings have for them."""
HALF_A_STEP = 1 / 510
"""The most that an engine's numbers may be off; frames have steps of 1 / 255."""


@dataclass
class Enhancing:
    """What a job does with its batches.

    model    the network, on the device, and ready to be used by several threads
    timer    of every stage; what other processes do is not seen
    """

    model: nn.Module
    film: Film
    settings: Settings
    device: torch.device
    timer: Timer = field(default_factory=Timer)

    def packets(self, batches: Generator[Batch]) -> Generator[list[bytes]]:
        """The packets of each batch, without those that are finished.

        Raises   VideoError   the settings' engine is not here
        """
        processing = self.settings.processing
        room, workers = processing.max_queue_size, processing.workers
        if workers and processing.worker_kind == "processes":
            yield from self._by_processes(batches)
        elif workers:
            fetched = prefetch(batches, room) if processing.overlap else batches
            with closing(fetched):
                yield from thread_pipeline(
                    lambda: _in_turn(self.stages()), fetched, workers, workers + room
                )
        elif processing.overlap:
            yield from staged(batches, *self.stages(), room=room)
        else:
            yield from map(_in_turn(self.stages()), batches)

    def _by_processes(self, batches: Generator[Batch]) -> Generator[list[bytes]]:
        processing, encode = self.settings.processing, self.stages()[-1]
        if self.device.type != "cpu":
            raise VideoError("processes compute on the CPU: compute.device has to be cpu")
        shape = self.film.height, self.film.width, 3
        work = _OneFrame(self.model, self.film, self.settings, self.device)
        with SharedPool(work, shape, workers=processing.workers) as pool:
            better = ([frame] for frame in pool.map(frame for (frame,), _ in batches))
            if processing.overlap:
                yield from staged(better, encode, room=processing.max_queue_size)
            else:
                yield from map(encode, better)

    def stages(self) -> tuple[Stage, Stage, Stage]:
        """Upload, enhance and encode: functions of a batch, each for one thread at a time."""
        timer, compute, device = self.timer, self.settings.compute, self.device
        put = Uploader(device, compute.pinned_buffers).put if compute.pinned_buffers else self._put
        network, encoder = self._network(), Encoder(self.settings.processing.codec, self.film)
        dtype = getattr(torch, compute.precision)
        cached = not compute.graphs  # a cast kept by autocast would not outlive the capture

        def upload(batch: Batch) -> tuple[Tensor, int]:
            frames, done = batch
            with torch.inference_mode(), timer("preprocess"):
                return as_numbers(put(np.stack(frames))), done

        def enhance(batch: tuple[Tensor, int]) -> list[Frame]:
            pixels, done = batch
            wanted = dtype != torch.float32
            mixed = torch.autocast(device.type, dtype, enabled=wanted, cache_enabled=cached)
            with torch.inference_mode():
                with timer("network"), mixed:
                    better = network(pixels)
                with timer("postprocess"):
                    return postprocess(better)[done:]

        def encode(frames: list[Frame]) -> list[bytes]:
            with timer("encode"):
                return [encoder.encode(frame) for frame in frames]

        return upload, enhance, encode

    def _put(self, pixels: Any) -> Tensor:
        there: Tensor = torch.from_numpy(pixels).to(self.device)
        return there

    def _network(self) -> Stage:
        compute, processing = self.settings.compute, self.settings.processing
        if compute.graphs:
            return GraphRunner(self.model)
        if compute.engine != "none":
            return _Engine(self.model, compute.engine)
        model = InBands(self.model) if self.device.type == "cpu" else self.model
        if processing.coarse_unless_detailed is not None:
            return CoarseFirst(model, processing.coarse_unless_detailed)
        if processing.reuse_unless_moved is not None:
            return Reusing(model, processing.reuse_unless_moved)
        network: Stage = model
        return network


def _in_turn(stages: tuple[Stage, ...]) -> Stage:
    return lambda batch: reduce(lambda item, stage: stage(item), stages, batch)


class _Engine:
    """The network as an engine, which is made of it at the first batch."""

    def __init__(self, model: nn.Module, name: str) -> None:
        self.model, self.name = model, name
        self._compiled: engines.Compiled | None = None

    def __call__(self, pixels: Tensor) -> Tensor:
        if self._compiled is None:
            with torch.inference_mode(False), torch.no_grad():
                self._compiled = _engines(self.name).compile_for(self.model, pixels.clone())
            if self._compiled.name == "eager":
                raise VideoError(f"compute.engine cannot be had: {'; '.join(self._compiled.notes)}")
        return self._compiled(pixels)


@cache
def _engines(name: str) -> engines.EngineCache:
    """Those of this process, by content: a second job does not load the same one again."""
    return engines.EngineCache((ENGINES[name],), HALF_A_STEP)


class _OneFrame:
    """What a process does with a frame, where it lies; the network is made ready there."""

    def __init__(self, *job: Any) -> None:
        self.job = job
        self._better: Stage | None = None

    def __call__(self, frame: Frame) -> None:
        if self._better is None:
            torch.set_num_threads(1)  # after a fork, OpenMP's other threads are gone
            self._better = _in_turn(Enhancing(*self.job).stages()[:2])
        (frame[...],) = self._better(([frame], 0))


class Computing:
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
