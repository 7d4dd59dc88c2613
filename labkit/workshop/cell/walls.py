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
    """

    user: int | None
    hidden: tuple[str, ...]
    seen: tuple[str, ...]
    own: tuple[str, ...]
    notebooks: tuple[str, str]
    memory: int


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
    back = {path: os.open(path, os.O_PATH) for path in (*cell.seen, *cell.own)}
    mine, expected = os.open(cell.notebooks[0], os.O_PATH), cell.notebooks[1]
    for folder in _outermost((*HIDDEN, *cell.hidden)):
        flags, mode = linux.MS_NOSUID | linux.MS_NODEV, "755"
        if folder in ("/tmp", "/var/tmp", "/dev/shm"):
            mode = "1777"
        linux.mount("tmpfs", folder, "tmpfs", flags, f"mode={mode},size=512m")
    for path, descriptor in back.items():
        _bind(descriptor, path)
    _bind(mine, expected)
    for path in (*cell.own, expected):
        linux.read_only(path, False)


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
