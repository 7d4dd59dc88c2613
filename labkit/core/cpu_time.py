"""CPU time of processes: what a limit can count, since another program's load does not move it."""

import sys
import time

import psutil


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
    return {child.pid: of_process(child.pid) for child in psutil.Process().children(recursive=True)}
