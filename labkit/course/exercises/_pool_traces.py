"""Programs for a pool on three streams: what they ask, how they run, and what went wrong."""

from dataclasses import dataclass, field
from typing import Any

from labkit.course.exercise import Case, Raised, Rng, Wrong
from labkit.course.exercises._pool_bound import most_bytes_held
from labkit.course.exercises._pool_driver import LabkitPool, PoolDriver
from labkit.course.exercises._pool_streams import Emulated
from labkit.memory.sizes import KIB, MIB

Step = tuple[Any, ...]
WIDTH = 64
"""Bytes at either end of a block that are written and read."""
ROOM = 512 * MIB


def _late_write(rng: Rng) -> list[Step]:
    """The old owner's write is still queued when another stream's block could take the place."""
    nbytes = 512 * rng.randint(9, 99)
    return [
        ("slow", 0, 60), ("allocate", "w0", nbytes, 0), ("free", "w0"),
        ("allocate", "w1", nbytes, 1),
    ]  # fmt: skip


def _late_read(rng: Rng) -> list[Step]:
    """Of two streams that read a block one is done long before the other."""
    nbytes = 512 * rng.randint(9, 99)
    between: list[Step] = []
    for number in range(40):
        between += [("allocate", f"b{number}", 200, 1), ("free", f"b{number}")]
    return [
        ("allocate", "r0", nbytes, 0), ("use", "r0", 1), ("slow", 2, 300), ("use", "r0", 2),
        ("free", "r0"), *between, ("allocate", "r1", nbytes, 0), ("free", "r1"),
    ]  # fmt: skip


def _read_to_the_end(rng: Rng) -> list[Step]:
    """The reader of a block is done when its bytes are asked for again."""
    nbytes = MIB * rng.randint(5, 20)
    return [
        ("allocate", "d0", nbytes, 0), ("slow", 1, 60), ("use", "d0", 1), ("free", "d0"),
        ("allocate_when_done", "d1", nbytes, 0), ("free", "d1"),
    ]  # fmt: skip


def _rounds(rng: Rng, size: int, owners: tuple[int, ...], shared: bool, clears: bool) -> list[Step]:
    """Rounds of varying sizes; where `shared`, other streams read what one has written."""
    steps: list[Step] = []
    rounds, width = (3 + size if shared else 4 + 2 * size), rng.randint(4, 8)
    number, live = 0, []
    largest = rng.choice((300 * KIB, MIB, 3 * MIB))
    for _ in range(rounds):
        if shared:
            steps.append(("slow", rng.choice((0, 1, 2)), rng.randint(10, 40)))
        for _ in range(width):
            owner = rng.choice(owners)
            name = f"t{number}"
            number += 1
            steps.append(("allocate", name, rng.randint(WIDTH * 2, largest), owner))
            live.append((name, owner))
            others = rng.sample([s for s in (0, 1, 2) if s != owner], 2)
            for other in others[: shared * rng.choice((0, 1, 2, 2))]:
                steps.append(("use", name, other))
        rng.shuffle(live)
        while len(live) > rng.choice((0, 0, 2)):
            steps.append(("free", live.pop()[0]))
        if clears and rng.chance(0.3):
            steps.append(("clear",))
    return steps + [("free", name) for name, _ in live]


def _seeds(rng: Rng) -> tuple[int, ...]:
    return tuple(rng.getrandbits(30) for _ in range(3))


def one_stream(rng: Rng, size: int) -> tuple[Any, ...]:
    """Varying sizes on one stream, and nothing is cleared."""
    return _rounds(rng, size, (0,), shared=False, clears=False), ROOM, _seeds(rng)[:1]


def two_streams(rng: Rng, size: int) -> tuple[Any, ...]:
    """Two streams with blocks of their own; old work is still queued when a block comes back."""
    steps = _late_write(rng) + _rounds(rng, size, (0, 1), shared=False, clears=False)
    return steps, ROOM, _seeds(rng)


def readers(rng: Rng, size: int) -> tuple[Any, ...]:
    """Other streams read a block, some of them late."""
    steps = _late_read(rng) + _read_to_the_end(rng)
    steps += _rounds(rng, size, (0, 1), shared=True, clears=False)
    return steps, ROOM, _seeds(rng)


def full_device(rng: Rng, size: int) -> tuple[Any, ...]:
    """Idle segments of a wrong size fill the device, or nothing could ever serve the request."""
    steps: list[Step] = []
    kind = rng.choice(("idle", "pending", "pending", "beside", "beside", "impossible"))
    if kind == "impossible":
        steps = [("allocate", "impossible", ROOM + 1, 0), ("allocate", "after", 4096, 0)]
        return steps, ROOM, _seeds(rng)
    if kind == "beside":
        return _read_beside(), 24 * MIB, _seeds(rng)
    for number in range(10):
        steps.append(("allocate", f"s{number}", 2 * MIB, 0))
        if kind == "pending":
            steps += [("slow", 1, 40), ("use", f"s{number}", 1)]
    steps += [("free", f"s{number}") for number in range(10)]
    steps.append(("allocate", "large", 18 * MIB, rng.choice((0, 1))))
    return steps, 24 * MIB, _seeds(rng)


def _read_beside() -> list[Step]:
    """All is in use but a block that is still read: its segment stays, and it must serve again."""
    full = [("allocate", f"s{number}", 2 * MIB, 0) for number in range(11)]
    halves: list[Step] = [("allocate", "half", MIB, 0), ("allocate", "read", MIB, 0)]
    read: list[Step] = [("slow", 1, 40), ("use", "read", 1), ("free", "read")]
    return [*halves, *full, *read, ("allocate", "again", MIB, 0)]


def cleared(rng: Rng, size: int) -> tuple[Any, ...]:
    """Cleared while blocks are in use, and at the end."""
    held: list[Step] = [("allocate", "h0", 3 * MIB, 0), ("allocate", "h1", MIB, 0), ("free", "h1")]
    steps = [*held, ("clear",), *_rounds(rng, size, (0,), shared=False, clears=True)]
    return [*steps, ("free", "h0"), ("all_done",)], ROOM, _seeds(rng)[:1]


def any_program(rng: Rng, size: int) -> tuple[Any, ...]:
    """Everything together."""
    if rng.chance(0.45):
        steps, total, seeds = full_device(rng, size)
        return [*steps, ("all_done",)], total, seeds
    shared = size % 2 == 1  # what is pending depends on the queue order: held bytes do as well
    steps = _rounds(rng, size, (0, 1), shared, clears=True)
    if shared:
        steps = _late_read(rng) + _read_to_the_end(rng) + steps + _late_write(rng)
    return [*steps, ("all_done",)], ROOM, _seeds(rng)


@dataclass
class PoolRun:
    """What became of one program in one queue order; `found` in plain data."""

    found: dict[str, Any]
    snapshot: dict[str, Any] = field(repr=False)
    program: list[Step] = field(repr=False)
    names: list[str] = field(repr=False)


class Trace:
    """Runs a trace on a pool and keeps what went wrong."""

    def __init__(self, pool_class: Any, total: int, seed: int) -> None:
        self.driver = PoolDriver(seed, total)
        self.device = self.driver.driver
        self.pool = pool_class(self.driver)
        self.slots = self.device.malloc(1 << 20)
        self.places: dict[str, tuple[int, int]] = {}
        self.used_on: dict[str, list[int]] = {}
        self.blocks: dict[str, tuple[int, int, int, int]] = {}
        self.expected: list[tuple[str, int, int]] = []
        self.refused: list[str] = []
        self.taken_anew: list[str] = []
        self.spoilt: set[str] = set()
        self.work: list[tuple[str, str, int]] = []
        self.kept = self.tag = 0

    def run(self, steps: list[Step]) -> PoolRun:
        """Every step, up to the first that shows the pool is wrong."""
        try:
            for kind, *arguments in steps:
                getattr(self, kind)(*arguments)
                if self.driver.problems:
                    break
            return self.end()
        finally:
            self.device.synchronize()
            self.device.free(self.slots)
            self.driver.give_back_all()

    def allocate(self, name: str, size: int, owner: int) -> None:
        """A block, its ends written on its own stream."""
        stream = Emulated.streams[owner]
        try:
            address = self.pool.allocate(size, stream)
        except MemoryError:
            self.refused.append(name)
            return
        if not isinstance(address, int):
            raise TypeError(f"allocate returns an address, got {address!r}")
        self.driver.lend(address, size)
        if self.driver.problems:
            return
        self.tag = self.tag % 250 + 1
        self.blocks[name] = address, size, stream, self.tag
        self.places[name] = address, size
        self._note(f"{name} written", stream, (), (name,))
        for start in (address, address + size - WIDTH):
            self.device.memset_async(start, self.tag, WIDTH, stream)

    def allocate_when_done(self, name: str, size: int, owner: int) -> None:
        """A block of a size that came back, asked for when the queues have run empty."""
        self.device.synchronize()
        calls = self.driver.log.calls
        self.allocate(name, size, owner)
        if self.driver.log.calls > calls:
            self.taken_anew.append(name)

    def use(self, name: str, other: int) -> None:
        """Another stream reads both ends, after they were written."""
        if name not in self.blocks:
            return
        address, size, owner, tag = self.blocks[name]
        stream = Emulated.streams[other]
        self.driver.after(stream, owner)
        mark = f"{name} to {other}"
        self.driver.program += [
            ("record", Emulated.name(owner), mark),
            ("wait", Emulated.name(stream), mark),
        ]
        self._note(f"{name} read", stream, (name,), ())
        for start in (address, address + size - WIDTH):
            slot = self.slots + WIDTH * len(self.expected)
            self.device.memcpy_async(slot, start, WIDTH, stream)
            self.expected.append((name, slot, tag))
        self.used_on.setdefault(name, []).append(stream)

    def slow(self, index: int, pieces: int) -> None:
        """Other work is ahead of ours on a stream."""
        for _ in range(pieces):
            self.device.memset_async(self.slots + (1 << 20) - WIDTH, 0, 1, Emulated.streams[index])

    def free(self, name: str) -> None:
        """Give the block back."""
        if name in self.blocks:
            address = self.blocks.pop(name)[0]
            self.driver.returned(address)
            self.pool.free(address, tuple(self.used_on.pop(name, ())))

    def clear(self) -> None:
        """What the pool does not need goes back."""
        waits = self.driver.waits
        self.pool.clear()
        self.driver.waits = waits

    def all_done(self) -> None:
        """Nothing is in use or queued, so the pool gives everything back."""
        self.device.synchronize()
        self._look_at_live_blocks()
        for name in list(self.blocks):
            self.free(name)
        self.clear()
        self.kept = self.driver.log.held

    def end(self) -> PoolRun:
        """What was read and counted, and what to draw of it."""
        self.device.synchronize()
        self._look_at_live_blocks()
        wrong = self.spoilt | {
            name
            for name, slot, tag in self.expected
            if self.device.peek(slot, WIDTH) != bytes([tag]) * WIDTH
        }
        found = {
            "wrong data": sorted(wrong),
            "refused": self.refused,
            "waits": self.driver.waits,
            "taken anew": self.taken_anew,
            "most bytes held": self.driver.peak,
            "bytes kept after clear": self.kept,
            "problems": sorted(set(self.driver.problems)),
        }
        program, names = self._around(min(wrong)) if wrong else ([], [])
        return PoolRun(found, self.driver.log.snapshot(), program, names)

    def _look_at_live_blocks(self) -> None:
        for name, (address, size, _, tag) in self.blocks.items():
            for start in (address, address + size - WIDTH):
                if self.device.peek(start, WIDTH) != bytes([tag]) * WIDTH:
                    self.spoilt.add(name)

    def _note(
        self, text: str, stream: int, reads: tuple[str, ...], writes: tuple[str, ...]
    ) -> None:
        self.work.append((text, (*reads, *writes)[0], len(self.driver.program)))
        self.driver.program.append(("run", Emulated.name(stream), reads, writes))

    def _around(self, name: str) -> tuple[list[Step], list[str]]:
        """The program with only those pieces of work that touch the bytes of one block."""
        start, size = self.places[name]
        near = {
            other for other, (at, n) in self.places.items() if at < start + size and start < at + n
        }
        program, names = list(self.driver.program), []
        for text, other, at in self.work:
            kind, stream, reads, writes = program[at]
            touches = other in near
            names += [text] * touches
            program[at] = (
                kind,
                stream,
                ("the block",) * bool(reads),
                ("the block",) * bool(writes),
            )
            if not touches:
                program[at] = ()
        return [step for step in program if step], names


def drive_pool(answer: Any, steps: list[Step], total: int, seeds: tuple[int, ...]) -> list[PoolRun]:
    """One run for each queue order."""
    return [Trace(answer, total, seed).run(steps) for seed in seeds]


def judge_pool(case: Case, got: Any) -> str | Wrong | None:
    """What one of the runs shows, or None."""
    if isinstance(got, Raised):
        return "the pool serves the whole program"
    most = _most_bytes(case)
    opinions = (_opinion(case, run, most) for run in got)
    return next((opinion for opinion in opinions if opinion), None)


def _most_bytes(case: Case) -> int | None:
    """How much may be held; None where that depends on the queue order."""
    steps, total, seeds = case.inputs
    if any(step[0] == "use" for step in steps):
        return None
    held: int = Trace(LabkitPool, total, seeds[0]).run(steps).found["most bytes held"]
    return int(1.15 * max(held, most_bytes_held(steps))) + 4 * MIB


def _opinion(case: Case, run: PoolRun, most: int | None) -> str | Wrong | None:
    steps, total, _ = case.inputs
    refused = [step[1] for step in steps if step[0] == "allocate" and step[2] > total]
    ours = run.found
    if ours["problems"]:
        return Wrong(f"nothing overlaps and nothing in use goes back: {ours['problems'][0]}")
    if ours["wrong data"]:
        return Wrong(f"the data are right in every queue order; wrong: {ours['wrong data']}")
    if ours["refused"] != refused:
        return Wrong("MemoryError for what cannot be served, and only for that", refused)
    if ours["waits"]:
        return Wrong("nobody waits while the device has room", 0)
    if ours["taken anew"]:
        return Wrong("a block whose readers are done serves again", [])
    if most is not None and ours["most bytes held"] > most:
        return Wrong(f"at most {most:,} bytes are held", most)
    if ours["bytes kept after clear"]:
        return Wrong("after clear the device has everything back", 0)
    return None


def drawn(case: Case, got: list[PoolRun], right: Any) -> Any:
    """The work on a block whose data were wrong; else the map of the run that went wrong."""
    from labkit import show

    for run in got:
        if said := _opinion(case, run, _most_bytes(case)):
            text = said.property if isinstance(said, Wrong) else said
            if run.program and not run.found["problems"]:
                title = f"work on the bytes of {run.found['wrong data'][0]}"
                return show.streams(run.program, names=run.names, title=title)
            return show.memory(run.snapshot, simple=True, title=f"your pool; should hold: {text}")
    return None


def show_program(steps: list[Step], total: int, seeds: tuple[int, ...]) -> str:
    """The steps in words, the first of them."""
    words = [f"{kind}({', '.join(map(str, rest))})" for kind, *rest in steps]
    more = f"; ... {len(words)} in all" if len(words) > 16 else ""
    return f"{'; '.join(words[:16])}{more} (device of {total // MIB} MiB, queue seeds {seeds})"
