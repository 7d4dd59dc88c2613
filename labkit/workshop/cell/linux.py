"""The calls of Linux that Python 3.11 does not offer."""

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_NOSUID = 2
MS_NODEV = 4
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_RDONLY = 1
_CAPABILITIES_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _done(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Namespaces of its own, of the kinds in `flags`, are around the calling process.

    Raises   OSError   the kernel, or its administrator, does not allow it
    """
    _done(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """The source is mounted at the target; what the arguments mean says the manual, section 2."""
    given = (source.encode(), target.encode(), kind.encode(), flags, options.encode())
    _done(_libc.mount(*given), f"mount {kind or 'bind'} on {target}")


def read_only(path: str, wanted: bool, recursive: bool = False) -> None:
    """The mount at a path can be read and no more, or be written again.

    Raises   OSError   as on a Linux older than 5.12
    """
    on, off = (_RDONLY, 0) if wanted else (0, _RDONLY)
    attributes = struct.pack("QQQQ", on, off, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    result = _libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, attributes, len(attributes)
    )
    _done(result, f"mount_setattr on {path}")


def prctl(option: int, value: int) -> None:
    """One setting of the calling process."""
    _done(_libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def drop_capabilities() -> None:
    """From here on the calling process may do what any process of its user may, and no more."""
    header = struct.pack("Ii", _CAPABILITIES_3, 0)
    _done(_libc.capset(header, bytes(24)), "capset")
