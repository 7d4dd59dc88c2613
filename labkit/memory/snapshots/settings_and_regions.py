"""What a snapshot says besides memory: the settings in force, and regions the program named."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from labkit.memory.snapshots.restricted_pickle import SnapshotError, short

MOST_SETTINGS = 1000
DEEPEST = 4  # PyTorch's own are two deep
SCALARS = (str, int, float, bool, type(None))


class Annotation(NamedTuple):
    """One mark of `torch.profiler.record_function`: it starts or ends the region of that name.

    Source   torch/csrc/cuda/memory_snapshot.cpp  _initRecordAnnotations
    """

    name: str
    starts: bool
    time_us: int


class Region(NamedTuple):
    """A named part of the program, and the trace entries [first, last) it covers."""

    name: str
    first: int
    last: int
    depth: int


def settings_in(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded settings: names and plain values, those of later releases included.

    Raises   SnapshotError   they are no dict, hold something else, or themselves
    """
    settings = snapshot.get("allocator_settings")
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise SnapshotError(f"allocator_settings is a {type(settings).__name__}, not a dict")
    count = 0
    waiting = [("allocator_settings", settings, 0)]
    while waiting:
        where, value, depth = waiting.pop()
        count += 1
        if depth > DEEPEST or count > MOST_SETTINGS:
            raise SnapshotError(f"{where}: settings are nested deeper than {DEEPEST} or too many")
        if isinstance(value, dict):
            waiting += [(f"{where}.{short(k)}", v, depth + 1) for k, v in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(f"{where}[{i}]", item, depth + 1) for i, item in enumerate(value)]
        elif type(value) not in SCALARS or (type(value) is int and value.bit_length() > 64):
            raise SnapshotError(f"{where} is {short(value)!r}, not a plain setting")
    return {str(key): value for key, value in settings.items()}


def annotations_of(snapshot: Mapping[str, Any], device: int) -> tuple[Annotation, ...]:
    """The marks of one device, in the order they were made.

    Raises   SnapshotError   a mark is no dict, or its name, stage or time is of another kind
    """
    marks = snapshot.get("external_annotations") or ()
    if not isinstance(marks, list | tuple):
        raise SnapshotError(f"external_annotations is a {type(marks).__name__}, not a list")
    return tuple(_annotations(marks, device))


def _annotations(marks: Any, device: int) -> Iterator[Annotation]:
    for number, mark in enumerate(marks):
        where = f"external_annotations[{number}]"
        if not isinstance(mark, dict):
            raise SnapshotError(f"{where} is a {type(mark).__name__}, not a dict")
        if mark.get("device", device) != device or mark.get("stage") not in ("START", "END"):
            continue
        name, time_us = mark.get("name"), mark.get("time_us")
        if not isinstance(name, str) or type(time_us) is not int or time_us.bit_length() > 63:
            raise SnapshotError(
                f"{where}: name is {short(name)!r} and time_us {short(time_us)!r}; a str and a "
                "whole number are needed"
            )
        yield Annotation(name, mark["stage"] == "START", time_us)
