"""A pool of workers that somebody wrote, at work: who works when, and what is left of it."""

import threading
from functools import partial
from typing import Any

from labkit.course.checking.stopwatch import happens

QUIET_SECONDS = 1.0
"""When nothing ran for so long, nothing more comes."""
LOOK_SECONDS = 0.2


def nothing(count: int) -> int:
    """The number of the frame that is None."""
    return count // 2


class Broken(Exception):
    """What a tool or its making raises in a case."""


class WatchedWorkers:
    """A source, and tools that note who calls them; some frames wait until others are at work.

    count     frames
    workers   the first so many frames wait for each other
    slow      a frame that ends when those `ahead - 2` behind it have ended, or None
    breaks    a frame, "setup" or None
    takes     the reader leaves behind so many, or None

    The frame behind the last one given out stays at work a little longer than the reader stays.
    """

    def __init__(
        self, count: int, workers: int, ahead: int, slow: Any, breaks: Any, takes: Any
    ) -> None:
        self.count, self.workers, self.ahead = count, workers, ahead
        self.slow, self.breaks = slow, breaks
        self.lasts = takes if takes is not None else breaks + 1 if isinstance(breaks, int) else None
        if slow is not None and self.lasts is not None and slow < self.lasts < slow + ahead - 1:
            self.lasts = None  # the slow one waits for it
        self.left, self.at_work = threading.Event(), threading.Event()
        self.begun = [threading.Event() for _ in range(count)]
        self.ended = [threading.Event() for _ in range(count)]
        self.over, self.alone = threading.Event(), threading.Event()
        self.too_far, self.foreign = threading.Event(), threading.Event()
        self.taken = self.given = 0
        self.makers: list[threading.Thread] = []

    def source(self) -> Any:
        """Frames 0, 1, 2, ...; the one in the middle is None."""
        for frame in range(self.count):
            self.taken += 1
            if self.taken > self.given + self.ahead:
                self.too_far.set()
            yield None if frame == nothing(self.count) else frame

    def setup(self) -> Any:
        """A tool for the thread that asks for it."""
        mine = threading.current_thread()
        if self.breaks == "setup":
            raise Broken("setup")
        self.makers.append(mine)
        return partial(self._prepare, mine)

    def _prepare(self, maker: threading.Thread, given: int | None) -> int | None:
        frame = nothing(self.count) if given is None else given
        if threading.current_thread() is not maker:
            self.foreign.set()
        self.begun[frame].set()
        try:
            if frame < self.workers:
                self._wait_for(self.begun[: self.workers])
            if frame == self.slow:
                self._wait_for(self.ended[frame + 1 : frame + self.ahead - 1])
            if self.lasts == frame:
                self._wait_for([self.over])
                if happens(self.left.wait, LOOK_SECONDS):
                    self.at_work.set()
            if self.breaks == frame:
                self.over.set()
                raise Broken(f"frame {frame}")
        finally:
            self.ended[frame].set()
        return None if given is None else frame + 1000

    def _wait_for(self, events: list[threading.Event]) -> None:
        for event in events:
            while not (event.is_set() or self.over.is_set() or self.alone.is_set()):
                if not happens(event.wait, QUIET_SECONDS) and not self.over.is_set():
                    self.alone.set()


def drive(answer: Any, count: int, workers: int, ahead: int, slow: Any, breaks: Any, takes: Any,
          looks: bool) -> dict[str, Any]:  # fmt: skip
    """What came out, how it ended, how the workers worked, and which threads are left.

    takes   the reader leaves behind so many; looks: behind the first it waits until all is quiet
    """
    before = set(threading.enumerate())
    watched = WatchedWorkers(count, workers, ahead, slow, breaks, takes)
    found, ended = list[Any](), "in order"
    try:
        frames = iter(answer(watched.setup, watched.source(), workers, ahead))
        while takes is None or len(found) < takes:
            try:
                found.append(next(frames))
            except StopIteration:
                break
            watched.given += 1
            if looks and len(found) == 1:
                happens(watched.too_far.wait, LOOK_SECONDS)
        else:
            ended = "the reader left"
            watched.over.set()
            frames.close()
    except Broken as error:
        ended = f"Broken: {error}"
    finally:
        watched.left.set()
        watched.over.set()
    left = [not _ends(thread) for thread in set(threading.enumerate()) - before]
    return {
        "frames": [nothing(count) if frame is None else frame - 1000 if isinstance(frame, int)
                   else frame for frame in found],
        "ended": ended,
        "read too far ahead": watched.too_far.is_set(),
        "a frame waited for others in vain": watched.alone.is_set(),
        "tools": len(watched.makers),
        "a tool was used by another thread": watched.foreign.is_set(),
        "made in the reader's thread": threading.current_thread() in watched.makers,
        "at work when the reader had left": watched.at_work.is_set(),
        "threads left": sum(left),
    }  # fmt: skip


def _ends(thread: threading.Thread) -> bool:
    def ended(seconds: float) -> bool:
        thread.join(seconds)
        return not thread.is_alive()

    return happens(ended, QUIET_SECONDS)
