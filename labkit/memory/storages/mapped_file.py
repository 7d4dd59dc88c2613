"""Storage that is a file: the operating system brings pages in when they are touched."""

import ctypes
import mmap
import os
from pathlib import Path

from labkit.core.allocator import DataPtr
from labkit.core.device import CPU


class MappedFile:
    """A file seen as memory.

    path    the file
    nbytes  how much of it from the start; None: all
    shared  True: what is written to the memory is written to the file, and other mappings of it
            see it. False: a private copy of each page that is written, the file stays as it is

    A shared mapping may be larger than the file: the file grows, filled with zeros, and is created
    when there is none. A private one may not: its pages would have nothing behind them.

    Raises   FileNotFoundError   no such file, and not `shared`
             PermissionError     the file cannot be read, or not written when `shared`
             ValueError          0 bytes, or a private mapping larger than the file
             IsADirectoryError   a directory

    Source   aten/src/ATen/MapAllocator.cpp  MapAllocator; torch/storage.py  from_file
    """

    def __init__(
        self, path: str | os.PathLike[str], nbytes: int | None = None, *, shared: bool = False
    ) -> None:
        self.path = Path(path)
        self.shared = shared
        if nbytes is not None and nbytes <= 0:
            raise ValueError(f"cannot map {nbytes} bytes of {self.path}")
        flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
        descriptor = os.open(self.path, flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            self.nbytes = size if nbytes is None else nbytes
            if self.nbytes == 0:
                raise ValueError(f"{self.path} is empty: there is nothing to map")
            if self.nbytes > size:
                if not shared:
                    raise ValueError(
                        f"{self.path} has {size} bytes, a private mapping of {self.nbytes} would "
                        "have nothing behind its end; shared=True lets the file grow"
                    )
                os.ftruncate(descriptor, self.nbytes)
            access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
            self._map: mmap.mmap | None = mmap.mmap(descriptor, self.nbytes, access=access)
        finally:
            os.close(descriptor)  # the mapping keeps the file open

    @property
    def address(self) -> int:
        """Where the first byte is in memory; it moves with `resize`."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self._mapped()))

    def data_ptr(self) -> DataPtr:
        """The bytes as a storage takes them; meanwhile the mapping can neither move nor close."""
        held = ctypes.c_char.from_buffer(self._mapped())
        return DataPtr(ctypes.addressof(held), CPU, held, lambda held: None)

    def read(self, offset: int, nbytes: int) -> bytes:
        """`nbytes` bytes from `offset` on."""
        self._check(offset, nbytes)
        return self._mapped()[offset : offset + nbytes]

    def write(self, offset: int, data: bytes) -> None:
        """The bytes are in memory, and with `shared` in the file for every other reader."""
        self._check(offset, len(data))
        self._mapped()[offset : offset + len(data)] = data

    def resize(self, nbytes: int) -> None:
        """The mapping and its file have `nbytes` bytes; new ones are zero. The address may change.

        Raises   ValueError    a private mapping, or fewer than 1 byte
                 BufferError   a storage still points at the bytes
        """
        if not self.shared:
            raise ValueError(f"{self.path} is mapped privately; only a shared mapping can resize")
        if nbytes <= 0:
            raise ValueError(f"cannot resize the mapping of {self.path} to {nbytes} bytes")
        self._mapped().flush()
        self._mapped().resize(nbytes)
        self.nbytes = nbytes

    def flush(self) -> None:
        """What was written to a shared mapping is on the disk."""
        self._mapped().flush()

    def check_file(self) -> None:
        """Raise if the file was cut short behind our back: touching those bytes kills the process.

        Raises   ValueError   the file is smaller than the mapping
        """
        size = self.path.stat().st_size
        if size < self.nbytes:
            raise ValueError(
                f"{self.path} was truncated to {size} bytes, {self.nbytes} are mapped: the kernel "
                f"answers an access to the last {self.nbytes - size} with SIGBUS"
            )

    def close(self) -> None:
        """The mapping is gone; a second call does nothing.

        Raises   BufferError   a storage still points at the bytes
        """
        if self._map is not None:
            self._map.close()
            self._map = None

    def __enter__(self) -> "MappedFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        kind = "shared" if self.shared else "private"
        return f"MappedFile({self.path.name!r}, {self.nbytes} bytes, {kind})"

    def _mapped(self) -> mmap.mmap:
        if self._map is None:
            raise ValueError(f"the mapping of {self.path} is closed")
        return self._map

    def _check(self, offset: int, nbytes: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise IndexError(
                f"bytes {offset} to {offset + nbytes} lie outside the mapping of {self.nbytes}"
            )
        self.check_file()
