"""Which way of working is the fastest on this machine, of those that change no byte of the film."""

import itertools
import os
import statistics
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from labkit.pipeline.enhancer import trained
from labkit.pipeline.enhancing import Batch, Computing, Enhancing
from labkit.pipeline.frames import VideoError, film_of
from labkit.pipeline.settings import Settings
from labkit.pipeline.timer import Timer
from labkit.pipeline.video import batches_of

FRAMES, TURNS = 16, 5


def ways(settings: Settings, threads: int | None = None) -> dict[str, Settings]:
    """A name -> these settings, with other hands at work.

    Where PyTorch may choose its threads, one inside of each operator is tried as well: threads that
    share an operator compete with those that share the film.

    threads  PyTorch's, where they are settled: those of a job that was begun
    """
    cores = os.cpu_count() or 1
    hands: dict[str, dict[str, Any]] = {
        "one after another": {"overlap": False, "workers": 0},
        "overlap": {"overlap": True, "workers": 0},
        f"{cores} threads": {"overlap": False, "workers": cores, "worker_kind": "threads"},
        f"{cores} processes": {"overlap": False, "workers": cores, "worker_kind": "processes"},
    }
    inside = {"": settings.compute.num_threads if threads is None else threads}
    if inside[""] == 0 and threads is None and cores > 1:
        inside[", num_threads 1"] = 1
    found = {
        name + also: replace(
            settings,
            compute=replace(settings.compute, num_threads=count),
            processing=replace(settings.processing, **each),
        )
        for name, each in hands.items()
        for also, count in inside.items()
        if not (also and name.endswith("processes"))  # they have one in any case
    }
    on_gpu = settings.compute.device != "cpu" and torch.cuda.is_available()
    return {
        name: one
        for name, one in found.items()
        if not (one.contradiction() or (on_gpu and name.endswith("processes")))
    }


def fastest(
    source: str | Path, settings: Settings, threads: int | None = None
) -> tuple[Settings, dict[str, float]]:
    """(the fastest of all ways, milliseconds per frame of each), on the film's first frames.

    They take turns, and the median counts; what gives other packets than the first is left out.

    threads  as in `ways`

    Raises   VideoError   the frames cannot be read, or the settings contradict each other
    """
    candidates = ways(settings, threads)
    if not candidates:
        raise VideoError(settings.contradiction())
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    right: list[list[bytes]] = []
    for name in itertools.chain(*[candidates] * TURNS):
        start = time.perf_counter()
        packets = _first_packets(source, candidates[name])
        right = right or packets
        if packets == right:
            taken[name].append(1e3 * (time.perf_counter() - start) / sum(map(len, packets)))
    each = {name: statistics.median(times) for name, times in taken.items() if len(times) == TURNS}
    return candidates[min(each, key=each.__getitem__)], each


def _first_packets(source: str | Path, settings: Settings) -> list[list[bytes]]:
    with Computing(settings.compute) as device:
        model = trained(settings.model.channels, steps=0)
        job = Enhancing(model.to(device), film_of(source), settings, device)
        with closing(job.packets(_first_batches(source, settings))) as packets:
            return list(packets)


def _first_batches(source: str | Path, settings: Settings) -> Generator[Batch]:
    count = -(-FRAMES // settings.processing.batch_size)
    with closing(batches_of(source, settings.processing, 0, Timer())) as batches:
        yield from itertools.islice(batches, count)
