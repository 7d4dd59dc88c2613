"""A film sent by the learner: right in every order, both streams busy, two blocks held."""

import functools
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._recorded_views import NUMBERS, Pipeline
from labkit.cuda.happens_before import races
from labkit.cuda.memory_calls import MemoryCalls
from labkit.memory.caching_allocator import CachingAllocator

BYTES = NUMBERS * 8
BLOCKS = 2
"""The least that keep both streams busy: one is filled, the other read."""
SPARE, OVERLAP = 1.2, 0.9
"""Held at most, times what is needed; overlap at least, of what is possible."""


class Sent(NamedTuple):
    """What became of the frames, and of the memory; `queued` steps are of this film."""

    read: list[int]
    program: list[tuple[Any, ...]]
    names: list[str]
    queued: int
    most: int
    left: int


class Gpu:
    """Two streams, "copying" and "working", and a caching allocator whose blocks are copying's."""

    def __init__(self, pipeline: Pipeline, seed: int) -> None:
        self._driver = pipeline.driver
        self._streams = {lane: stream for stream, lane in pipeline.lanes.items()}
        self._allocator = CachingAllocator(MemoryCalls(self._driver))
        self._pace = Random(seed)
        self._driver.synchronize()
        self._driver.queue.reseed(seed)
        self._held: set[int] = set()
        self._seen: list[np.ndarray[Any, Any]] = []
        self._program: list[tuple[Any, ...]] = []
        self._names: list[str] = []
        self._events: list[int] = []
        self._letters: dict[int, str] = {}
        self._most = 0

    def malloc(self) -> int:
        """A block for one frame; it belongs to copying."""
        block = self._allocator.malloc(BYTES, self._streams["copying"])
        self._letters.setdefault(block, chr(ord("A") + len(self._letters)))
        self._held.add(block)
        self._most = max(self._most, len(self._held))
        return block

    def free(self, block: int) -> None:
        """The allocator has the block back."""
        self._held.discard(block)
        self._allocator.free(block)

    def copy(self, frame: int, block: int, stream: str) -> None:
        """The copy of the frame into the block is queued on the stream."""
        filled = np.full(NUMBERS, frame, np.int64)
        self._driver.memcpy_async(
            block, filled.ctypes.data, BYTES, self._streams[stream], keep=filled
        )
        self._ran(f"copy {frame}, {self._letters[block]}", stream, (), (block,))

    def read(self, block: int, stream: str) -> None:
        """The next frame is read from the block, on the stream."""
        seen = np.full(NUMBERS, -1, np.int64)
        self._driver.memcpy_async(seen.ctypes.data, block, BYTES, self._streams[stream], keep=seen)
        self._ran(f"read {len(self._seen)}, {self._letters[block]}", stream, (block,), ())
        self._seen.append(seen)

    def event(self, stream: str) -> int:
        """A mark behind all that the stream was given so far."""
        made = self._driver.event_create()
        self._driver.event_record(made, self._streams[stream])
        self._events.append(made)
        self._program.append(("record", stream, made))
        return made

    def wait(self, stream: str, event: int) -> None:
        """What the stream is given from now on runs behind the mark."""
        self._driver.stream_wait_event(self._streams[stream], event)
        self._program.append(("wait", stream, event))

    def synchronize(self) -> None:
        """The host waits until both streams are done."""
        self._driver.synchronize()
        self._program.append(("synchronize", None))

    def _ran(self, name: str, stream: str, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        self._names.append(name)
        self._program.append(("run", stream, reads, writes))
        for _ in range(self._pace.choice((0, 1, 3))):
            self._driver.queue.step()

    def _sent(self) -> Sent:
        """What was sent; then another film is copied into what was freed."""
        queued, most, left = len(self._program), self._most, len(self._held)
        for _ in range(BLOCKS):
            self.copy(-1, self.malloc(), "copying")
        self._driver.synchronize()
        read = [int(seen[0]) if (seen == seen[0]).all() else -1 for seen in self._seen]
        return Sent(read, self._program, self._names, queued, most, left)

    def _close(self) -> None:
        self._driver.synchronize()
        for event in self._events:
            self._driver.event_destroy(event)
        for block in self._held:
            self._allocator.free(block)
        self._allocator.empty_cache()


@handed_out
def ends(got: Sent, copy: int, read: int) -> int:
    """When all is done, if everything runs as early as it may; the host itself takes no time."""
    takes = {"copy": copy, "read": read}
    left = iter([takes[name.split()[0]] for name in got.names])
    done: dict[str, int] = {}
    marks: dict[int, int] = {}
    host = 0
    for kind, stream, *rest in got.program[: got.queued]:
        if kind == "run":
            done[stream] = max(done.get(stream, 0), host) + next(left)
        elif kind == "record":
            marks[rest[0]] = done.get(stream, 0)
        elif kind == "wait":
            done[stream] = max(done.get(stream, 0), marks[rest[0]])
        else:
            host = max(done.values(), default=host)
    return max(done.values(), default=0)


@functools.cache
@handed_out
def _pipeline() -> Pipeline:
    return Pipeline()


@handed_out
def sent(send: Callable[..., Any], frames: int, seed: int = 0) -> Sent:
    """What `send(gpu, frames)` makes of a film, in the order of this seed."""
    gpu = Gpu(_pipeline(), seed)
    try:
        send(gpu, frames)
        return gpu._sent()
    finally:
        gpu._close()


@handed_out
def finished_send(gpu: Gpu, frames: int) -> None:
    """Two blocks in turn: before a copy into one, copying waits for what was read from it."""
    held: list[tuple[int, int]] = []
    for frame in range(frames + BLOCKS):
        if len(held) == BLOCKS or (held and frame >= frames):
            block, done = held.pop(0)
            gpu.wait("copying", done)
            gpu.free(block)
        if frame < frames:
            block = gpu.malloc()
            gpu.copy(frame, block, "copying")
            gpu.wait("working", gpu.event("copying"))
            gpu.read(block, "working")
            held.append((block, gpu.event("working")))


def _film(most: int) -> Any:
    return lambda rng, size: _case(rng, rng.randint(2, most))


def _case(rng: Rng, frames: int) -> Case:
    return Case((frames, rng.randint(1, 3), rng.randint(1, 3), rng.randint(0, 255)))


def _judge(case: Case, what: Any) -> str | None:
    frames, copy, read, _ = case.inputs
    if not isinstance(what, tuple):
        return "the whole film is sent, without an error"
    got = Sent(*what)
    if len(got.read) != frames:
        return f"{frames} frames are read, each once; {len(got.read)} were"
    if found := next(iter(races(got.program)), None):
        runs = [at for at, step in enumerate(got.program) if step[0] == "run"]
        one, other = (got.names[runs.index(at)] for at in found)
        return f"nothing orders {_said(one)} and {_said(other)}, in one block"
    if got.read != [*range(frames)]:
        return f"the frames are read in order; {got.read} were"
    if got.left:
        return f"every block is freed in the end; {got.left} were not"
    if got.most > SPARE * BLOCKS:
        return f"at most {BLOCKS} blocks are held at a time; {got.most} were"
    saved, possible = frames * (copy + read) - ends(got, copy, read), (frames - 1) * min(copy, read)
    if saved < OVERLAP * possible:
        return f"copies and reads overlap for {possible} units of time; {saved} did"
    return None


def _said(name: str) -> str:
    return "the next film's copy" if "-1" in name else name.split(",")[0]


def _drawn(case: Case, got: Any, right: Any) -> Any:
    from labkit import show

    found = Sent(*got)
    return show.streams(found.program, names=found.names)


@handed_out
def _drive(answer: Any, frames: int, copy: int, read: int, seed: int) -> Sent:
    """The film that the answer sends."""
    return sent(answer, frames, seed)


two_blocks = Exercise(
    id="stream_nobody_recorded.two_blocks",
    case=_film(8),
    drive=_drive,
    judge=_judge,
    picture=_drawn,
    show=lambda frames, copy, read, seed: (
        f"{frames} frames; a copy takes {copy}, a read {read}; seed {seed}"
    ),
    rung="boss",
    cases=40,
    minutes=25,
    stages=(
        Stage("two frames", case=_film(2), cases=10),
        Stage("three frames", case=lambda rng, size: _case(rng, 3), cases=10),
        Stage("all"),
    ),
    hints=(
        Hint("A read runs behind its own copy: working has to wait for a mark on copying.",
             when=lambda e: "nothing orders copy" in e.property),
        Hint("Before a block is freed, copying waits for a mark on working, behind the read.",
             when=lambda e: "nothing orders read" in e.property),
        Hint("A block that is never freed is never used again.",
             when=lambda e: "in the end" in e.property),
        Hint("With two blocks held, the older one is freed before you ask for another.",
             when=lambda e: "blocks are held" in e.property),
        Hint("The host waits, and queues nothing meanwhile. Before a free let copying wait for the "
             "mark behind the read: `gpu.wait`.",
             when=lambda e: "overlap" in e.property
             and ("synchronize", None) in Sent(*e.value).program[:-1]),
        Hint("The streams take turns: somebody waits for the newest read. Wait for the read "
             "before it, and keep two blocks.",
             when=lambda e: "overlap" in e.property),
        "Keep a list of pairs: a block, and the mark behind its read.",
    ),
    must_fail=(
        "synchronises the device",
        "waits on the host before each free",
        "one stream for all",
        "keeps every tensor alive",
        "waits for the newest read before it goes on",
        "waits for no read, as some seeds forgive",
        "holds three blocks",
        "frees the last blocks while they are read",
        "reads before the copy",
    ),
)  # fmt: skip
