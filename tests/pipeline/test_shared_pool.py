"""Frames through other processes: by every way to start them, and however they end."""

import errno
import io
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from labkit.pipeline.memory import shared_pool
from labkit.pipeline.memory.shared_pool import SharedPool, WorkerDied
from tests.pipeline import frame_work

SHAPE = (4, 6)
METHODS = ["fork", "spawn", "forkserver"]


def frames(count):
    return [np.full(SHAPE, n, np.uint8) for n in range(count)]


@pytest.fixture(autouse=True)
def no_process_is_left():
    before = multiprocessing.active_children()
    yield
    assert [child for child in multiprocessing.active_children() if child not in before] == []


@pytest.mark.skipif(not shared_pool.IN_MEMORY.is_dir(), reason="no /dev/shm here")
def test_the_memory_never_has_a_name(monkeypatch):
    monkeypatch.setattr(shared_pool, "mmap", Mapping(seen := []))
    with SharedPool(frame_work.add_ten, SHAPE, method="fork") as pool:
        assert len(list(pool.map(frames(3)))) == 3
    assert [links for links, _ in seen] == [0]
    assert [size for _, size in seen] == [2 * 4 * 6]


class Mapping:
    """The module mmap, which notes how many names a file has, and its size."""

    def __init__(self, seen):
        self.seen = seen

    def mmap(self, descriptor, size):
        about = os.fstat(descriptor)
        if size:  # workers map what is there
            self.seen.append((about.st_nlink, about.st_size))
        return mmap.mmap(descriptor, size)


def test_no_room_is_told_before_a_process_starts(monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shared_pool.tempfile, "TemporaryFile", lambda **where: Full())
    with pytest.raises(OSError, match="No space left"):
        SharedPool(frame_work.add_ten, SHAPE, method="fork")


def test_results_come_before_the_error_of_the_source():
    def film():
        yield from frames(5)
        raise ZeroDivisionError("frame 5")

    got = []
    with (
        SharedPool(frame_work.add_ten, SHAPE, workers=3, method="fork") as pool,
        pytest.raises(ZeroDivisionError, match="frame 5"),
    ):
        for frame in pool.map(film()):
            got.append(int(frame[0, 0]))
    assert got == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("method", METHODS)
def test_every_frame_comes_back_in_order(method):
    with SharedPool(frame_work.add_ten, SHAPE, method=method) as pool:
        results = list(pool.map(frames(7)))
        assert [int(frame[0, 0]) for frame in results] == [10, 11, 12, 13, 14, 15, 16]
        assert [int(frame[3, 5]) for frame in results] == [10, 11, 12, 13, 14, 15, 16]
        assert list(pool.map([])) == []
        assert len(list(pool.map(frames(1)))) == 1
        pids = [process.pid for process in pool._processes]
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_what_is_sent_does_not_grow_with_the_frame():
    sent = []
    for shape in [(2, 2), (300, 400)]:
        with SharedPool(frame_work.add_ten, shape, method="fork") as pool:
            list(pool.map(np.zeros((5, *shape), np.uint8)))
            sent.append(pool.sent)
    assert sent[0] == sent[1] == 2 + 2 * 5  # two workers are ready, five go and come back


def test_few_frames_are_on_the_way():
    taken = []

    def film():
        for n in range(30):
            taken.append(n)
            yield np.full(SHAPE, n, np.uint8)

    with SharedPool(frame_work.add_ten, SHAPE, workers=3, method="fork") as pool:
        for given, _ in enumerate(pool.map(film())):
            assert len(taken) <= given + 1 + 3


def test_a_frame_that_is_kept_is_not_written_to_again():
    with SharedPool(frame_work.add_ten, SHAPE, np.int16, workers=1, method="fork") as pool:
        first, second = pool.map([np.full(SHAPE, n, np.int16) for n in (1, 500)])
    assert (first == 11).all()
    assert (second == 510).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_worker_is_told_and_nothing_hangs(method):
    with SharedPool(frame_work.dies_at_3, SHAPE, method=method) as pool:
        got = []
        with pytest.raises(WorkerDied, match="-9"):
            for frame in pool.map(frames(9)):
                got.append(int(frame[0, 0]))
        assert got == [0, 1, 2]


def test_a_worker_killed_between_frames_is_told():
    with SharedPool(frame_work.add_ten, SHAPE, method="fork") as pool:
        os.kill(pool._processes[1].pid, signal.SIGKILL)
        pool._processes[1].join()
        with pytest.raises(WorkerDied):
            list(pool.map(frames(4)))


@pytest.mark.parametrize(
    ("work", "error", "says"),
    [
        (frame_work.raises_at_3, ZeroDivisionError, "frame 3"),
        (frame_work.raises_strangely, RuntimeError, "Strange: 7"),
    ],
    ids=["plain", "cannot be unpacked"],
)
def test_an_error_comes_out_in_the_place_of_its_frame(work, error, says):
    with SharedPool(work, SHAPE, method="fork") as pool:
        got = []
        with pytest.raises(error, match=says):
            for frame in pool.map(frames(9)):
                got.append(frame)
        assert len(got) == 3
        with pytest.raises(ValueError, match="closed"):
            next(pool.map(frames(1)))


def test_a_frame_of_another_kind_is_refused():
    for wrong in (np.zeros((4, 5), np.uint8), np.zeros(SHAPE, np.float32)):
        with (
            SharedPool(frame_work.add_ten, SHAPE, method="fork") as pool,
            pytest.raises(ValueError, match="the pool's are"),
        ):
            list(pool.map([wrong]))


def test_a_reader_that_leaves_ends_everything():
    pool = SharedPool(frame_work.add_ten, SHAPE, method="fork")
    pids = [process.pid for process in pool._processes]
    results = pool.map(frames(9))
    next(results)
    results.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_no_worker_and_used_cuda_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="at least one"):
        SharedPool(frame_work.add_ten, SHAPE, workers=0)
    monkeypatch.setattr("labkit.pipeline.memory.shared_pool._cuda_is_used", lambda: True)
    with pytest.raises(RuntimeError, match="spawn"):
        SharedPool(frame_work.add_ten, SHAPE, method="fork")


PARENT = """
import sys, numpy as np
from labkit.pipeline.memory.shared_pool import SharedPool
from tests.pipeline import frame_work

if __name__ == "__main__":
    pool = SharedPool(frame_work.add_ten, (64, 64), method=sys.argv[1])
    print(*[process.pid for process in pool._processes], flush=True)
    while True:
        for frame in pool.map(np.zeros((5, 64, 64), np.uint8)):
            print("frame", flush=True)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_killed_parent_leaves_no_process(method, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, str(script), method],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    with parent.stdout as lines:
        pids = lines.readline().decode().split()
        assert lines.readline() == b"frame\n"
        parent.kill()
        parent.wait()
        lines.read()  # its end: everybody who could print has gone
    assert len(pids) == 2
    while any(runs(int(pid)) for pid in pids):
        time.sleep(0.01)


def runs(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
