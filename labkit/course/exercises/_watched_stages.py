"""A pipeline that somebody wrote, at work: what comes out, and where its threads wait."""

import threading
from functools import partial
from typing import Any

from labkit.course.checking.stopwatch import happens, watching
from labkit.course.exercises._watched_workers import nothing
from labkit.course.standstill import standstill

WHO = ("the source", "stage 1", "stage 2", "stage 3")
QUIET_SECONDS = 0.2
"""When nothing ran for so long, nothing more comes."""


class Broken(Exception):
    """What the source or a stage of a case raises."""


class Watched:
    """A source and stages that note who calls them, how often, and how far ahead the source is.

    breaks   (0 for the source or the number of a stage from 1, frame), or None
    """

    def __init__(self, count: int, stages: int, room: int, breaks: tuple[int, int] | None) -> None:
        self.count, self.breaks = count, breaks
        self.threads: dict[int, threading.Thread] = {}
        self.taken = self.given = 0
        self.too_far = threading.Event()
        self.most = stages + 2 + (stages + 1) * room
        self.stages = [self._stage(number) for number in range(1, stages + 1)]

    def source(self) -> Any:
        """Frames 0, 1, 2, ...; the one in the middle is None, in every stage."""
        for frame in range(self.count):
            self._seen(0, frame)
            self.taken += 1
            if self.taken > self.given + self.most:
                self.too_far.set()
            yield None if frame == nothing(self.count) else frame

    def _stage(self, number: int) -> Any:
        def stage(frame: int | None) -> int | None:
            self._seen(number, nothing(self.count) if frame is None else frame % 1000)
            return None if frame is None else frame + 1000

        return stage

    def _seen(self, number: int, frame: int) -> None:
        self.threads[number] = threading.current_thread()
        if self.breaks == (number, frame):
            raise Broken(f"frame {frame}")


def drive(answer: Any, count: int, stages: int, room: int, breaks: tuple[int, int] | None,
                  takes: int | None, looks: bool) -> dict[str, Any]:  # fmt: skip
    """What came out, how it ended, and which threads there were and still are.

    takes   the reader stops behind so many; looks: behind the first it waits until all is quiet
    """
    before = set(threading.enumerate())
    watched, got = Watched(count, stages, room, breaks), dict[str, Any]()

    def read() -> None:
        try:
            _read(answer(watched.source(), watched.stages, room), watched, takes, looks, got)
        except Exception as error:
            got["error"] = error

    reader = threading.Thread(target=read, daemon=True)
    tracebacks, threading.excepthook = threading.excepthook, lambda _: None
    try:
        reader.start()
        waits = _until_they_end(before, reader)
    finally:
        threading.excepthook = tracebacks
    if "error" in got:
        raise got["error"]
    seen = {reader: "the reader", **{t: WHO[n] for n, t in watched.threads.items()}}
    if reader in waits:
        told = [f"{who} {f'waits in {waits[t]}' if t in waits else 'has ended'}"
                for t, who in seen.items()]  # fmt: skip
        return {"frames": got["frames"], "it never ends": "; ".join(told)}
    return got | {
        "threads at work": len(seen),
        "the source ran too far ahead": watched.too_far.is_set(),
        "threads left": sorted(
            f"{seen.get(t, 'a thread')} {f'waits in {waits[t]}' if t in waits else 'runs'}"
            for t in set(threading.enumerate()) - before
        ),
    }


def _read(frames: Any, watched: Watched, takes: int | None, looks: bool, got: Any) -> None:
    """`got` has the frames, and how it ended."""
    found, ended = got.setdefault("frames", list[int]()), "in order"
    frames = iter(frames)
    try:
        while takes is None or len(found) < takes:
            try:
                frame = next(frames)
                found.append(nothing(watched.count) if frame is None else frame % 1000)
            except StopIteration:
                break
            watched.given += 1
            if looks and len(found) == 1:
                happens(watched.too_far.wait, QUIET_SECONDS)
        else:
            ended = "the reader stopped"
            frames.close()
    except Broken as error:
        ended = f"Broken: {error}"
    got["ended"] = ended


def _until_they_end(before: set[threading.Thread], reader: threading.Thread) -> Any:
    """Where the threads wait that will never end; those that only take too long are waited for."""
    while left := set(threading.enumerate()) - before:
        with watching():
            if waits := standstill(left):
                return waits
            if reader.is_alive():
                reader.join(0.1)
                continue
        running = [thread for thread in left if thread.is_alive()]  # others only begin
        if running and not happens(partial(_goes_on, running), QUIET_SECONDS):
            break
    return {}


def _goes_on(threads: list[threading.Thread], seconds: float) -> bool:
    """Whether one of them ends, or all wait for ever."""
    threads[0].join(seconds)
    return not threads[0].is_alive() or bool(standstill(threads))
