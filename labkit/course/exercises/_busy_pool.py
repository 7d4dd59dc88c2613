"""A pool cleared and closed while other threads allocate: its device, its runs, its check."""

import threading
from typing import Any

from labkit.course.checking.stopwatch import ends
from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong
from labkit.course.exercises._never_right import TOO_SLOW
from labkit.memory.sizes import MIB

ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"
CATCHES = "catches every exception and returns a default"

Step = tuple[Any, ...]


class BusyDriver:
    """A device whose free takes effect at once, and which lets a second thread in where it hurts.

    total   bytes; streams count the work that was queued and that has run
    """

    def __init__(self, total: int) -> None:
        self._total, self._used, self._next = total, 0, 0x600000000000
        self._sizes: dict[int, int] = {}
        self._queued: dict[int, int] = {}
        self._run: dict[int, int] = {}
        self._uses: dict[int, list[tuple[int, int]]] = {}
        self._state = threading.Lock()
        self.lent: set[int] = set()
        self.problems: list[str] = []
        self.intruder: Any = None
        self.threads: list[threading.Thread] = []
        self.calls = 0

    def malloc(self, size: int) -> int | None:
        """Address of `size` new bytes, or None."""
        self._let_in("malloc")
        with self._state:
            if self._used + size > self._total:
                return None
            address, self._next = self._next, self._next + size
            self._sizes[address] = size
            self._used += size
            return address

    def free(self, address: int) -> None:
        """The bytes are gone, whoever still works on them."""
        self._let_in("free")
        with self._state:
            if address not in self._sizes:
                self.problems.append("an address was freed twice")
                return
            if address in self.lent:
                self.problems.append("a chunk that was handed out was freed")
            if not self._done(address):
                self.problems.append("a chunk was freed while a stream worked on it")
            self._used -= self._sizes.pop(address)

    def record_event(self, stream: int) -> tuple[int, int]:
        """An event behind everything queued on the stream now."""
        return stream, self._queued.get(stream, 0)

    def query_event(self, event: tuple[int, int]) -> bool:
        """True when the event has completed. Asking a million times does not help."""
        self._let_in("query")
        self.calls += 1
        return self._run.get(event[0], 0) >= event[1]

    def synchronize_event(self, event: tuple[int, int]) -> None:
        """Wait until the event has completed."""
        self._let_in("wait")
        stream, ticket = event
        self._run[stream] = max(self._run.get(stream, 0), ticket)

    def work(self, stream: int) -> int:
        """Queue something on the stream."""
        self._queued[stream] = self._queued.get(stream, 0) + 1
        return self._queued[stream]

    def finish(self, stream: int) -> None:
        """Everything queued on the stream has run."""
        self._run[stream] = self._queued.get(stream, 0)

    def lend(self, address: Any) -> None:
        """Note that a chunk was handed out."""
        with self._state:
            if address in self.lent:
                self.problems.append("one chunk was handed out twice")
            elif address not in self._sizes:
                self.problems.append("an address was handed out that the device has back")
            elif not self._done(address):
                self.problems.append("a chunk was handed out while a stream worked on it")
            self.lent.add(address)

    def returned(self, address: int, streams: tuple[int, ...]) -> None:
        """Note that a chunk comes back after these streams' work so far."""
        with self._state:
            self.lent.discard(address)
            self._uses[address] = [(stream, self._queued.get(stream, 0)) for stream in streams]

    @property
    def held(self) -> int:
        """Bytes that were not given back."""
        return self._used

    def _done(self, address: int) -> bool:
        return all(self._run.get(s, 0) >= ticket for s, ticket in self._uses.get(address, ()))

    def _let_in(self, where: str) -> None:
        """A second thread starts here; while the device is waited for it must get through."""
        if self.intruder is None or self.intruder[0] != where:
            return
        (_, act), self.intruder = self.intruder, None
        thread = threading.Thread(target=act, daemon=True)
        self.threads.append(thread)
        thread.start()
        if where != "wait":
            thread.join(0.02)
        elif not ends(thread):
            self.problems.append("another thread had to wait for the lock during a device wait")


def _a_busy_run(rng: Rng, size: int) -> tuple[Any, ...]:
    steps: list[Step] = []
    sizes = rng.sample((512, 1024, 4096, 65536), 2)
    for _ in range(4 + 3 * size):
        kind = rng.choice(("allocate", "allocate", "free", "free", "finish", "clear"))
        if kind == "allocate":
            steps.append((kind, rng.choice(sizes)))
        elif kind == "free":
            count = rng.randint(0, 2)
            steps.append((kind, rng.random(), tuple(rng.sample((1, 2, 3), count))))
        elif kind == "finish":
            steps.append((kind, rng.choice((1, 2, 3))))
        else:
            where = rng.choice(("free", "free", "query", "wait", "none"))
            steps.append((kind, where, rng.choice(sizes)))
    if rng.chance(0.3):
        steps.append(("full", rng.choice(sizes)))
    if rng.chance(0.3):
        steps.append(("impossible",))
    return steps, rng.choice(("free", "query", "wait"))


class BusyRun:
    """Runs the steps on a pool, with a second thread where the steps say so."""

    def __init__(self, pool_class: Any) -> None:
        self.driver = BusyDriver(16 * MIB)
        self.pool = pool_class(self.driver)
        self.mine: list[int] = []
        self.refused: list[str] = []
        self.errors: list[str] = []

    def allocate(self, size: int) -> None:
        """A chunk for this thread."""
        address = self.pool.allocate(size)
        self.driver.lend(address)
        self.mine.append(address)

    def intrude(self, size: int) -> None:
        """What the second thread does: one chunk, worked on and given back."""
        try:
            address = self.pool.allocate(size)
            self.driver.lend(address)
            self.driver.work(3)
            self.driver.returned(address, (3,))
            self.pool.free(address, (3,))
        except RuntimeError:
            if not self.closing:
                self.errors.append("allocate refused in a second thread")
        except BaseException as error:
            self.errors.append(f"{type(error).__name__} in a second thread: {error}")

    closing = False

    def free(self, which: float, streams: tuple[int, ...]) -> None:
        """A chunk comes back, with work of these streams behind it."""
        if self.mine:
            address = self.mine.pop(int(which * len(self.mine)))
            for stream in streams:
                self.driver.work(stream)
            self.driver.returned(address, streams)
            self.pool.free(address, streams)

    def finish(self, stream: int) -> None:
        """The stream has run everything."""
        self.driver.finish(stream)

    def clear(self, where: str, size: int) -> None:
        """Clear, with a second thread coming in at the first such call of the driver."""
        self.driver.intruder = (where, lambda: self.intrude(size))
        self.pool.clear()
        self._join()

    def full(self, size: int) -> None:
        """The device is full of chunks that come back, and two threads want larger ones."""
        for _ in range(16):
            if self.driver.held <= 15 * MIB:
                self.allocate(MIB)
        for address in self.mine:
            self.driver.work(1)
            self.driver.returned(address, (1,))
            self.pool.free(address, (1,))
        self.mine = []
        self.driver.intruder = ("wait", lambda: self.intrude(3 * MIB))
        address = self.pool.allocate(13 * MIB - 2 * size)
        self._join()
        self.driver.lend(address)
        self.driver.returned(address, ())
        self.pool.free(address, ())

    def impossible(self) -> None:
        """More than the device has."""
        try:
            self.pool.allocate(17 * MIB)
        except MemoryError:
            self.refused.append("17 MiB refused")
        else:
            self.errors.append("17 of 16 MiB were allocated")

    def end(self, where: str) -> None:
        """Close while some chunks are handed out; they come back afterwards."""
        self.closing = True
        self.driver.intruder = (where, lambda: self.intrude(512))
        self.pool.close()
        self._join()
        try:
            self.pool.allocate(512)
        except RuntimeError:
            self.refused.append("closed")
        for address in self.mine:
            self.driver.work(2)
            self.driver.returned(address, (2,))
            self.pool.free(address, (2,))

    def _join(self) -> None:
        self.driver.intruder = None
        for thread in self.driver.threads:
            if not ends(thread):
                self.errors.append("a second thread never came back")
        self.driver.threads = []


def _drive_busy(answer: Any, steps: list[Step], where: str) -> dict[str, Any]:
    run = BusyRun(answer)
    for kind, *arguments in steps:
        getattr(run, kind)(*arguments)
        if run.driver.problems or run.errors:
            break
    else:
        if where != "open":
            run.end(where)
    return {
        "problems": [*run.driver.problems, *run.errors],
        "refused": run.refused,
        "bytes never given back": run.driver.held,
    }


def _judge_busy(case: Case, got: Any) -> str | Wrong | None:
    steps, where = case.inputs
    closed = where != "open"
    if isinstance(got, Raised):
        return "every call of this run succeeds"
    if got["problems"]:
        return f"this never happens: {got['problems'][0]}"
    wanted = ["17 MiB refused"] * sum(s[0] == "impossible" for s in steps) + ["closed"] * closed
    if got["refused"] != wanted:
        return Wrong("MemoryError for 17 of 16 MiB, RuntimeError after close", wanted)
    if closed and got["bytes never given back"]:
        return Wrong("after close and the last free the device has everything back", 0)
    return None


def _busy_part(*kinds: str, intrudes: bool = False) -> Any:
    """(rng, size) -> steps of these kinds alone; the pool stays open."""

    def case(rng: Rng, size: int) -> tuple[Any, ...]:
        steps = [step for step in _a_busy_run(rng, size)[0] if step[0] in kinds]
        if not intrudes:
            steps = [
                (*step[:1], "none", *step[2:]) if step[0] == "clear" else step for step in steps
            ]
        if "full" in kinds:
            steps += [("full", 512), ("impossible",)]
        return steps, "open"

    return case


clear_while_busy = Exercise(
    id="memory_pool.clear_while_busy",
    rules=("plain Python with threading: nothing of labkit or torch",),
    case=_a_busy_run,
    judge=_judge_busy,
    drive=_drive_busy,
    rung="boss",
    stages=(
        Stage("one thread", case=_busy_part("allocate", "free", "finish"), cases=10),
        Stage("clear", case=_busy_part("allocate", "free", "finish", "clear"), cases=10),
        Stage(
            "second thread",
            case=_busy_part("allocate", "free", "finish", "clear", intrudes=True),
            cases=20,
        ),
        Stage("full device", case=_busy_part("allocate", "free", "full"), cases=10),
        Stage("close"),
    ),
    cases=60,
    seconds=1.0,
    waits=2.0,  # a pool that holds its lock while it waits for another thread never ends
    processes=True,
    minutes=30,
    hints=(
        Hint(
            "A stream still worked on this chunk. It is idle when all of its events are done, in "
            "whatever order they are.",
            when=lambda e: "stream worked" in e.property and e.stage in ("one thread", "clear"),
        ),
        Hint(
            "Two frees of one address, or a freed chunk in somebody's hands: clear walked over a "
            "list that another thread changed. Take the idle chunks out under the lock first, "
            "then free them.",
            when=lambda evidence: "freed" in evidence.property or "handed" in evidence.property,
        ),
        Hint(
            "Wait without the lock: copy the list of pending chunks under it, and wait for their "
            "events outside.",
            when=lambda evidence: "lock" in evidence.property,
        ),
        Hint(
            "While one thread waited, another one found nothing to wait for. What is waited for "
            "stays pending: both need it.",
            when=lambda evidence: "MemoryError in a second" in evidence.property,
        ),
        "Who owns a chunk that was handed out? Remember its size until it comes back; close must "
        "not forget it.",
        "Track live chunks; clear touches idle, event-free ones. A chunk is idle when all of its "
        "events have completed, in whatever order.",
    ),
    must_fail=(
        "no lock",
        "holds the lock during device waits",
        "hides what it waits for",
        "frees pending blocks",
        "forgets chunks handed out",
        TOO_SLOW,
        ORDERS,
        CATCHES,
    ),
)
