"""PyTorch's memory snapshots, in and out: any release's file opens, a hostile one gets an error.

snapshot = load("snapshot.pickle")        # the dict torch.cuda.memory._snapshot() returns
trace = columns(snapshot)                 # arrays; see labkit.memory.snapshots.columns
trace = load_columns("snapshot.pickle")   # both, fastest: no dicts are made
part = load_part("snapshot.pickle", 0, 9) # the dict of a part, fast as well
save(allocator.snapshot(), "ours.pickle") # torch.cuda._memory_viz opens it

Sizes are bytes, times microseconds.
"""

import contextlib
import gzip
import io
import os
import pickle
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from labkit.memory.snapshots.columns import Columns, columns
from labkit.memory.snapshots.fast import read_fast
from labkit.memory.snapshots.part import between
from labkit.memory.snapshots.restricted_pickle import (
    Progress,
    SnapshotError,
    collector_paused,
    load_plain,
)
from labkit.memory.snapshots.stack_table import StackTable

__all__ = [
    "Columns", "SnapshotError", "StackTable", "columns", "load", "load_columns", "load_part",
    "save",
]  # fmt: skip

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Mapping[str, Any] | list[Any]
Used = TypeVar("Used")

MAX_BYTES = 4 << 30
EXPANDED_TIMES = 60  # gzip makes a snapshot 10 to 20 times smaller, and zeros 1000 times
EXPANDED_AT_LEAST = 64 << 20
PROTOCOL = 4  # the default of Python 3.8 to 3.13, and what MemoryViz's JavaScript reads


def load(
    source: Source, *, max_bytes: int = MAX_BYTES, progress: Progress | None = None
) -> dict[str, Any]:
    """The snapshot as PyTorch's dict: segments, device_traces, allocator_settings, ...

    source     a file (pickle, or gzipped pickle), its bytes, or the dict itself; the bare list of
               segments which torch.cuda.memory_snapshot() returns will do
    max_bytes  refuse pickles that are larger than this, after decompression
    progress   called with the fraction read so far

    Raises   SnapshotError      not a snapshot, not even a file, cut short, too large, or holding
                                anything but plain containers; nothing in it is ever executed
             FileNotFoundError  there is no such file
    Source   torch/cuda/memory.py  _snapshot, _dump_snapshot
    """
    if isinstance(source, Mapping | list):
        return _checked(source)
    with _opened(source, max_bytes) as (file, size):
        return _checked(load_plain(file, size, progress))


def load_columns(
    source: Source,
    device: int | None = None,
    *,
    max_bytes: int = MAX_BYTES,
    progress: Progress | None = None,
) -> Columns:
    """The snapshot in columns; most rows of a file never become a dict.

    A file that is not written as Python's pickler writes PyTorch's snapshots is read by `load`
    instead, which also says what is wrong with it.

    Raises   SnapshotError, FileNotFoundError   as `load` and `columns`
    """
    return _read(source, max_bytes, progress, lambda snapshot: columns(snapshot, device))


def load_part(
    source: Source,
    first: int,
    last: int,
    device: int | None = None,
    *,
    max_bytes: int = MAX_BYTES,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The snapshot as if taken before entry `last`, its trace from `first` on; see `between`.

    The entries outside of the part never become dicts, as in `load_columns`.

    Raises   SnapshotError, FileNotFoundError   as `load` and `between`
    """
    return _read(
        source, max_bytes, progress, lambda snapshot: between(snapshot, first, last, device)
    )


def _read(
    source: Source, max_bytes: int, progress: Progress | None, use: Callable[[dict[str, Any]], Used]
) -> Used:
    """What is made of the snapshot with its traces as tables, or else as lists of dicts."""
    with collector_paused():
        if isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
            # Whatever is the matter with the file: the careful reader says it, or reads it.
            with contextlib.suppress(Exception), _opened(source, max_bytes) as (file, size):
                return use(_checked(read_fast(file, size, progress)))
        return use(load(source, max_bytes=max_bytes, progress=progress))


def save(snapshot: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the snapshot as PyTorch does (gzipped when the name ends in .gz); returns the path.

    Raises   SnapshotError   the dict is not a snapshot; nothing is written then
    Source   torch/cuda/memory.py  _dump_snapshot
    """
    checked = _checked(snapshot)
    for device in range(max(1, len(checked["device_traces"]))):
        columns(checked, device)  # refuses what no viewer could read
    path = Path(path)
    with collector_paused():
        data = pickle.dumps(checked, protocol=PROTOCOL)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


@contextlib.contextmanager
def _opened(source: Any, max_bytes: int) -> Iterator[tuple[BinaryIO, int]]:
    """The pickle as a file, decompressed, and its size in bytes."""
    if isinstance(source, bytes | bytearray | memoryview):
        opened: BinaryIO = io.BytesIO(source)
        size = len(source)
    elif isinstance(source, str | os.PathLike):
        status = Path(source).stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe might never end
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise SnapshotError(f"{os.fspath(source)} is {kind}; a snapshot is a file")
        opened = open(source, "rb")  # noqa: PTH123, SIM115  closed below, as the bytes are
        size = status.st_size
    else:
        raise TypeError(
            f"a snapshot is a path, bytes or a dict, not a {type(source).__name__}: "
            f"{str(source)[:60]!r}"
        )
    with opened as file:
        start = file.read(4)
        file.seek(0)
        if start == b"PK\x03\x04":
            raise SnapshotError(
                "a zip archive, as torch.save writes; a snapshot is written by "
                "torch.cuda.memory._dump_snapshot"
            )
        if start[:2] == b"\x1f\x8b":
            data = _decompressed(file, size, max_bytes)
            file, size = io.BytesIO(data), len(data)
        if size > max_bytes:
            raise SnapshotError(f"the pickle has {size} bytes, more than max_bytes={max_bytes}")
        yield file, size


def _decompressed(file: BinaryIO, size: int, max_bytes: int) -> bytes:
    limit = min(max_bytes, max(EXPANDED_AT_LEAST, EXPANDED_TIMES * size))
    try:
        with gzip.GzipFile(fileobj=file) as unzipped:
            data = unzipped.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SnapshotError(f"the gzip file is damaged: {error}") from None
    if len(data) > limit:
        allowed = f"max_bytes={limit}" if limit == max_bytes else f"{limit} bytes"
        raise SnapshotError(f"the file of {size} bytes decompresses to more than {allowed}")
    return data


def _checked(value: Any) -> dict[str, Any]:
    """The snapshot with the keys every reader needs, or an error that says what was found."""
    if isinstance(value, list) and all(
        isinstance(row, dict) and "total_size" in row for row in value
    ):
        value = {"segments": value}
    if not isinstance(value, Mapping):
        raise SnapshotError(f"the pickle holds a {type(value).__name__}, a snapshot is a dict")
    if "segments" not in value and "device_traces" not in value:
        raise SnapshotError(
            f"a snapshot has segments and device_traces, found {[str(k)[:40] for k in value][:8]}"
        )
    return {
        **value,
        "segments": value.get("segments", []),
        "device_traces": value.get("device_traces", []),
    }
