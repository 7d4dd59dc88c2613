"""Workers as an exercise sees them, without processes: every word and every frame is noted."""

import pickle
from typing import Any

import numpy as np

from labkit.course.exercise import handed_out

SHAPE = (40, 50)


class WaitsForEver(Exception):
    """What the answer called would never come back; says what it was."""


class Died(EOFError):
    """What `recv` raises when the worker has ended."""


class NoMore(OSError):
    """What `start` raises when no more workers can be started."""


class Pipe:
    """The reader's end of a worker's pipe."""

    def __init__(self, worker: "Worker") -> None:
        self._worker, self.closed, self.asked, self.told = worker, False, False, False

    def send(self, message: Any) -> None:
        """The worker begins with the frame that lies in its place."""
        worker = self._worker
        if self.closed:
            raise OSError("handle is closed")
        worker.notes.sent.append(len(pickle.dumps(message)))
        if worker.ended:
            raise BrokenPipeError("the worker has ended")
        if worker.has is not None:
            worker.notes.wrong.append("a worker gets a frame before it has given the last one back")
        worker.begin()

    def recv(self) -> str:
        """Wait until the worker is done.

        Raises   EOFError   it has died
        """
        worker = self._worker
        if self.closed:
            raise OSError("handle is closed")
        if worker.has is None and not worker.ended:
            raise WaitsForEver("recv() of a worker that has no frame")
        if self.told:
            raise WaitsForEver("recv() of a worker that has died, asked again")
        if not self.asked and worker.notes.somebody_rests():
            worker.notes.rests = True
        self.asked = False
        try:
            return worker.finish()
        finally:
            self.told = worker.ended

    def poll(self, timeout: float = 0.0) -> bool:
        """Whether `recv` would come back at once."""
        self.asked = True
        return self._worker.has is not None or self._worker.ended

    def close(self) -> None:
        """Closed here; the worker has a copy, and does not notice."""
        self.closed = True


class Process:
    """A worker's process."""

    def __init__(self, worker: "Worker") -> None:
        self._worker, self.waited_for = worker, False

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        if not self._worker.ended:
            raise WaitsForEver("join() of a worker that runs")
        self.waited_for = True

    def terminate(self) -> None:
        """End it."""
        self._worker.ended = True

    kill = terminate

    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return not self._worker.ended

    @property
    def exitcode(self) -> int | None:
        """How it ended."""
        return -9 if self._worker.ended else None


class Worker:
    """A place for a frame, a pipe and a process; the work is to take each number from 255."""

    def __init__(self, notes: "Notes") -> None:
        self.notes, self.ended = notes, False
        self.has: Any = None
        self.frame = np.zeros(SHAPE, np.uint8)
        self.pipe, self.process = Pipe(self), Process(self)

    def begin(self) -> None:
        """It has the frame; what lies in its place from now on is unfinished."""
        self.has = 255 - self.frame.copy()
        self.unfinished = np.random.default_rng(len(self.notes.sent)).integers(
            0, 255, SHAPE, np.uint8
        )
        self.frame[...] = self.unfinished
        self.notes.most_busy = max(self.notes.most_busy, self.notes.busy())

    def finish(self) -> str:
        """The result lies in the place, and the word comes."""
        if self.ended:
            raise Died
        if not np.array_equal(self.frame, self.unfinished):
            self.notes.wrong.append("a place is written to while the worker has its frame")
        if self.notes.dies == int(255 - self.has[0, 0]):
            self.ended = True
            raise Died
        self.frame[...] = self.has
        self.has = None
        self.notes.done += 1
        return "done"


class Notes:
    """What was started, sent and done wrong."""

    def __init__(self, count: int, asked: int, dies: int | None, starts: int | None) -> None:
        self.count, self.asked, self.dies, self.starts = count, asked, dies, starts
        self.sent, self.wrong = list[int](), list[str]()
        self.workers: list[Worker] = []
        self.frames: list[Any] = []
        self.most_busy = self.taken = self.given = self.most_ahead = self.done = 0
        self.rests = False

    def start(self) -> Worker:
        """A new worker.

        Raises   NoMore   as many were started as can be
        """
        if len(self.workers) == self.starts:
            raise NoMore("no memory for another worker")
        self.workers.append(Worker(self))
        return self.workers[-1]

    def busy(self) -> int:
        """How many workers have a frame."""
        return sum(worker.has is not None for worker in self.workers)

    def somebody_rests(self) -> bool:
        """Whether a worker has no frame, though not all frames are given out."""
        return self.busy() < min(self.asked, self.count - self.done)

    def film(self) -> Any:
        """The frames: frame n holds n everywhere, and its corner is marked."""
        for number in range(self.count):
            self.taken += 1
            self.most_ahead = max(self.most_ahead, self.taken - self.given)
            self.frames.append(film_frame(number))
            yield self.frames[-1]

    def overwritten(self) -> bool:
        """Whether a frame of the caller is another one than before."""
        return any(not np.array_equal(f, film_frame(n)) for n, f in enumerate(self.frames))


@handed_out
def film_frame(number: int) -> Any:
    """Frame `number`."""
    frame = np.full(SHAPE, number, np.uint8)
    frame[-1, -1] = 200 - number
    return frame


def drive(
    answer: Any, count: int, workers: int, dies: int | None, takes: int | None, starts: int | None
) -> Any:
    """What came out, how it ended, and what the workers saw of it."""
    notes = Notes(count, workers, dies, starts)
    found, ended = list[Any](), "in order"
    try:
        frames = iter(answer(notes.start, notes.film(), workers))
        while takes is None or len(found) < takes:
            try:
                found.append(next(frames))
            except StopIteration:
                break
            notes.given += 1
        else:
            ended = "the reader left"
            frames.close()
    except NotImplementedError:
        raise
    except WaitsForEver as error:
        ended = f"waits for ever: {error}"
    except NoMore:
        ended = "the error of start()"
    except (Died, RuntimeError, OSError) as error:
        ended = "an error" if isinstance(error, Died) or notes_died(notes) else repr(error)
    return {
        "frames": [_number(frame) for frame in found],
        "ended": ended,
        "workers": len(notes.workers),
        "at work at the same time": notes.most_busy,
        "somebody rests": notes.rests,
        "overwritten": notes.overwritten(),
        "frames read ahead": notes.most_ahead,
        "largest message": max(notes.sent, default=0),
        "wrong": notes.wrong[:1],
        "not ended": sum(not w.ended for w in notes.workers),
        "not waited for": sum(not w.process.waited_for for w in notes.workers),
    }


def notes_died(notes: Notes) -> bool:
    """Whether a worker has died."""
    return any(worker.has is not None and worker.ended for worker in notes.workers)


def _number(frame: Any) -> Any:
    """Which frame this is the result of; -1 when it is none."""
    if not isinstance(frame, np.ndarray) or frame.shape != SHAPE or frame.dtype != np.uint8:
        return -1
    number = 255 - int(frame[0, 0])
    return number if np.array_equal(frame, 255 - film_frame(number % 200)) else -1
