"""The settings of the video job; `labkit.pipeline.config` reads them from YAML."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from labkit.pipeline.config import setting
from labkit.pipeline.frames import Codec


@dataclass(frozen=True)
class Compute:
    """Where and how the network computes; 0 threads is PyTorch's own choice.

    graphs          capture the network once for each shape of a batch, and replay it
    engine          compute whole batches by an engine of `labkit.pipeline`: simd is made for this
                    network and compiled in seconds, AOTInductor needs half a minute, once
    pinned_buffers  page-locked buffers through which frames go to a GPU; with 0 they go directly
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    allow_tf32: bool = False
    num_threads: int = setting(0, at_least=0)
    graphs: bool = False
    engine: Literal["none", "exported", "aot_inductor", "simd", "tensorrt"] = "none"
    pinned_buffers: int = setting(0, at_least=0)


@dataclass(frozen=True)
class Processing:
    """How frames move: how many at once, and who works on them at the same time.

    overlap                 decoding, the network and encoding each have a thread of their own
    workers, worker_kind    this many threads each enhance and encode batches of their own, or this
                            many processes enhance frames in shared memory; 0: none
    max_queue_size          batches that may wait between two stages, or for a worker
    reuse_unless_moved      compute again only where a pixel moved by more steps of 0..255 than
                            this; the first frame of each batch is computed whole
    coarse_unless_detailed  compute at half the size, and again only the blocks that lose more
                            steps of 0..255 by that
    """

    batch_size: int = setting(1, at_least=1)
    overlap: bool = False
    workers: int = setting(0, at_least=0)
    worker_kind: Literal["threads", "processes"] = "threads"
    max_queue_size: int = setting(2, at_least=1)
    on_damaged_frame: Literal["stop", "repeat"] = "stop"
    codec: Codec = "ffv1"
    reuse_unless_moved: int | None = setting(None, at_least=0)
    coarse_unless_detailed: int | None = setting(None, at_least=0)


SAME_FILM = {"overlap", "workers", "worker_kind", "max_queue_size", "pinned_buffers"}
"""Settings that change no byte of the result: a job may go on with others."""


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

    def contradiction(self) -> str:
        """Why these settings cannot be had together, or nothing."""
        compute, processing = self.compute, self.processing
        shortcuts = processing.reuse_unless_moved, processing.coarse_unless_detailed
        in_processes = processing.workers and processing.worker_kind == "processes"
        if None not in shortcuts:
            return "reuse_unless_moved or coarse_unless_detailed: a job takes one of them"
        if compute.graphs and shortcuts != (None, None):
            return "a graph repeats one computation; reuse and detail decide frame by frame"
        if compute.engine != "none":
            if compute.graphs or shortcuts != (None, None) or compute.precision != "float32":
                return "an engine computes whole float32 frames: no graphs, reuse or detail"
            if processing.workers:
                return "an engine computes one batch at a time: workers have to be 0"
        if in_processes and processing.batch_size != 1:
            return "processes take one frame at a time: batch_size has to be 1"
        return ""

    def of_the_film(self) -> dict[str, Any]:
        """The settings on which the bytes of the result depend."""
        return {
            section: {name: value for name, value in values.items() if name not in SAME_FILM}
            for section, values in asdict(self).items()
        }
