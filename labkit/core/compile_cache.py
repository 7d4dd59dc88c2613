"""Compiled files, kept between runs where nobody but the user could have put them.

What lies here is loaded into this process, so it is checked before each use: the folder is the
user's own, closed to everybody else, and an entry is the bytes its name was given for. An entry
that fails is built again; a folder that cannot be used is replaced, with a sentence, by a private
one that goes with the process. Everything labkit compiles comes through `kept`.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

OTHERS_MAY_WRITE = 0o022
OTHERS_MAY_ANYTHING = 0o077
COMPILED = "compiled"

_made_here: set[Path] = set()
_names: dict[tuple[Path, str, str], str] = {}
"""Of entries that were used before: a course leaves thousands, and to look through them costs."""
_said: set[str] = set()


class Unusable(Exception):
    """The folder cannot hold compiled files; says why, in words for the user."""


def directory() -> Path:
    """Where compiled files are to be kept: $LABKIT_CACHE, else labkit's in the user's cache.

    Raises   Unusable   no folder is the user's
    """
    chosen = os.environ.get("LABKIT_CACHE")
    if chosen:
        return Path(chosen).absolute()
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise Unusable("HOME is not set") from None
    return Path(base).absolute() / "labkit"


def open_directory() -> Path:
    """The folder of the entries, which exists, is the user's own and closed to everybody else.

    One that others could write to is closed, and what had been kept in it is not believed.

    Raises   Unusable   it is another user's, or cannot be made or closed
    """
    base = directory()
    compiled = base / COMPILED
    try:
        for folder in (*reversed(base.parents), base):
            _make(folder)
        was_open = _close(base, base.stat())
        _make(compiled)
        was_open |= _close(compiled, compiled.lstat())  # a link could lead to any folder of yours
        if was_open:
            for entry in compiled.iterdir():
                if not entry.is_dir():
                    entry.unlink()
    except OSError as error:
        raise Unusable(f"{base} cannot be used: {error.strerror or error}") from None
    return compiled


def _make(folder: Path) -> None:
    if not folder.exists():
        with contextlib.suppress(FileExistsError):  # another process was faster
            folder.mkdir(mode=0o700)


def _close(folder: Path, found: os.stat_result) -> bool:
    """Only the user may look into or write to the folder; True when others could write before.

    Raises   Unusable   it is not the user's, or its disk keeps no modes
    """
    if not stat.S_ISDIR(found.st_mode):
        raise Unusable(f"{folder} is not a folder")
    if found.st_uid != os.geteuid():
        raise Unusable(
            f"{folder} belongs to user {found.st_uid}, and you are user {os.geteuid()}: "
            "its owner could put any program there, so nothing in it is used"
        )
    if found.st_mode & OTHERS_MAY_ANYTHING:
        folder.chmod(0o700)
    if folder.stat().st_mode & OTHERS_MAY_WRITE:
        raise Unusable(f"{folder} can be written to by everybody, and its disk keeps no modes")
    return bool(found.st_mode & OTHERS_MAY_WRITE)


def kept(name: str, key: Sequence[str], build: Callable[[Path], None], suffix: str = ".so") -> Path:
    """The file that `build` makes, built unless it lies here already.

    name   for people who look into the folder
    key    all that the file depends on; what `-march=native` depends on is added
    build  leaves the file at the path it is given, which is in a private temporary folder
    """
    digest = hashlib.sha256("\0".join((*key, machine())).encode()).hexdigest()[:24]
    stem = f"{name}-{digest}"
    try:
        place, trouble = open_directory(), ""
    except Unusable as why:
        place, trouble = _private_folder(), str(why)
        _say(trouble)
    found = _entry(place, stem, suffix)
    if found is not None:
        return found
    with _alone(place / f"{stem}.building") as waited:
        found = _entry(place, stem, suffix) if waited else None
        if found is not None:
            return found
        with tempfile.TemporaryDirectory(prefix="labkit-build-") as scratch:
            built = Path(scratch) / f"built{suffix}"
            build(built)
            try:
                path = _keep(built, place, stem, suffix)
            except OSError as error:
                _say(f"{place} cannot be written to: {error.strerror or error}")
                path = _keep(built, _private_folder(), stem, suffix)
    _made_here.add(path)
    return path


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """No other process builds the same inside; whether one had to be waited for.

    The emulator alone takes many seconds. Where no lock can be had, on a full disk for one,
    everybody builds for himself.
    """
    waited = False
    with contextlib.ExitStack() as ending:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            ending.callback(os.close, descriptor)
            ending.callback(path.unlink, missing_ok=True)
            ending.callback(lambda: fcntl.flock(descriptor, fcntl.LOCK_UN))  # a fork may hold it
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield waited


def loaded(
    find: Callable[[], Path],
    load: Callable[[Path], T],
    refusal: type[Exception] | tuple[type[Exception], ...] = OSError,
) -> T:
    """What `load` makes of a kept file; one that does not load is built again, once.

    A disk that two machines share has files that only one of them can load. What this very
    process has built is not built again: it would not load either.

    find      asks `kept`
    refusal   what `load` raises when it cannot
    """
    path = find()
    try:
        return load(path)
    except refusal:
        if path in _made_here:
            raise
        with contextlib.suppress(OSError):
            path.unlink()
    return load(find())


def _entry(place: Path, stem: str, suffix: str) -> Path | None:
    """The entry of that stem whose bytes are the ones its name was given for."""
    pattern = re.compile(re.escape(stem) + r"\.(\d+)\.([0-9a-f]{32})" + re.escape(suffix))
    for match in filter(None, map(pattern.fullmatch, _candidates(place, stem, suffix))):
        path = place / match[0]
        if _is_intact(path, int(match[1]), match[2]):
            _names[place, stem, suffix] = match[0]
            return path
        with contextlib.suppress(OSError):
            path.unlink()
    return None


def _candidates(place: Path, stem: str, suffix: str) -> Iterator[str]:
    """Names in the folder that begin so; it is only looked through when the known one fails."""
    if known := _names.pop((place, stem, suffix), None):
        yield known
    with contextlib.suppress(OSError):
        yield from sorted(n for n in os.listdir(place) if n.startswith(stem))  # noqa: PTH208  names


def _is_intact(path: Path, size: int, digest: str) -> bool:
    try:
        found = path.lstat()
        mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        return mine and found.st_size == size and _digest(path) == digest
    except OSError:  # another process took it away
        return False


def _keep(built: Path, place: Path, stem: str, suffix: str) -> Path:
    """A copy of the file at its place, whole or not at all."""
    target = place / f"{stem}.{built.stat().st_size}.{_digest(built)}{suffix}"
    descriptor, name = tempfile.mkstemp(dir=place, prefix="half-done-")
    try:
        with os.fdopen(descriptor, "wb") as file, built.open("rb") as source:
            shutil.copyfileobj(source, file)
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave the name without the bytes
        Path(name).chmod(0o700)
        Path(name).replace(target)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


@functools.cache
def machine() -> str:
    """What -march=native depends on: a cache on a shared disk serves unlike machines."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return platform.machine() + (flags.group(1) if flags else "")


_private: list[tempfile.TemporaryDirectory[str]] = []


def _private_folder() -> Path:
    """A folder of this process alone, which goes with it."""
    if not _private or not Path(_private[-1].name).is_dir():
        _private.append(tempfile.TemporaryDirectory(prefix="labkit-cache-"))
    return Path(_private[-1].name)


def _say(trouble: str) -> None:
    """The user knows, once, why everything is compiled anew in each process, and what to do."""
    if trouble not in _said:
        _said.add(trouble)
        print(
            f"labkit: {trouble}.\n"
            "  What is compiled now is forgotten when this process ends. To keep it, set\n"
            "  LABKIT_CACHE to a folder of your own.",
            file=sys.stderr,
            flush=True,
        )
