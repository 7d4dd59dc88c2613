"""Threads at work: how many cores they use, and which calls let another one run Python."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

PATIENCE_SECONDS = 60.0
SETTLE_SECONDS = 0.02


def cores_used(work: Callable[[], Any], threads: int) -> float:
    """Seconds of CPU per second that went by, while each of so many threads does the work once."""
    workers = [threading.Thread(target=work) for _ in range(threads)]
    began, used = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return round((time.process_time() - used) / (time.perf_counter() - began), 1)


def meanwhile(call: Callable[[], Any]) -> int:
    """How many steps of Python another thread does during the call.

    That thread never asks for the interpreter's lock: it runs only where the call lets go of it. So
    a call that keeps the lock gives 0, on any machine.
    """
    steps, ended = [0], threading.Event()

    def other() -> None:
        while not ended.is_set():
            steps[0] += 1
            time.sleep(0)  # lets go of the lock

    interval = sys.getswitchinterval()
    sys.setswitchinterval(PATIENCE_SECONDS)
    time.sleep(SETTLE_SECONDS)  # who waits with the old interval gets the lock now
    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    try:
        before = steps[0]
        call()
        return steps[0] - before
    finally:
        ended.set()
        sys.setswitchinterval(interval)
        thread.join()


def threads_added(call: Callable[[], Any], workers: int) -> int:
    """How many threads more the process has, once so many workers have each done the call.

    They are counted before the first worker ends: a library's own threads end with it.
    """
    process, done = psutil.Process(), threading.Barrier(workers + 1)

    def work() -> None:
        try:
            call()
        finally:
            done.wait()  # all have called
            done.wait()  # and are counted

    before = {thread.id for thread in process.threads()}
    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    done.wait()
    added = {thread.id for thread in process.threads()} - before
    done.wait()
    for thread in threads:
        thread.join()
    return len(added)
