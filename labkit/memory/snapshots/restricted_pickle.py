"""Unpickle plain containers only: a hostile or broken file gets an error and executes nothing."""

import contextlib
import gc
import io
import os
import pickle
import pickletools
import reprlib
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NoReturn

MIB = 1 << 20
MEMORY_PER_BYTE = 12  # of a trace without stacks 9; an empty list costs 72 for its one byte
MEMORY_AT_LEAST = 256 * MIB
SCANNED_BYTES = 8 * MIB
READ_BYTES = 256 * 1024  # the unpickler copies the whole buffer at each 64 KiB frame
REPORT_BYTES = 4 * MIB
TRIAL_SECONDS = 1  # of CPU, and one more for each 5 MB; a real snapshot takes a tenth of it
TRIAL_BYTES_A_SECOND = 5_000_000
LONGEST_TUPLE = 64  # a snapshot has pairs; hashing long ones, or tuples in tuples, takes for ever
NESTED = 3  # the exit status of a trial that met such a tuple

SHOWN = (str, int, float, bool, type(None))

Progress = Callable[[float], None]


class SnapshotError(ValueError):
    """A memory snapshot cannot be read: the message says what was found and what is allowed."""


def short(value: Any) -> str:
    """At most 60 characters that say what the value is, whatever it holds."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    return str(value)[:60] if isinstance(value, SHOWN) else reprlib.repr(value)[:60]


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise SnapshotError(
            f"the pickle asks for {module}.{name}; a snapshot holds only dict, list, tuple, set, "
            "str, bytes, int, float, bool and None"
        )

    def persistent_load(self, key: Any) -> NoReturn:
        raise SnapshotError(f"the pickle refers to an outside object {str(key)[:80]!r}")


def load_plain(file: BinaryIO, size: int, progress: Progress | None = None) -> Any:
    """The object in a pickle made of plain containers, read with the garbage collector paused.

    size      bytes in the file, which bounds the memory the load may take (12 bytes each)
    progress  called with the fraction read, every 4 MiB

    Raises   SnapshotError   a class or function is asked for, the file is cut short or not a
                             pickle, or it would take more memory or time than `size` can explain
    Differs  Memory is bounded by a limit on the address space, and time by reading the file in
             a child first: on Linux only. Elsewhere files up to 8 MiB are scanned opcode by
             opcode instead, and time is not bounded.
    """
    limit = MEMORY_AT_LEAST + MEMORY_PER_BYTE * size
    if _can_limit_memory():
        _refuse_endless(file, size, limit)
    elif size <= SCANNED_BYTES:
        _refuse_large_memo(file, size)
    reader = io.BufferedReader(_Reporting(file, size, progress), READ_BYTES)
    try:
        with collector_paused(), _memory_limited(limit):
            return _PlainUnpickler(reader).load()
    except SnapshotError:
        raise
    except MemoryError:
        raise SnapshotError(
            f"the pickle of {size} bytes asks for more than {limit // MIB} MiB of memory; "
            "no snapshot of that size does"
        ) from None
    except Exception as error:  # a broken stream can raise nearly anything: KeyError, IndexError...
        raise SnapshotError(
            f"not a whole pickle ({type(error).__name__}: {str(error)[:120]}) in {size} bytes"
        ) from None


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """The cyclic collector rests inside: millions of new containers would be walked repeatedly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Reporting(io.RawIOBase):
    """A file that tells how much of it has been read."""

    def __init__(self, file: BinaryIO, size: int, progress: Progress | None) -> None:
        self.file, self.size, self.progress = file, max(size, 1), progress
        self.done = self.reported = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self.file.readinto(buffer)  # type: ignore[attr-defined]
        self.done += count
        if self.progress and self.done - self.reported >= REPORT_BYTES:
            self.reported = self.done
            self.progress(min(1.0, self.done / self.size))
        return count


def _can_limit_memory() -> bool:
    return sys.platform == "linux"


@contextlib.contextmanager
def _memory_limited(extra_bytes: int) -> Iterator[None]:
    """At most this much more address space inside; an allocation beyond it is a MemoryError.

    A five-byte memo opcode can make the unpickler clear 64 GiB, which no size check foresees.
    """
    if not _can_limit_memory():
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  hot and tiny
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + extra_bytes
    for bound in (soft, hard):
        if bound != resource.RLIM_INFINITY:
            limit = min(limit, bound)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _refuse_endless(file: BinaryIO, size: int, memory: int) -> None:
    """A child reads the file first, with a limit on its CPU time.

    A dict's key may be a tuple that holds a tuple twice, and so on sixty deep: a few bytes, and
    hashing it never ends. No signal reaches Python code meanwhile, so only a child can be stopped.
    The same tuple as a value would wait for whoever hashes it.

    Raises   SnapshotError   the time did not suffice, or there is such a tuple
    """
    seconds = TRIAL_SECONDS + size // TRIAL_BYTES_A_SECOND
    with _place_kept(file):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a notebook has other threads
            child = os.fork()
        if child == 0:
            _try_to_read(file, seconds, memory)
        try:
            _, status = os.waitpid(child, 0)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
        raise SnapshotError(
            f"the pickle of {size} bytes was not read within {seconds} s of CPU time; "
            "no snapshot of that size takes so long"
        )
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == NESTED:
        raise SnapshotError(
            f"the pickle has a tuple in a tuple, or one of more than {LONGEST_TUPLE} values; "
            "a snapshot's tuples are pairs of numbers"
        )


def _try_to_read(file: BinaryIO, seconds: int, memory: int) -> NoReturn:
    """In the child: what goes wrong here is told when the file is read for good."""
    import resource

    try:
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)  # which may be lowered, and not raised
        most = seconds + 1 if hard == resource.RLIM_INFINITY else min(hard, seconds + 1)
        resource.setrlimit(resource.RLIMIT_CPU, (min(seconds, most), most))
        with collector_paused(), _memory_limited(memory):
            gc.freeze()  # from here on the collector's list holds what is read, and no more
            read = _PlainUnpickler(io.BufferedReader(_Reporting(file, 0, None), READ_BYTES)).load()
            tuples = (each for each in gc.get_objects(0) if type(each) is tuple)
            if read is not None and not all(map(is_simple, tuples)):
                os._exit(NESTED)
    finally:
        os._exit(0)


def is_simple(value: tuple[Any, ...]) -> bool:
    """Whether the tuple can be hashed at once: it is short, and there is none in it."""
    return len(value) <= LONGEST_TUPLE and tuple not in map(type, value)


@contextlib.contextmanager
def _place_kept(file: BinaryIO) -> Iterator[None]:
    """Parent and child share the place in an open file: afterwards it is where it was."""
    try:
        descriptor = file.fileno()
    except OSError:  # a file in memory: the child has its own
        yield
        return
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        yield
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)


def _refuse_large_memo(reader: BinaryIO, size: int) -> None:
    data = reader.read()
    reader.seek(0)
    try:
        for opcode, argument, position in pickletools.genops(data):
            if "PUT" in opcode.name and isinstance(argument, int) and argument > size:
                raise SnapshotError(
                    f"byte {position}: memo slot {argument} in a pickle of {size} bytes"
                )
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(f"not a whole pickle ({error}) in {size} bytes") from None
