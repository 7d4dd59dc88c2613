"""Host allocators: a bump arena for storages, and foreign memory released exactly once."""

import gc
import threading
from collections.abc import Iterator
from typing import Any

from labkit.core.allocator import CPUAllocator, DataPtr
from labkit.core.storage import Storage
from labkit.course.exercise import Evidence, Exercise, Hint, Rng

NOTEBOOK = "2_core_code/8_host_allocators"

FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
READS = "reads the expected value out of the checker (module globals, frames or closure)"
CATCHES = "catches every exception and returns a default"
ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"

Step = tuple[Any, ...]

# --- arena_allocator


class Source:
    """An allocator that counts what it hands out and gets back; its memory starts at 64 * k."""

    def __init__(self) -> None:
        self._memory = CPUAllocator()
        self.live = 0
        self.address = 0

    def allocate(self, nbytes: int) -> DataPtr:
        """Own `nbytes` bytes."""
        self.live += 1
        inner = self._memory.allocate(nbytes)
        self.address = inner.address
        return DataPtr(inner.address, inner.device, inner, self._take_back)

    def _take_back(self, inner: DataPtr) -> None:
        self.live -= 1
        inner.clear()


def _a_program(rng: Rng, size: int) -> tuple[int, list[Step]]:
    capacity = 64 * rng.randint(2, 8 + 8 * size) + rng.choice((0, 0, 17))
    steps: list[Step] = []
    names: list[str] = []
    for number in range(4 + 4 * size):
        dice = rng.random()
        if dice < 0.45 or not names:
            nbytes = rng.choice((0, 1, 7, 64, 65, 100, rng.randint(1, 400), capacity))
            steps.append(("make", f"s{number}", nbytes))
            names.append(f"s{number}")
        elif dice < 0.6:
            steps.append(("view", f"v{number}", rng.choice(names)))
            names.append(f"v{number}")
        elif dice < 0.8:
            steps.append(("drop", names.pop(rng.randrange(len(names)))))
        else:
            steps.append(("reset",))
        if rng.chance(0.1):
            steps += [("drop", name) for name in names] + [("reset",)]
            names = []
    return capacity, steps


class ArenaRun:
    """Runs the steps on storages that the arena serves."""

    def __init__(self, arena_class: Any, capacity: int) -> None:
        self.source = Source()
        self.arena = arena_class(self.source, capacity)
        self.storages: dict[str, Storage] = {}
        self.log: list[str] = []

    def make(self, name: str, nbytes: int) -> None:
        """A storage of that size, filled, so that an overlap would show."""
        try:
            pointer = self.arena.allocate(nbytes)
        except MemoryError:
            self.log.append(f"make {name}, {nbytes} bytes: full")
            return
        if not isinstance(pointer, DataPtr):
            raise TypeError(f"allocate returns a DataPtr, got {type(pointer).__name__}")
        storage = Storage.from_data_ptr(pointer, nbytes)
        del pointer
        self.storages[name] = storage
        place = f"offset {storage.data_ptr() - self.source.address}" if nbytes else "no memory"
        if not nbytes and storage.data_ptr():
            place = "an address for 0 bytes"
        self.log.append(f"make {name}, {nbytes} bytes: {place}, {storage.device}")

    def view(self, name: str, of: str) -> None:
        """One more holder of the same storage."""
        if of in self.storages:
            self.storages[name] = Storage(self.storages[of].impl)

    def drop(self, name: str) -> None:
        """A holder less."""
        self.storages.pop(name, None)

    def reset(self) -> None:
        """The arena starts again, or refuses."""
        try:
            self.arena.reset()
        except RuntimeError as error:
            live = {id(s.impl) for s in self.storages.values() if s.nbytes}
            named = str(len(live)) in str(error).replace("-", " ").split()
            said = f"{len(live)} live" if named else f"a message without the {len(live)}: {error}"
            self.log.append(f"reset: refused, {said}")
        else:
            self.log.append("reset: done")

    def end(self) -> list[str]:
        """The arena goes first, then the last storage: only then does the memory go back."""
        self.storages = dict(list(self.storages.items())[:1])
        left = any(storage.nbytes for storage in self.storages.values())
        self.arena = None
        gc.collect(0)
        self.log.append(f"arena dropped: {self.source.live} pieces still owned ({int(left)} right)")
        self.storages = {}
        gc.collect(0)
        self.log.append(f"last storage dropped: {self.source.live} pieces still owned")
        return self.log


def _drive_arena(answer: Any, capacity: int, steps: list[Step]) -> list[str]:
    run = ArenaRun(answer, capacity)
    for kind, *arguments in steps:
        getattr(run, kind)(*arguments)
    return run.end()


def _expected_arena(capacity: int, steps: list[Step]) -> list[str]:
    used = 0
    storage_of: dict[str, str] = {}
    sizes: dict[str, int] = {}
    log = []
    for kind, *rest in steps:
        if kind == "make":
            name, nbytes = rest
            start = -(-used // 64) * 64
            head = f"make {name}, {nbytes} bytes:"
            if nbytes == 0:
                log.append(f"{head} no memory, cpu")
            elif start + nbytes > capacity:
                log.append(f"{head} full")
                continue
            else:
                log.append(f"{head} offset {start}, cpu")
                used = start + nbytes
            storage_of[name], sizes[name] = name, nbytes
        elif kind == "view" and rest[1] in storage_of:
            storage_of[rest[0]] = storage_of[rest[1]]
        elif kind == "drop":
            storage_of.pop(rest[0], None)
        elif kind == "reset":
            live = len({root for root in storage_of.values() if sizes[root]})
            used = used if live else 0
            log.append(f"reset: refused, {live} live" if live else "reset: done")
    left = int(any(sizes[root] for root in list(storage_of.values())[:1]))
    log.append(f"arena dropped: {left} pieces still owned ({left} right)")
    return [*log, "last storage dropped: 0 pieces still owned"]


def _fewer_arena(capacity: int, steps: list[Step]) -> Iterator[Any]:
    yield capacity, steps[: len(steps) // 2]
    for at in range(len(steps)):
        yield capacity, [*steps[:at], *steps[at + 1 :]]


def _first_line(evidence: Evidence) -> str:
    for ours, right in zip(evidence.value, evidence.right, strict=False):
        if ours != right:
            return f"{right} | {ours}"
    return ""


arena_allocator = Exercise(
    id="host_allocators.arena_allocator",
    statement=(
        "Write class Arena with __init__(source, nbytes), allocate(nbytes) -> DataPtr and reset(). "
        "It takes nbytes bytes once from source.allocate(nbytes), whose address is a multiple of "
        "64, and hands them out front to back, each piece at a multiple of 64. 0 bytes get a "
        "DataPtr with address 0 on the cpu, which is nobody's. MemoryError when a piece does not "
        "fit. reset() starts again at the front; while storages are alive it raises RuntimeError "
        "with their number as a word of its message. The source's memory goes back when the arena "
        "and the last storage are gone. After Arena(source, 256), two pieces of 10 bytes lie at "
        "offsets 0 and 64."
    ),
    rules=("no allocator of labkit but the source",),
    case=_a_program,
    expected=_expected_arena,
    drive=_drive_arena,
    smaller=_fewer_arena,
    cases=150,
    minutes=20,
    difficulty=3,
    hints=(
        Hint(
            "A view kept the storage alive, and the storage its DataPtr. You need no list of "
            "tensors: count DataPtr contexts.",
            when=lambda evidence: "reset" in _first_line(evidence).split("|")[0],
        ),
        Hint(
            "Round the start of every piece up to 64, not its end: the last one may end anywhere.",
            when=lambda evidence: (
                "offset" in _first_line(evidence) or "full" in _first_line(evidence)
            ),
        ),
        Hint(
            "What the deleter refers to stays alive: let every DataPtr hold the arena's memory.",
            when=lambda evidence: "owned" in _first_line(evidence),
        ),
        "Increment in allocate, after everything that may raise; decrement in the deleter.",
    ),
    must_fail=(
        "frees on reset regardless",
        "alignment of the first block only",
        "counts tensors not storages",
        "leaks on exception",
        "zero-size gets null without device",
        "gives its memory back with the arena",
        FIRST,
        CONSTANT,
        CATCHES,
    ),
)

# --- deleter_once


def _a_life(rng: Rng, size: int) -> tuple[list[Step]]:
    steps: list[Step] = []
    names: list[str] = []
    for number in range(3 + 4 * size):
        name = f"h{number}"
        kind = rng.choice(
            ("adopt", "view", "view", "move", "close", "close", "drop", "raise", "elsewhere", "due")
        )
        if kind == "adopt" or not names:
            steps.append(("adopt", name))
            names.append(name)
        elif kind in ("view", "move"):
            steps.append((kind, name, rng.choice(names)))
            names.append(name)
        elif kind == "due":
            steps.append((kind,))
        else:
            steps.append((kind, rng.choice(names)))
    return (steps,)


class Life:
    """Runs the steps on handles of foreign memory, and logs who released what, and where."""

    def __init__(self, handle_class: Any) -> None:
        self.make = handle_class
        self.home = threading.get_ident()
        self.handles: dict[str, Any] = {}
        self.released: list[str] = []
        self.log: list[str] = []
        self.owner = 0

    def release(self, address: int) -> None:
        """The release function of the foreign memory."""
        where = "at home" if threading.get_ident() == self.home else "in another thread"
        self.released.append(f"{address:#x} released {where}")

    def adopt(self, name: str) -> None:
        """Memory of somebody else's, of a new address."""
        self.owner += 4096
        self.handles[name] = self.make(self.owner, self.release)

    def view(self, name: str, of: str) -> None:
        """One more handle."""
        if of in self.handles:
            self._derive(name, of, "view")

    def move(self, name: str, of: str) -> None:
        """A handle that takes over from an old one."""
        if of in self.handles:
            self._derive(name, of, "move")

    def _derive(self, name: str, of: str, how: str) -> None:
        try:
            self.handles[name] = getattr(self.handles[of], how)()
        except ValueError:
            self.log.append(f"{how} of {of} refused")

    def close(self, name: str) -> None:
        """Give a handle up; it may be given up already."""
        if name in self.handles:
            self.handles[name].close()

    def drop(self, name: str) -> None:
        """The last reference to a handle goes."""
        self.handles.pop(name, None)
        gc.collect(0)

    def elsewhere(self, name: str) -> None:
        """Give a handle up in another thread."""
        if name in self.handles:
            thread = threading.Thread(target=self.handles[name].close)
            thread.start()
            thread.join()

    def due(self) -> None:
        """At home: what has to be released here is released."""
        self.make.run_due()

    def raise_(self, name: str) -> None:
        """An exception passes through `with handle`."""
        if name not in self.handles:
            return
        try:
            with self.handles[name]:
                raise KeyError(name)
        except KeyError:
            return
        self.log.append("the exception was swallowed")

    def step(self, kind: str, *arguments: str) -> None:
        """One step, and what was released by it."""
        getattr(self, "raise_" if kind == "raise" else kind)(*arguments)
        self.log += [f"{kind} {' '.join(arguments)}: {line}" for line in self.released]
        self.released.clear()

    def end(self) -> list[str]:
        """All handles go, here, in the order they were made; then what is due is released."""
        for name in sorted(self.handles, key=lambda name: int(name[1:])):
            self.step("drop", name)
        self.step("due")
        return self.log


def _drive_life(answer: Any, steps: list[Step]) -> list[str]:
    life = Life(answer)
    for step in steps:
        life.step(*step)
    return life.end()


def _expected_life(steps: list[Step]) -> list[str]:
    held: dict[str, int | None] = {}
    log: list[str] = []
    due: list[int] = []
    owner = 0

    def give_up(name: str, what: str, home: bool = True) -> None:
        address = held.get(name)
        if address is None:
            return
        held[name] = None
        if address not in held.values():
            if home:
                log.append(f"{what}: {address:#x} released at home")
            else:
                due.append(address)

    def step(kind: str, *names: str) -> None:
        nonlocal owner
        what = f"{kind} {' '.join(names)}"
        if kind == "adopt":
            owner += 4096
            held[names[0]] = owner
        elif kind in ("view", "move") and names[1] in held:
            address = held[names[1]]
            if address is None:
                log.append(f"{kind} of {names[1]} refused")
                return
            held[names[0]] = address
            if kind == "move":
                held[names[1]] = None
        elif kind in ("close", "raise", "drop", "elsewhere"):
            give_up(names[0], what, kind != "elsewhere")
            if kind == "drop":
                held.pop(names[0], None)
        elif kind == "due":
            log.extend(f"{what}: {address:#x} released at home" for address in due)
            due.clear()

    for each in steps:
        step(*each)
    for name in sorted(held, key=lambda name: int(name[1:])):
        step("drop", name)
    step("due")
    return log


def _fewer_lives(steps: list[Step]) -> Iterator[Any]:
    yield (steps[: len(steps) // 2],)
    for at in range(len(steps)):
        yield ([*steps[:at], *steps[at + 1 :]],)


def _show_life(steps: list[Step]) -> str:
    return "; ".join(f"{kind}({', '.join(names)})" for kind, *names in steps)


deleter_once = Exercise(
    id="host_allocators.deleter_once",
    statement=(
        "Write class Foreign: a handle of memory that somebody else made. Foreign(address, "
        "release) adopts it. view() gives one more handle; move() gives a handle that takes over, "
        "and leaves this one empty. close() gives the handle up; so does `with handle:` at its "
        "end, also when an exception passes, and so does dropping the last reference to it. "
        "Closing an empty handle does nothing; view and move of one raise ValueError. When the "
        "last handle of an address is given up, release(address) runs, once, in the thread that "
        "adopted it: at once if that is the thread we are in, otherwise when the adopting thread "
        "next calls Foreign.run_due(), in the order they became due. After f = Foreign(4096, r), "
        "g = f.move() and f.close(), nothing was released; g.close() releases."
    ),
    rules=("plain Python with threading: nothing of labkit",),
    case=_a_life,
    expected=_expected_life,
    drive=_drive_life,
    smaller=_fewer_lives,
    show=_show_life,
    cases=200,
    processes=True,
    minutes=20,
    difficulty=4,
    banned=("labkit.core.allocator", "labkit.core.storage"),
    hints=(
        Hint(
            "Something was released too early or twice. The count belongs to the memory, not to "
            "the handle: let all handles share one object.",
            when=lambda evidence: len(evidence.value) > len(evidence.right),
        ),
        Hint(
            "A handle was closed in another thread. Remember the adopting thread, and leave the "
            "release to its run_due().",
            when=lambda evidence: any(step[0] == "elsewhere" for step in evidence.inputs[0]),
        ),
        "__exit__ and __del__ both end in close(), and close() empties the handle before it does "
        "anything else.",
        "One shared object per address with a count, taken by view, passed on by move, given up by "
        "close; a moved-from handle holds None.",
    ),
    must_fail=(
        "runs per view",
        "runs at move",
        "never runs if an exception passes",
        "runs in the finaliser twice",
        ORDERS,
        FIRST,
        READS,
    ),
)

EXERCISES = (arena_allocator, deleter_once)
