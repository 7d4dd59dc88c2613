"""Programs that are killed at random moments, and what they leave behind.

    python -m tests.pipeline.killed SUBJECT FOLDER KILLS SEED

Each subject is begun again and again in a child, killed by SIGKILL while it runs, and looked at:
what it had said to be finished must be there, whole, and no process of it may be left.
"""

import ctypes
import json
import mmap
import os
import random
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np
import torch

from labkit.core import compile_cache
from labkit.pipeline.disk_cache import DiskCache
from labkit.pipeline.journal import Journal
from labkit.pipeline.memory import shared_pool
from labkit.pipeline.scene import Scene
from labkit.pipeline.settings import Model, Processing, Settings
from labkit.pipeline.video import enhance_film, make_example

PR_SET_CHILD_SUBREAPER = 36
HANDS = [
    {}, {"overlap": True, "batch_size": 1}, {"workers": 2}, {"workers": 2, "overlap": True},
    {"workers": 2, "worker_kind": "processes"},
]  # fmt: skip


class Said:
    """A number that outlives whoever said it."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 8)

    def __call__(self, number):
        self.memory[:] = struct.pack("q", number)

    def last(self):
        return struct.unpack("q", self.memory)[0]


class Job:
    """The video job, now in this way, now in that one."""

    def __init__(self, folder):
        self.folder, self.round, self.films, self.amid = folder, 0, 0, 0
        make_example(folder / "in.mkv", Scene(height=24, width=32, frames=11))
        self.enhance("once.mkv", {})  # what PyTorch does at its first training is done here
        self.right = (folder / "once.mkv").read_bytes()

    def enhance(self, name, hands, report=lambda progress: None):
        settings = Settings(processing=Processing(**hands), model=Model(2, 1))
        enhance_film(self.folder / "in.mkv", self.folder / name, settings, report)

    def run(self, said):
        hands = HANDS[self.round % len(HANDS)]
        self.enhance("out.mkv", hands, lambda progress: said(progress.finished))

    def look(self, said):
        self.round += 1
        target, journal = self.folder / "out.mkv", self.folder / "out.mkv.unfinished"
        if target.exists():  # a job may die between giving the name and deleting the journal
            assert target.read_bytes() == self.right, "a half film has the final name"
            self.films += 1
            target.unlink()
            journal.unlink(missing_ok=True)
            said(0)
        elif journal.exists():
            with Journal(journal) as kept:
                assert max(0, len(kept) - 1) >= said.last(), (len(kept), said.last())
                self.amid += len(kept) > 1
        else:
            assert said.last() == 0, f"{said.last()} frames are gone"

    def end(self):
        in_child(lambda: self.run(lambda number: None))
        assert (self.folder / "out.mkv").read_bytes() == self.right
        (self.folder / "out.mkv").unlink()
        assert {path.name for path in self.folder.iterdir()} <= {"in.mkv", "once.mkv", "memory"}
        return {"films": self.films, "amid": self.amid}


class Cache:
    """A program that keeps tensors in a folder."""

    def __init__(self, folder):
        self.folder = folder / "cache"

    @staticmethod
    def value(number):
        return torch.full((50_000,), number % 251, dtype=torch.uint8)

    def run(self, said):
        cache, number = DiskCache(self.folder, 10**9), said.last()
        while True:
            number += 1
            cache.put(str(number % 40), self.value(number))
            said(number)

    def look(self, said):
        cache, last = DiskCache(self.folder, 10**9), said.last()
        for path in self.folder.iterdir():
            found, key = cache.get(path.name), int(path.name)
            newest = last - (last - key) % 40  # the one after it may be there unsaid
            expected = {newest, newest + 40} if newest + 40 == last + 1 else {newest}
            assert any(torch.equal(found, self.value(one)) for one in expected), (key, last)
        assert cache.damaged == 0
        assert {str(one % 40) for one in range(max(1, last - 39), last + 1)} <= {
            path.name for path in self.folder.iterdir()
        }, "what was put is gone"

    def end(self):
        return {"entries": len(list(self.folder.iterdir()))}


class Engine:
    """A program that compiles engines and keeps them."""

    def __init__(self, folder):
        self.folder = folder / "engines"
        os.environ["LABKIT_CACHE"] = str(self.folder)

    @staticmethod
    def content(number):
        return str(number).encode() * 100_000

    def build(self, number, path):
        with path.open("wb") as file:
            for start in range(0, len(whole := self.content(number)), 4096):
                file.write(whole[start : start + 4096])

    def run(self, said):
        number = said.last()
        while True:
            number += 1
            self.one(number)
            said(number)

    def one(self, number):
        def build(path):
            self.build(number, path)

        return compile_cache.kept("engine", (str(number),), build, ".pt2")

    def look(self, said):
        before = set((self.folder / "compiled").glob("engine-*.pt2"))
        assert len(before) >= said.last(), "an engine is gone"
        for number in range(max(1, said.last() - 3), said.last() + 1):
            assert self.one(number) in before
            assert self.one(number).read_bytes() == self.content(number)

    def end(self):
        return {"engines": len(list((self.folder / "compiled").glob("engine-*.pt2")))}


def work(frame):
    """Not nothing, and not long."""
    np.subtract(255, np.sort(frame, axis=0), out=frame)


class Pool:
    """A program whose frames lie in shared memory, with a pool for every few of them."""

    def __init__(self, folder):
        self.frames = [np.full((64, 64), n, np.uint8) for n in range(6)]

    def run(self, said):
        while True:
            with shared_pool.SharedPool(work, (64, 64), method="fork") as pool:
                for number, frame in enumerate(pool.map(self.frames)):
                    assert frame[0, 0] == 255 - number

    def look(self, said):
        """That no process and no file is left is asked of all."""

    def end(self):
        return {}


SUBJECTS = {"job": Job, "cache": Cache, "engine": Engine, "pool": Pool}


def begun(run):
    """A child that runs this."""
    child = os.fork()
    if child:
        return child
    # PyTorch makes its pool of threads anew after a fork, at the first call that asks for it; of
    # two threads that ask at once, one may find none ("Invalid thread pool!").
    torch.set_num_threads(1)
    try:
        run()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def in_child(run):
    """What was run has run, and ended well."""
    _, status = os.waitpid(begun(run), 0)
    assert status == 0


def wait_for_all():
    """Every process that this one or its children had started has ended."""
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def main(name, folder, kills, seed):
    """Kill it so many times; what was seen, as JSON."""
    torch.set_num_threads(1)
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    shared_pool.IN_MEMORY = folder / "memory"
    shared_pool.IN_MEMORY.mkdir()
    subject, said, rng = SUBJECTS[name](folder), Said(), random.Random(seed)
    whole, killed, rounds = 0.2, 0, 0
    while killed < kills:
        rounds += 1
        assert rounds < 20 * kills, "it always ends before it is killed"
        start, child = time.monotonic(), begun(lambda: subject.run(said))
        time.sleep(rng.uniform(0, whole))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            whole = 0.9 * whole + 0.1 * (time.monotonic() - start)
        else:
            whole = min(1.0, 1.02 * whole)
        wait_for_all()
        assert not list(shared_pool.IN_MEMORY.iterdir()), "a segment is left"
        subject.look(said)
    print(json.dumps({"killed": killed, "rounds": rounds, **subject.end()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
