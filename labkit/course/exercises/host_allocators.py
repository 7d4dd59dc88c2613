"""Host allocators: a bump arena for storages, and foreign memory released exactly once."""

import gc
import re
from collections.abc import Callable, Iterator
from typing import Any

from labkit.core.allocator import CPUAllocator, DataPtr
from labkit.core.storage import Storage
from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._drawn_segments import drawn
from labkit.course.exercises._handle_lives import (
    ALONE,
    KINDS,
    Step,
    a_life_of,
    drive_life,
    expected_life,
    fewer_lives,
    lives_drawn,
    released_early,
    should_refuse,
    show_life,
)
from labkit.course.exercises._never_right import CONSTANT, FIRST, READS
from labkit.course.exercises._pointer_steps import move, serves

NOTEBOOK = "2_core_code/8_host_allocators"

CATCHES = "catches every exception and returns a default"
ORDERS = "is right in forward thread and queue order only and fails in a reversed or shuffled order"

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


def _programs_of(*kinds: str) -> Callable[[Rng, int], tuple[int, list[Step]]]:
    """The same programs, with these steps only."""

    def program(rng: Rng, size: int) -> tuple[int, list[Step]]:
        capacity, steps = _a_program(rng, size)
        names = {step[1] for step in steps if step[0] == "make"}
        kept = [step for step in steps if step[0] in kinds]
        return capacity, [step for step in kept if step[0] != "drop" or step[1] in names]

    return program


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
        if not hasattr(pointer, "deleter"):  # labkit's DataPtr, or the reader's own
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


def _pieces_out(case: Case, got: Any, right: Any) -> Any:
    """The arena at the step whose line is the first wrong one: which pieces are out."""
    capacity, steps = case.inputs
    lines = got if isinstance(got, list) else []
    pairs = zip(lines, right, strict=False)
    agree = next((n for n, (line, wanted) in enumerate(pairs) if line != wanted), len(right))
    said, used = 0, 0
    pieces: list[tuple[str, int, int]] = []
    holders: dict[str, str] = {}
    for kind, *names in steps:
        if said > agree:
            break
        said += kind in ("make", "reset")
        if kind == "make" and names[1] and -(-used // 64) * 64 + names[1] <= capacity:
            start = -(-used // 64) * 64
            pieces.append((names[0], start, names[1]))
            holders[names[0]], used = names[0], start + names[1]
        elif kind == "view" and names[1] in holders:
            holders[names[0]] = holders[names[1]]
        elif kind == "drop":
            holders.pop(names[0], None)
        elif kind == "reset" and not holders:
            pieces, used = [], 0
    return drawn([_blocks(capacity, pieces, set(holders.values()))], "the arena as it should be")


def _blocks(capacity: int, pieces: list[tuple[str, int, int]], live: set[str]) -> Any:
    """The arena front to back: pieces, gaps up to the next multiple of 64, and the rest."""
    blocks, end = [], 0
    for name, start, nbytes in pieces:
        blocks += [(start - end, False), (nbytes, name in live)]
        end = start + nbytes
    return [block for block in [*blocks, (capacity - end, False)] if block[0]]


def _says(words: str) -> Callable[[Evidence], bool]:
    return lambda evidence: words in evidence.got


def _first_line(evidence: Evidence) -> str:
    for ours, right in zip(evidence.value, evidence.right, strict=False):
        if ours != right:
            return f"{right} | {ours}"
    return ""


def _pieces_owned_wrongly(evidence: Evidence) -> int:
    """How many pieces too many are owned by the first wrong line; 0 if it counts none."""
    right, ours = (
        re.findall(r": (-?\d+) pieces", side) for side in _first_line(evidence).split("|")
    )
    return int(ours[0]) - int(right[0]) if right else 0


arena_allocator = Exercise(
    id="host_allocators.arena_allocator",
    rules=("no allocator of labkit but the source",),
    case=_a_program,
    expected=_expected_arena,
    drive=_drive_arena,
    smaller=_fewer_arena,
    picture=_pieces_out,
    rung="core",
    stages=(
        Stage("pieces", case=_programs_of("make", "drop")),
        Stage("reset", case=_programs_of("make", "drop", "reset")),
        Stage("with views"),
    ),
    cases=80,
    minutes=15,
    hints=(
        Hint(
            "Nothing is asked for, so no piece goes out: return a DataPtr with address 0, on CPU, "
            "without a deleter, before you count.",
            when=lambda evidence: " 0 bytes:" in _first_line(evidence).split("|")[0],
        ),
        Hint(
            "A view kept the storage alive, and the storage its DataPtr. You need no list of "
            "tensors: count DataPtr contexts.",
            when=lambda evidence: (
                "reset" in _first_line(evidence).split("|")[0]
                and any(step[0] == "view" for step in evidence.inputs[1])
            ),
        ),
        Hint(
            "How many pieces are out? `allocate` knows when one goes out, and the deleter of its "
            "DataPtr when it comes back.",
            when=lambda evidence: "reset" in _first_line(evidence).split("|")[0],
        ),
        Hint(
            "Round the start of every piece up to 64, not its end: the last one may end anywhere.",
            when=lambda evidence: (
                "offset" in _first_line(evidence) or "full" in _first_line(evidence)
            ),
        ),
        Hint(
            "The memory does not go back: somebody holds it after the arena and its storages are "
            "gone. Is there a list of all pieces, or an object that holds itself?",
            when=lambda evidence: _pieces_owned_wrongly(evidence) > 0,
        ),
        Hint(
            "The memory went back too early. What the deleter refers to stays alive: let every "
            "DataPtr hold the arena's memory.",
            when=lambda evidence: _pieces_owned_wrongly(evidence) < 0,
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

# --- last_handle, deleter_once

NAMED_BY_WITH = Hint(
    "`with ... as` names what `__enter__` returns: the handle itself.", when=_says("`with")
)

last_handle = Exercise(
    id="host_allocators.last_handle",
    rules=("plain Python: nothing of labkit",),
    case=a_life_of(*ALONE),
    expected=expected_life,
    drive=drive_life,
    smaller=fewer_lives,
    show=show_life,
    picture=lives_drawn,
    rung="core",
    stages=(
        Stage("close", case=a_life_of("adopt", "close", "drop")),
        Stage("move", case=a_life_of("adopt", "close", "drop", "move")),
        Stage("view", case=a_life_of("adopt", "close", "drop", "view", "view")),
        Stage("with", case=a_life_of("adopt", "view", "raise", "drop")),
        Stage("together"),
    ),
    cases=80,
    minutes=15,
    banned=("labkit.core.allocator", "labkit.core.storage"),
    hints=(
        Hint(
            "An empty handle, moved from or closed, has nothing to hand on: there `view` and "
            "`move` raise ValueError.",
            when=should_refuse,
        ),
        NAMED_BY_WITH,
        Hint(
            "A handle that moved is empty: what it held belongs to the new one now.",
            stage="move",
        ),
        Hint(
            "`__exit__` closes the handle and returns nothing: then the exception goes on.",
            when=lambda evidence: evidence.stage == "with" or "swallowed" in evidence.got,
        ),
        Hint(
            "Released while another handle holds the memory, or twice. The count belongs to the "
            "memory, not to the handle: let all handles of an address share one object.",
            when=released_early,
        ),
        "`__exit__` and `__del__` both end in `close()`, and `close()` empties the handle before "
        "it does anything else.",
        "One shared object per address, with a count: `view` adds one, `close` takes one away, "
        "`move` does neither.",
    ),
    must_fail=(
        "releases for every view",
        "releases at a move",
        "an exception passes and nothing is released",
        "swallows the exception",
        "releases again when the handle is dropped",
        "`with` gives no handle",
    ),
)

deleter_once = Exercise(
    id="host_allocators.deleter_once",
    rules=("plain Python with threading: nothing of labkit",),
    case=a_life_of(*KINDS),
    expected=expected_life,
    drive=drive_life,
    smaller=fewer_lives,
    show=show_life,
    picture=lives_drawn,
    rung="boss",
    stages=(
        Stage("one thread", case=a_life_of(*ALONE)),
        Stage("another thread", case=a_life_of("adopt", "elsewhere", "due", "drop")),
        Stage("all of it"),
    ),
    cases=200,
    processes=True,
    minutes=25,
    banned=("labkit.core.allocator", "labkit.core.storage"),
    hints=(
        NAMED_BY_WITH,
        Hint(
            "A handle was closed in another thread. Remember the adopting thread, and leave the "
            "release to its run_due().",
            when=lambda evidence: any(step[0] == "elsewhere" for step in evidence.inputs[0]),
        ),
        Hint(
            "Something was released too early or twice. The count belongs to the memory, not to "
            "the handle: let all handles share one object.",
            when=released_early,
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
        "`with` gives no handle",
        ORDERS,
        FIRST,
        READS,
    ),
)

EXERCISES = (move, serves, last_handle, arena_allocator, deleter_once)
