"""A process behind walls: it sees the machine read-only, and of the workshop its own part.

Namespaces of Linux do it: other learners' processes and folders, home folders, /tmp and /run are
not there. Started by root, each learner is a user of their own besides; started by anybody else,
who is no other user, the walls are the same, and only the kernel's word stands behind them.
"""

import os
import resource
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.workshop.cell import linux

HIDDEN = ("/home", "/root", "/tmp", "/var/tmp", "/run", "/dev/shm")
"""Emptied for every learner; what must be seen below them is put back."""
WRITTEN = {"/tmp": 256, "/dev/shm": 256, "/var/tmp": 16}
"""MiB of memory that a learner's files there may take."""
FILES = 50_000
PROCESSES = 256


@dataclass(frozen=True)
class Cell:
    """What one learner's programs see.

    user       the number of a user of their own; None where they stay the one who asks
    hidden     folders that are emptied, besides HIDDEN
    seen       paths that are put back, to be read
    own        folders that are put back, to be written
    notebooks  (of the learner, where the course looks for them)
    memory     bytes that one process may hold
    scratch    of what is `own`: 0 puts the folders themselves there; else they are empty ones that
               take so many bytes of memory at most, and are gone with the cell
    """

    user: int | None
    hidden: tuple[str, ...]
    seen: tuple[str, ...]
    own: tuple[str, ...]
    notebooks: tuple[str, str]
    memory: int
    scratch: int = 0


def from_json(described: Mapping[str, Any]) -> Cell:
    """The cell that JSON describes: it has lists where a cell has tuples."""
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in described.items()
    }
    return Cell(**fields)


def enter(cell: Cell) -> int:
    """Fork into the cell: 0 in the child, process 1 behind the walls; its number in the parent.

    The parent may go: whoever adopts orphans takes the child.

    Raises   OSError   a wall cannot be put up; the child ends with status 1
    """
    was = os.getuid(), os.getgid()
    kinds = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWIPC
    if cell.user is None:
        linux.unshare(kinds | linux.CLONE_NEWUSER)
        _stay(*was)
    else:
        linux.unshare(kinds)
    heard, told = os.pipe()
    if child := os.fork():
        os.close(told)
        with os.fdopen(heard, "rb") as answer:
            trouble = answer.read()
        if trouble:
            raise OSError(trouble.decode())
        return child
    os.close(heard)
    try:
        _put_up(cell)
        _step_down(cell)
    except OSError as error:
        os.write(told, str(error).encode())
        os._exit(1)
    os.close(told)
    return 0


def _stay(user: int, group: int) -> None:
    """In the new user namespace this process is the user who it was."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path(f"/proc/self/{name}").write_text(text, encoding="ascii")


def _put_up(cell: Cell) -> None:
    os.umask(0o022)
    linux.mount("none", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV)
    linux.read_only("/", True, recursive=True)
    linux.read_only("/proc", False)
    bound = (*cell.seen, *(() if cell.scratch else cell.own))
    back = {path: os.open(path, os.O_PATH) for path in bound}
    mine = None if cell.scratch else os.open(cell.notebooks[0], os.O_PATH)
    for folder in _outermost((*HIDDEN, *cell.hidden)):
        size = WRITTEN.get(folder)
        _empty(folder, (size or 1) << 20, "1777" if size else "755")
    for path, descriptor in back.items():
        _bind(descriptor, path)
    if mine is None:
        mine = _scratch(cell)
    _bind(mine, cell.notebooks[1])
    for path in (*cell.own, cell.notebooks[1]):
        linux.read_only(path, False)


def _empty(folder: str, size: int, mode: str, more: str = "") -> None:
    options = f"mode={mode},size={size},nr_inodes={FILES}{more}"
    linux.mount("tmpfs", folder, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)


def _scratch(cell: Cell) -> int:
    """Empty folders stand where the learner's own would; returns that of the notebooks, opened."""
    user = os.getuid() if cell.user is None else cell.user
    for path in cell.own:
        Path(path).mkdir(parents=True, exist_ok=True)
        _empty(path, cell.scratch, "700", f",uid={user},gid={user}")
    Path(cell.notebooks[0]).mkdir(parents=True)
    os.chown(cell.notebooks[0], user, -1)
    return os.open(cell.notebooks[0], os.O_PATH)


def _outermost(folders: Sequence[str]) -> list[str]:
    """The folders that exist and lie in no other one of them, links followed."""
    real = {str(Path(folder).resolve()) for folder in folders if Path(folder).is_dir()}
    return sorted(f for f in real if not any(f.startswith(f"{other}/") for other in real))


def _bind(descriptor: int, target: str) -> None:
    """What is open is seen at its path again, where a mount may have hidden it."""
    Path(target).mkdir(parents=True, exist_ok=True)
    linux.mount(f"/proc/self/fd/{descriptor}", target, "", linux.MS_BIND | linux.MS_REC)
    os.close(descriptor)


def _step_down(cell: Cell) -> None:
    """From here on nothing that only root may do, now or through a program that would make root."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_DATA, (cell.memory, cell.memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if cell.user is None:
        linux.drop_capabilities()
    else:
        resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
        os.setgroups([])
        os.setgid(cell.user)
        os.setuid(cell.user)
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # its own files in /proc are its own again
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
