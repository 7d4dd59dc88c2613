"""CPU time of processes: what a limit can count, since another program's load does not move it."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

_uncounted: list[None] = []
"""One for each piece of labkit's own work under way, in whichever thread."""


def of_process(pid: int) -> float:
    """Seconds of CPU this process has used; 0.0 once it is gone."""
    try:
        if sys.platform == "linux":  # clock_getcpuclockid(3): its clock is named by its id
            return time.clock_gettime((~pid << 3) | 2)
        used = psutil.Process(pid).cpu_times()
    except (OSError, psutil.Error):
        return 0.0
    return float(used.user + used.system)


def of_descendants() -> dict[int, float]:
    """Process id -> seconds of CPU, for everything this process started and what that started."""
    try:
        found = _below(os.getpid())
    except OSError:  # another system, or a Linux that keeps no such lists
        found = [child.pid for child in psutil.Process().children(recursive=True)]
    return {pid: of_process(pid) for pid in found}


def _below(pid: int) -> list[int]:
    """What /proc tells of one process: psutil would read every process of the machine.

    Raises   OSError   it does not tell
    """
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (thread / "children").read_text(encoding="ascii")
        except OSError:
            if thread.exists():  # the thread has not just ended
                raise
            continue
        for child in map(int, children.split()):
            found.append(child)
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                found += _below(child)
    return found


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """What runs meanwhile, here and in processes, is labkit's own work: no limit counts it."""
    _uncounted.append(None)
    try:
        yield
    finally:
        _uncounted.pop()


def is_counted() -> bool:
    """Whether no such work is under way."""
    return not _uncounted
