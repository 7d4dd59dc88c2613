"""A GPU of a few streams and PyTorch's allocator: frames go in, are worked on, and are freed.

The host queues work and goes on. How far the queues get meanwhile is the `pace`: "eager" (all that
can run has run before the host goes on), "lazy" (nothing runs before the host waits) or a seed.
"""

from random import Random
from typing import Any

from labkit.cuda.happens_before import accesses, races
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice

BLOCK_BYTES = 2 << 20
UNSET = -1
"""What memory holds before anything was written."""

Step = tuple[Any, ...]


class _Device(SimulatedDevice):
    """Its events are marks in the queues of a `Gpu`."""

    def __init__(self, gpu: "Gpu") -> None:
        super().__init__(1 << 30)
        self.gpu = gpu

    def record_event(self, stream: int) -> Any:
        return self.gpu.record(self.gpu.name_of(stream))

    def query_event(self, event: Any) -> bool:
        return self.gpu.has_seen(event)


class Gpu:
    """Streams by name; a block is an address.

    program  what was queued, as `labkit.cuda.happens_before` takes it; names: of its work
    most     the most blocks that were in use, or waiting for a stream, at one time
    """

    def __init__(self, pace: str | int = "lazy") -> None:
        self.program: list[Step] = []
        self.names: list[str] = []
        self.most = 0
        self._eager, self._random = pace == "eager", None if pace == "lazy" else Random(pace)
        self._streams: list[str] = []
        self._queues: dict[str, list[tuple[Any, ...]]] = {}
        self._done: set[int] = set()
        self._marks = 0
        self._memory: dict[int, int] = {}
        self._letters: dict[int, str] = {}
        self.allocator = CachingAllocator(_Device(self))
        self.allocator.record_memory_history("all", None)

    def new(self, stream: str) -> int:
        """A block for work on this stream."""
        block = self.allocator.malloc(BLOCK_BYTES, self._number(stream))
        self.most = max(self.most, self.allocator.active_bytes // BLOCK_BYTES)
        self._letters.setdefault(block, _name(len(self._letters)))
        return block

    def free(self, block: int) -> None:
        """The block may serve the next `new` of its stream."""
        self.allocator.free(block)

    def record_stream(self, block: int, stream: str) -> None:
        """Freed, the block serves nobody before the work that this stream has then is done."""
        self.allocator.record_stream(block, self._number(stream))

    def upload(self, stream: str, frame: int, block: int) -> None:
        """Queue: the frame is written into the block."""
        self._run(stream, "upload", None, block, lambda: frame)

    def sharpen(self, stream: str, block: int, result: int) -> None:
        """Queue: the result is made of the frame in the block."""
        self._run(
            stream, "sharpen", block, result, lambda: sharpened(self._memory.get(block, UNSET))
        )

    def record(self, stream: str) -> int:
        """An event behind all that this stream has now."""
        self._marks += 1
        self.program.append(("record", stream, self._marks))
        self._queue(stream, ("mark", self._marks))
        return self._marks

    def wait(self, stream: str, event: int) -> None:
        """What this stream gets from now on runs behind the event; the host does not wait."""
        self.program.append(("wait", stream, event))
        self._queue(stream, ("wait", event))

    def synchronize(self) -> None:
        """The host waits for all that is queued."""
        self.program.append(("synchronize", None))
        while self._ready():
            self._step(self._ready()[0])

    def read(self, block: int) -> int:
        """What the block holds, once all is done."""
        self.synchronize()
        return self._memory.get(block, UNSET)

    def live(self) -> list[int]:
        """The blocks that nobody has freed."""
        return [block.address for block in self.allocator.live_blocks()]

    def races(self) -> list[tuple[str, str]]:
        """Pairs of work on one block that nothing orders."""
        places = [at for at, step in enumerate(self.program) if step[0] == "run"]
        name = dict(zip(places, self.names, strict=True))
        return [(name[a], name[b]) for a, b in races(self.program)]

    def overlaps(self) -> int:
        """How many uploads may run beside the work on the frame before."""
        work = accesses(self.program)
        uploads = [one for one in work if not one.reads]
        works = [one for one in work if one.reads]
        return sum(
            not one.is_before(other) and not other.is_before(one)
            for one, other in zip(uploads[1:], works, strict=False)
        )

    def picture(self, title: str = "") -> Any:
        """All that was queued, as early as it may run, and what races."""
        from labkit import show  # drawing is for whoever looks

        return show.streams(self.program, names=self.names, title=title)

    def name_of(self, stream: int) -> str:
        """The stream that the allocator knows by this number."""
        return self._streams[stream - 1]

    def has_seen(self, mark: int) -> bool:
        """Whether the mark is reached; from then on the host knows it."""
        if mark in self._done:
            self.program.append(("host wait", mark))
        return mark in self._done

    def _number(self, stream: str) -> int:
        if stream not in self._streams:
            self._streams.append(stream)
        return self._streams.index(stream) + 1

    def _run(self, stream: str, verb: str, source: int | None, target: int, value: Any) -> None:
        named = [self._letters.get(one, "?") for one in (source, target) if one is not None]
        self.program.append(("run", stream, tuple(named[:-1]), (named[-1],)))
        self.names.append(f"{verb} {named[0]}")
        self._queue(stream, ("run", target, value))

    def _queue(self, stream: str, work: tuple[Any, ...]) -> None:
        self._number(stream)
        self._queues.setdefault(stream, []).append(work)
        if self._eager:
            while self._ready():
                self._step(self._ready()[0])
        elif self._random is not None:
            for _ in range(self._random.choice((0, 0, 0, 1, 2, 6))):
                if ready := self._ready():
                    self._step(self._random.choice(ready))

    def _ready(self) -> list[str]:
        """Streams whose next piece of work may run."""
        return [
            stream
            for stream, queue in self._queues.items()
            if queue and (queue[0][0] != "wait" or queue[0][1] in self._done)
        ]

    def _step(self, stream: str) -> None:
        kind, what, *value = self._queues[stream].pop(0)
        if kind == "run":
            self._memory[what] = value[0]()
        elif kind == "mark":
            self._done.add(what)


def _name(number: int) -> str:
    """A, B ... Z, A1 ..."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 26] + (str(number // 26) if number > 25 else "")


def sharpened(frame: int) -> int:
    """What `sharpen` makes of a frame, which is a number here."""
    return 3 * frame + 1


def freed_early(gpu: Gpu, frames: list[int], copy: str, work: str) -> list[int]:
    """Each frame arrives before it is read, and its block is free while it is read."""
    results = []
    for frame in frames:
        block = gpu.new(copy)
        gpu.upload(copy, frame, block)
        gpu.wait(work, gpu.record(copy))
        result = gpu.new(work)
        gpu.sharpen(work, block, result)
        gpu.free(block)
        results.append(result)
    return results
