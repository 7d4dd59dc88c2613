"""Work on frames in several processes: a frame lies in shared memory, and is not sent.

Every worker has a place for one frame. A frame is copied there, a word says "go", and the result is
copied out of the same place. The memory has no name: workers are sent its descriptor, and when the
last process that has it ends, it is gone, however that process ends.
"""

import contextlib
import math
import mmap
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Frame = NDArray[Any]
Work = Callable[[Frame], None]
GO = b"+"
IN_MEMORY = Path("/dev/shm")
"""Files here are never written to a disk; macOS has no such folder, and uses the temporary one."""


class WorkerDied(RuntimeError):
    """A worker ended while it had a frame."""


class SharedPool:
    """`map` does the work to every frame, in other processes; a frame is copied in and copied out.

        with SharedPool(brighten, shape=(96, 160, 3)) as pool:
            for frame in pool.map(frames): ...

    work     changes a frame where it lies; with another start method than fork, other processes
             have to find it by its name
    shape, dtype  of every frame
    method   how processes start: fork, spawn or forkserver; the platform's own when left out
    sent     bytes of all messages so far

    Raises   RuntimeError   a forked process cannot use CUDA once it was used here
             OSError        no room for so many frames
    """

    def __init__(
        self,
        work: Work,
        shape: tuple[int, ...],
        dtype: DTypeLike = np.uint8,
        workers: int = 2,
        method: str | None = None,
    ) -> None:
        context: Any = multiprocessing.get_context(method)
        if context.get_start_method() == "fork" and _cuda_is_used():
            raise RuntimeError("CUDA was used here: choose the method spawn or forkserver")
        if workers < 1:
            raise ValueError(f"at least one worker, got {workers}")
        self.sent = 0
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
        with tempfile.TemporaryFile(dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as file:
            file.write(bytes(workers * size))  # a hole would be filled later, or there is no room
            file.flush()
            self._memory = mmap.mmap(file.fileno(), workers * size)
            self._frames: list[Frame] = [
                np.ndarray(shape, dtype, self._memory, at * size) for at in range(workers)
            ]
            try:
                for at in range(workers):
                    mine, theirs = context.Pipe()
                    place = at * size, shape, np.dtype(dtype).str
                    process = context.Process(
                        target=_worker, args=(theirs, place, work), daemon=True
                    )
                    process.start()
                    theirs.close()  # so that the end of the worker is the end of the pipe
                    self._pipes.append(mine)
                    self._processes.append(process)
                    with contextlib.suppress(BrokenPipeError):  # it has died: its answer says so
                        send_handle(mine, file.fileno(), process.pid)
                for at in range(workers):
                    self._answer(at)
            except BaseException:
                self.close()
                raise

    def map(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """The result of each frame, in order; as many frames are on the way as there are workers.

        An error, or a reader that leaves, closes the pool.

        Raises   WorkerDied   a worker was killed, or ended
                 ValueError   a frame has another shape or dtype
                 what the work raises, in the place of its frame
                 what the frames' source raises, behind the results before it
        """
        if not self._processes:
            raise ValueError("this pool is closed")
        workers, count, rest = len(self._processes), 0, iter(frames)
        try:
            while True:
                try:
                    frame = next(rest)
                except Exception as raised:  # StopIteration is the end that is no error
                    end = raised
                    break
                if count >= workers:
                    yield self._result((count - workers) % workers)
                self._begin(count % workers, frame)
                count += 1
            for number in range(max(0, count - workers), count):
                yield self._result(number % workers)
            if not isinstance(end, StopIteration):
                raise end
        except BaseException:
            self.close()  # workers may still have frames that nobody will take
            raise

    def _begin(self, at: int, frame: Frame) -> None:
        place = self._frames[at]
        if frame.shape != place.shape or frame.dtype != place.dtype:
            raise ValueError(
                f"a frame is {frame.dtype} {frame.shape}, "
                f"the pool's are {place.dtype} {place.shape}"
            )
        place[...] = frame
        with contextlib.suppress(BrokenPipeError):  # it has died: its answer says so
            self._pipes[at].send_bytes(GO)
            self.sent += len(GO)

    def _result(self, at: int) -> Frame:
        self._answer(at)
        return self._frames[at].copy()

    def _answer(self, at: int) -> None:
        try:
            answer = self._pipes[at].recv_bytes()
        except (EOFError, ConnectionResetError):
            self._processes[at].join()
            code = self._processes[at].exitcode
            raise WorkerDied(f"worker {at} ended with exit code {code}") from None
        self.sent += len(answer)
        if answer != GO:
            raise pickle.loads(answer)

    def close(self) -> None:
        """No process is left, and no memory."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._processes, self._pipes, self._frames = [], [], []
        with contextlib.suppress(BufferError):  # somebody still looks at a frame's place
            self._memory.close()

    def __enter__(self) -> "SharedPool":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _worker(pipe: Connection, place: tuple[Any, ...], work: Work) -> None:
    """Work, until the pipe ends or the process that started this one does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all: who started us decides
    parent = multiprocessing.parent_process()
    assert parent is not None
    offset, shape, dtype = place
    if parent.sentinel in wait([pipe, parent.sentinel]):  # who forks leaves both ends to this one
        os._exit(0)
    descriptor = recv_handle(pipe)
    frame: Frame = np.ndarray(shape, dtype, mmap.mmap(descriptor, 0), offset)
    os.close(descriptor)
    pipe.send_bytes(GO)
    while parent.sentinel not in wait([pipe, parent.sentinel]):
        try:
            pipe.recv_bytes()
            pipe.send_bytes(_done(work, frame))
        except (EOFError, OSError):
            break
    os._exit(0)  # what was inherited by a fork is not ours to end


def _done(work: Work, frame: Frame) -> bytes:
    try:
        work(frame)
    except Exception as error:
        try:
            content = pickle.dumps(error)
            pickle.loads(content)  # some errors can be packed, and not unpacked
        except Exception:
            content = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        return content
    return GO


def _cuda_is_used() -> bool:
    torch = sys.modules.get("torch")
    return bool(torch and torch.cuda.is_initialized())
