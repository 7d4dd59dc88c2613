"""Results kept on disk: a file under its final name is whole, or it is taken for missing.

Each entry is one file: a header with length and checksum, then the tensor as `torch.save` writes
it. It is written elsewhere and renamed, so a process killed at any moment leaves no half entry.
What is read is only ever data: `weights_only` refuses everything else.
"""

import hashlib
import io
import json
import os
import pickle
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import torch

MAGIC = b"labkit cache 1\n"
HEADER = struct.Struct("<QI")
UNFINISHED = ".unfinished"


def key_of(*parts: Any, **parameters: Any) -> str:
    """A name that is another one whenever any of these values is; they are plain data.

    Raises   TypeError   a value is not: what it means may change without its text changing
    """
    text = json.dumps([parts, parameters], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class DiskCache:
    """Tensors, and lists and dicts of them, by key, in a folder; the least recently used go first.

    limit   bytes of all files together, at most; what is larger alone is not kept
    hits, misses   of `get`; damaged   files that were not whole, and are gone
    """

    def __init__(self, folder: str | Path, limit: int) -> None:
        self.folder, self.limit = Path(folder), limit
        self.hits = self.misses = self.damaged = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(f"*{UNFINISHED}"):  # of a process that died
            left.unlink(missing_ok=True)
        self._evict()

    def get(self, key: str) -> Any:
        """What was put under the key, or None."""
        path = self.folder / key
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            self.misses += 1
            return None
        try:
            value = _read(content)
        except (ValueError, pickle.UnpicklingError, RuntimeError, EOFError):
            self.damaged += 1
            self.misses += 1
            path.unlink(missing_ok=True)
            return None
        self.hits += 1
        os.utime(path)
        return value

    def put(self, key: str, value: Any) -> None:
        """The value is there for this and every later process, as long as there is room.

        Raises   OSError   no room on the disk; nothing has changed
        """
        content = _written(value)
        if len(content) > self.limit:
            return
        handle, name = tempfile.mkstemp(suffix=UNFINISHED, dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.folder / key)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self._evict()

    @property
    def nbytes(self) -> int:
        """Of all entries together."""
        return sum(size for _, size, _ in self._entries())

    def _evict(self) -> None:
        entries = sorted(self._entries())
        held = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if held <= self.limit:
                return
            path.unlink(missing_ok=True)
            held -= size

    def _entries(self) -> list[tuple[int, int, Path]]:
        """(last used, bytes, path) of each file; another process may take one away meanwhile."""
        found = []
        for path in self.folder.iterdir():
            try:
                about = path.stat()
            except FileNotFoundError:
                continue
            if path.suffix != UNFINISHED:
                found.append((about.st_mtime_ns, about.st_size, path))
        return found


def _written(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    body = file.getvalue()
    return MAGIC + HEADER.pack(len(body), zlib.crc32(body)) + body


def _read(content: bytes) -> Any:
    start = len(MAGIC) + HEADER.size
    if len(content) < start or not content.startswith(MAGIC):
        raise ValueError("no cache entry")
    length, checksum = HEADER.unpack(content[len(MAGIC) : start])
    body = content[start:]
    if len(body) != length or zlib.crc32(body) != checksum:
        raise ValueError("the entry is not whole")
    return torch.load(io.BytesIO(body), weights_only=True)
