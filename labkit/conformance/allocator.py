"""The caching allocator against recordings of PyTorch's own, and its settings parser live."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from labkit.conformance.allocator_settings import compare_installed, compare_recorded
from labkit.conformance.report import Comparison, InputError, Size
from labkit.core.carried import carried
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.replay.exactly import replay_exactly
from labkit.memory.replay.recording import Outcome, compare_program, load_recording
from labkit.memory.snapshots.snapshot import load

FIXTURES = carried("conformance/fixtures", "tests/memory/fixtures")

PROGRAMS_IN_SMALL = 8
"""Of each configuration, chosen by the seed; `full` runs all."""

TIB = 2**40
"""Bytes of a device whose size a snapshot's folder does not say: only reservations depend on it."""

NOT_MODELLED = (
    "several devices or threads, sharing between processes, checkpoints of private pools",
    "graph_capture_record_stream_reuse, release_lock_on_cudamalloc, throw_on_cudamalloc_oom and "
    "the asynchronous backend: read and checked, without effect",
    "graph capture, no_split and use_on_oom pools are modelled, but no recording covers them",
    "error messages after their first part: the advice and the process's own memory use",
)


SYSTEM = "CachingAllocator"
"""What another allocator is called in a file that is compared in place of labkit's."""


def compare(
    seed: int,
    size: Size,
    fixtures: str | None = None,
    system: type[CachingAllocator] = CachingAllocator,
) -> Iterator[Comparison]:
    """One line per recorded configuration, then settings, sizes and snapshots.

    fixtures  a directory of recordings; None: the ones in the repository
    system    the class of allocators; another than labkit's is asked the recorded programs alone

    Raises   InputError   the directory has no recordings, or a file is not one
    """
    folder = Path(fixtures) if fixtures else FIXTURES
    paths = sorted(folder.glob("*.json.gz"))
    if not paths:
        raise InputError(
            f"there are no recordings (*.json.gz) in {folder}; "
            "`labkit conformance allocator --fixtures DIR` names another directory"
        )
    chooser = random.Random(seed)
    for path in paths:
        recording = _checked(load_recording, path)
        try:
            if "programs" in recording:
                yield _compare_programs(recording, size, chooser, system)
            elif system is CachingAllocator:
                yield from compare_recorded(recording)
        except (KeyError, TypeError) as error:
            raise InputError(f"{path} is not as the format says: {error!r}") from error
    if system is not CachingAllocator:
        return
    yield from compare_installed(seed, 300 if size == "small" else 20_000)
    for kind in ("snapshots", "h200", "h100"):
        for path in sorted((folder / kind).glob("*.pickle.gz")):
            yield _compare_snapshot(path)


def _checked(load_file: Callable[[Path], dict[str, Any]], path: Path) -> dict[str, Any]:
    try:
        return load_file(path)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def _compare_programs(
    recording: dict[str, Any], size: Size, chooser: random.Random, system: type[CachingAllocator]
) -> Comparison:
    programs = recording["programs"]
    chosen = programs
    if size == "small" and len(programs) > PROGRAMS_IN_SMALL and recording["config"] != "tutorial":
        chosen = chooser.sample(programs, PROGRAMS_IN_SMALL)
    release = str(recording.get("torch_version", "unknown"))
    title = f"{recording['config']}, {len(chosen)} of {len(programs)} programs"
    if not release.startswith("2.13."):
        title += f", recorded from {release}, whose rules may differ from 2.13's"
    return _summary(title, [_outcome(recording, program, system) for program in chosen])


def _outcome(
    recording: dict[str, Any], program: dict[str, Any], system: type[CachingAllocator]
) -> Outcome:
    """Of one program; what another system than labkit's raises is its difference."""
    try:
        return compare_program(recording, program, system)
    except Exception as error:
        if system is CachingAllocator:
            raise
        where = f"{recording['config']}: program {program.get('name', program.get('seed'))!r}"
        return Outcome(Counter(runs=1), difference=f"{where} raises {error!r}")


def _compare_snapshot(path: Path) -> Comparison:
    """Replay a snapshot with what its folder's summary says about the device."""
    summary = path.parent / "summary.json"
    described: dict[str, Any] = {}
    if summary.exists():
        rows = json.loads(summary.read_text(encoding="utf-8"))["snapshots"]
        described = next((row for row in rows if row["file"] == path.name), {})
    release = str(described.get("torch_version", "2.13"))
    outcome = replay_exactly(
        _checked(load, path),
        device_total=described.get("device_total_bytes", TIB),
        memory_fraction=described.get("memory_fraction"),
        orders_by_birth=_release_number(release) >= (2, 13),
        title=path.name,
    )
    where = described.get("device", "")
    title = f"{path.parent.name}/{path.name}"
    return _summary(f"{title}, {where}, torch {release}" if where else title, [outcome])


def _release_number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+")[0].split(".")[:2])


def _summary(title: str, outcomes: list[Outcome]) -> Comparison:
    compared = sum((outcome.compared for outcome in outcomes), Counter())
    equal = sum((outcome.equal for outcome in outcomes), Counter())
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in compared.items())
    differences = [outcome.difference for outcome in outcomes if outcome.difference is not None]
    return Comparison(
        f"{title} ({kinds})",
        compared.total(),
        equal.total(),
        differences[0] if differences else None,
    )
