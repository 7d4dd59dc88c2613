"""A GPU of a few streams and PyTorch's allocator: frames go in, are worked on, and are freed.

The host queues work and goes on. How far the queues get meanwhile is the `pace`: "eager" (all that
can run has run before the host goes on), "lazy" (nothing runs before the host waits) or a seed.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from labkit.cuda.emulator.queue import Work, WorkQueue
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
        self._eager, self._settling = pace == "eager", False
        self._random = Random(pace) if isinstance(pace, int) else None
        self._streams: list[str] = []
        self._queue = WorkQueue()
        self._queue.follow(self)
        self._marks: list[Work] = []
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
        self._marks.append(self._enqueue(stream, "record"))
        self.program.append(("record", stream, len(self._marks)))
        return len(self._marks)

    def wait(self, stream: str, event: int) -> None:
        """What this stream gets from now on runs behind the event; the host does not wait."""
        self.program.append(("wait", stream, event))
        self._enqueue(stream, "wait", after=[self._marks[event - 1]])

    def synchronize(self) -> None:
        """The host waits for all that is queued."""
        self.program.append(("synchronize", None))
        self._settle()

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
        seen = self._marks[mark - 1].done_as is not None
        if seen:
            self.program.append(("host wait", mark))
        return seen

    def choice(self, ready: Sequence[Work]) -> Work:
        """The `WorkQueue` asks what runs next: of the stream that was named first, or by chance."""
        by_stream = sorted(ready, key=lambda work: work.stream)
        return (
            by_stream[0] if self._settling or not self._random else self._random.choice(by_stream)
        )

    def _number(self, stream: str) -> int:
        if stream not in self._streams:
            self._streams.append(stream)
        return self._streams.index(stream) + 1

    def _run(self, stream: str, verb: str, source: int | None, target: int, value: Any) -> None:
        named = [self._letters.get(one, "?") for one in (source, target) if one is not None]
        self.program.append(("run", stream, tuple(named[:-1]), (named[-1],)))
        self.names.append(f"{verb} {named[0]}")
        self._enqueue(stream, "run", lambda: self._memory.update({target: value()}))

    def _enqueue(
        self,
        stream: str,
        kind: str,
        run: Callable[[], None] | None = None,
        after: Sequence[Work] = (),
    ) -> Work:
        work = self._queue.enqueue(self._number(stream), kind, kind, run, after)
        if self._eager:
            self._settle()
        elif self._random is not None:
            for _ in range(self._random.choice((0, 0, 0, 1, 2, 6))):
                self._queue.step()
        return work

    def _settle(self) -> None:
        """All that is queued has run."""
        self._settling = True
        self._queue.run_until(None)
        self._settling = False


def _name(number: int) -> str:
    """P, Q ... Z, P1 ...: A to F are the patients."""
    letters = "PQRSTUVWXYZ"
    again, at = divmod(number, len(letters))
    return letters[at] + (str(again) if again else "")


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
