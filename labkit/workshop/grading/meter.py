"""What a program and all that it has started use up, held against bounds.

Nothing here counts seconds of the clock while the program would run if it could: on a machine that
others keep busy an honest answer takes longer, and is worth the same.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

GIB = 1 << 30


@dataclass(frozen=True)
class Bounds:
    """What one program may use, with everything it has started.

    cpu        seconds of processors
    waiting    seconds in which nothing of it runs, or wants to
    memory     bytes that it shares with nobody; None where that is somebody else's business
    processes  at the same time
    """

    cpu: float
    waiting: float
    memory: int | None = None
    processes: int = 256


class Meter:
    """Looks at the processes below one process, and at itself."""

    def __init__(self, pid: int, bounds: Bounds) -> None:
        self.pid, self.bounds = pid, bounds
        self._cpu_before: float | None = None
        self._cpu = self._waited = 0.0
        self._last = time.monotonic()

    def exceeded(self) -> str:
        """What the program has used too much of, in words; "" while it keeps to its bounds.

        To be asked every second or so: what it does between two looks is not seen.
        """
        found = processes_of(self.pid)
        if len(found) > self.bounds.processes:
            return f"it had {len(found)} processes, {self.bounds.processes} are allowed"
        self._count_time(found)
        if self._cpu > self.bounds.cpu:
            return f"it used more than {self.bounds.cpu:.0f} s of CPU time"
        if self._waited > self.bounds.waiting:
            return f"it waited for {self.bounds.waiting:.0f} s, and nothing came"
        most = self.bounds.memory
        if most is not None and _sum(found, _roughly_held) > most and _sum(found, _held) > most:
            return f"it held more than {most / GIB:.1f} GiB of memory"
        return ""

    def _count_time(self, found: list[psutil.Process]) -> None:
        now, cpu = time.monotonic(), _sum(found, _cpu_seconds)
        if self._cpu_before is not None:
            self._cpu += max(0.0, cpu - self._cpu_before)  # what has ended takes its seconds along
            if cpu <= self._cpu_before and not any(map(_wants_to_run, found)):
                self._waited += now - self._last
        self._cpu_before, self._last = cpu, now


def processes_of(pid: int) -> list[psutil.Process]:
    """The process and all below it that are there now."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _sum(found: list[psutil.Process], of: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in found:
        with contextlib.suppress(psutil.Error):  # it has just gone
            total += of(process)
    return total


def _cpu_seconds(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:4]))  # with those of its children that have ended


def _wants_to_run(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
    except psutil.Error:
        return False


def _roughly_held(process: psutil.Process) -> float:
    memory = process.memory_info()  # quick; counts twice what a fork has not changed
    return float(memory.rss - memory.shared)


def _held(process: psutil.Process) -> float:
    return float(process.memory_full_info().uss)
