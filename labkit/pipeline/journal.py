"""A file of records to which a program adds; whenever it dies, what it had added is there.

Each record stands behind its length and its checksum. Whoever opens the file again reads up to the
first record that is not whole, and cuts the rest off. A record is safe from the end of the process
once `append` has returned, and from a loss of power once `sync` has.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"labkit journal 1\n"
HEADER = struct.Struct("<II")


class JournalError(Exception):
    """The file is no journal, or another process is writing to it."""


class Journal:
    """The records of one file, locked for this process.

    path  where it lies; len(journal) records are whole
    """

    def __init__(self, path: str | Path) -> None:
        """Open the file, or begin it; a record that was cut short is gone.

        Raises   JournalError   it is no journal, or another process has it open
                 OSError        it cannot be opened or written
        """
        self.path = Path(path)
        self._file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644), "r+b", 0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._records = self._whole_records()
            self._file.truncate(self._end)
        except BlockingIOError:
            self._file.close()
            raise JournalError(f"another process is writing to {self.path}") from None
        except BaseException:
            self._file.close()
            raise

    def _whole_records(self) -> list[tuple[int, int]]:
        """(offset, length) of each record, and `_end` behind the last one."""
        start = self._file.read(len(MAGIC))
        if not MAGIC.startswith(start):
            raise JournalError(f"{self.path} is not a journal; delete or rename it")
        if len(start) < len(MAGIC):
            self._write_all(MAGIC, 0)
        self._end = len(MAGIC)
        found: list[tuple[int, int]] = []
        while True:
            self._file.seek(self._end)
            header = self._file.read(HEADER.size)
            if len(header) < HEADER.size:
                return found
            length, checksum = HEADER.unpack(header)
            offset = self._end + HEADER.size
            if length > os.fstat(self._file.fileno()).st_size - offset:
                return found
            if zlib.crc32(self._file.read(length)) != checksum:
                return found
            found.append((offset, length))
            self._end = offset + length

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> bytes:
        """The content of one record."""
        offset, length = self._records[index]
        return os.pread(self._file.fileno(), length, offset)

    def __iter__(self) -> Iterator[bytes]:
        return (self[index] for index in range(len(self)))

    def append(self, content: bytes) -> None:
        """One more record is in the file, or, if this raises, none of it.

        Raises   OSError   no room
        """
        record = HEADER.pack(len(content), zlib.crc32(content)) + content
        try:
            self._write_all(record, self._end)
        except OSError:
            self._file.truncate(self._end)
            raise
        self._records.append((self._end + HEADER.size, len(content)))
        self._end += len(record)

    def _write_all(self, content: bytes, at: int) -> None:
        rest = memoryview(content)
        while rest:
            written = os.pwrite(self._file.fileno(), rest, at)
            rest, at = rest[written:], at + written

    def sync(self) -> None:
        """What was appended survives a loss of power."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """The file is free for another process."""
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
