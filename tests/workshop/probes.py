"""What a hostile learner tries from inside a cell; each says what was got, "" for nothing."""

import contextlib
import ctypes
import os
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)


def read(path):
    """The bytes of a file."""
    with contextlib.suppress(OSError):
        return Path(path).read_bytes().decode(errors="replace")[:200]
    return ""


def listed(path):
    """The names in a folder."""
    with contextlib.suppress(OSError):
        return sorted(each.name for each in Path(path).iterdir())
    return []


def written(path):
    """Whether a file could be written there."""
    with contextlib.suppress(OSError):
        Path(path).write_text("mallory was here", encoding="utf-8")
        return str(path)
    return ""


def strangers():
    """Command lines of processes that are none of this cell's: process 1 began it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = (folder / "environ").read_bytes()
            if b"JUPYTERHUB_USER" in environment and me().encode() not in environment:
                found.append(folder.name)
    return found


def me():
    """Whose cell it is."""
    return os.environ.get("USER", "")


def torn_down(path):
    """Whether what hides a path can be taken away, as root of a namespace inside the cell too."""
    if LIBC.umount2(path.encode(), 2) == 0:
        return f"{path} unmounted"
    child = os.fork()
    if not child:
        user = os.getuid()
        if LIBC.unshare(0x10000000 | 0x00020000) == 0:
            with contextlib.suppress(OSError):
                Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
            if LIBC.umount2(path.encode(), 2) == 0:
                os._exit(7)
        os._exit(0)
    return "unmounted inside" if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7 else ""


def became_root():
    """Whether this process can be another user."""
    with contextlib.suppress(OSError):
        os.setuid(os.getuid() + 1)
        return "another user"
    return ""


def too_much(size):
    """What asking for so many bytes ends in."""
    try:
        bytes(size)
    except MemoryError:
        return "MemoryError"
    return ""
