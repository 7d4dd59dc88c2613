"""Threads of which each waits in a queue for another one: nobody will ever wake them."""

import sys
import threading
from collections.abc import Iterable
from queue import Queue
from typing import Any

Thread = threading.Thread
WAITING = threading.Condition.wait.__code__
WAITS = {Queue.get.__code__: "get", Queue.put.__code__: "put"}


def standstill(threads: Iterable[Thread]) -> dict[Thread, str]:
    """`get` or `put`, where each living thread waits for ever; {} while one of them can go on.

    Only these threads may use their queues. It looks twice: who still waits for the same lock then
    has done nothing in between, so what the queues held holds for all of them at one moment.
    """
    living = [thread for thread in threads if thread.is_alive()]
    first = _waits(living)
    stuck = all(_stuck(where, queue) for where, queue, _ in first.values())
    if not first or not stuck or first != _waits(living):
        return {}
    return {thread: where for thread, (where, _, _) in first.items()}


def _stuck(where: str, queue: Queue[Any]) -> bool:
    """Whether what the thread waits for is not there; one that was just woken finds it."""
    if getattr(queue, "is_shutdown", False):  # since Python 3.13: all are woken
        return False
    return not queue.qsize() if where == "get" else queue.full()


def _waits(threads: list[Thread]) -> dict[Thread, tuple[str, Queue[Any], Any]]:
    """(method, queue, lock that wakes it) of each thread; {} when one does not wait in a queue."""
    frames, found = sys._current_frames(), dict[Thread, tuple[str, Queue[Any], Any]]()
    for thread in threads:
        frame = frames.get(thread.ident or 0)
        if frame is None or frame.f_back is None or frame.f_code is not WAITING:
            return {}
        names, caller = frame.f_locals, frame.f_back
        if caller.f_code not in WAITS or names.get("timeout") or "waiter" not in names:
            return {}
        found[thread] = WAITS[caller.f_code], caller.f_locals["self"], names["waiter"]
    return found
