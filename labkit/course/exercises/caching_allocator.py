"""The caching allocator: which block serves, when it is cut and joined, and every size."""

from collections.abc import Iterator
from typing import Any

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._block_rules import Block, choose, splits
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._never_right import FIRST, TOO_SLOW
from labkit.course.exercises._rounded_sizes import round_and_pool
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.sizes import (
    MIB,
    MIN_BLOCK_SIZE,
    MIN_LARGE_SEGMENT,
    SEGMENT_GRANULE,
    SMALL_SEGMENT_SIZE,
    SMALL_SIZE,
)

NOTEBOOK = "2_core_code/9_caching_allocator"

BASE = SimulatedDevice.MALLOC_BASE

Operation = tuple[Any, ...]
LARGEST = 80
"""The size of the few programs on which a slow answer runs out of time."""


class Memory:
    """Blocks by address, and everything of an allocator that is not the learner's to write."""

    def __init__(self, choose: Any, splits: Any, merge: Any) -> None:
        self.choose, self.splits, self.merge = choose, splits, merge
        self.blocks: list[Block] = []
        self.segments: dict[int, tuple[int, int]] = {}
        self.names: dict[str, int] = {}
        self.waits_for: dict[str, int] = {}
        self.pending: dict[int, list[int]] = {}
        self.done: list[int] = []
        self.births = 0

    def malloc(self, name: str, size: int, stream: int) -> Any:
        """The address of a new block."""
        for address in self.done:
            self._free(address)
        self.done = []
        size = -(-size // MIN_BLOCK_SIZE) * MIN_BLOCK_SIZE
        pool = "small" if size <= SMALL_SIZE else "large"
        block = self.choose(list(self.blocks), size, pool, stream)
        if block is None:
            block = self._grow(size, pool, stream)
        if block not in self.blocks:
            raise ValueError(f"choose returned {block}, which is none of the blocks")
        at = self.blocks.index(block)
        rest = block.size - size
        pieces = [block._replace(state="live")]
        if rest > 0 and self.splits(block, size):
            pieces = [pieces[0]._replace(size=size)]
            pieces.append(block._replace(address=block.address + size, size=rest))
        self.blocks[at : at + 1] = pieces
        self.names[name] = block.address
        return block.address

    def free(self, name: str) -> None:
        """Give a block back; it is pending if another stream was recorded for it."""
        address = self.names.pop(name)
        if name in self.waits_for:
            at = self._at(address)
            self.blocks[at] = self.blocks[at]._replace(state="pending")
            self.pending.setdefault(self.waits_for.pop(name), []).append(address)
        else:
            self._free(address)

    def record(self, name: str, stream: int) -> None:
        """The stream works on the block."""
        if self.blocks[self._at(self.names[name])].stream != stream:
            self.waits_for[name] = stream

    def complete(self, stream: int) -> None:
        """All work of the stream is done; the next request notices."""
        self.done += self.pending.pop(stream, [])

    def empty_cache(self) -> None:
        """Wait for everything; segments that are one free block go back to the device."""
        for stream in list(self.pending):
            self.complete(stream)
        for address in self.done:
            self._free(address)
        self.done = []
        whole = {
            b
            for b in self.blocks
            if b.state == "free" and (b.address, b.size) == self.segments[b[5]]
        }
        self.blocks = [b for b in self.blocks if b not in whole]
        for block in whole:
            del self.segments[block.birth]

    def _free(self, address: int) -> None:
        merged = self.merge(list(self.blocks), self.blocks[self._at(address)])
        self.blocks = [Block(*block) for block in merged]

    def _at(self, address: int) -> int:
        return next(i for i, block in enumerate(self.blocks) if block.address == address)

    def _grow(self, size: int, pool: str, stream: int) -> Block:
        wanted = -(-size // SEGMENT_GRANULE) * SEGMENT_GRANULE
        if pool == "small":
            wanted = SMALL_SEGMENT_SIZE
        elif size < MIN_LARGE_SEGMENT:
            wanted = 20 * MIB
        address = 0x600000000000
        for start, length in sorted(self.segments.values()):
            if start - address >= wanted:
                break
            address = start + length
        self.births += 1
        self.segments[self.births] = (address, wanted)
        block = Block(address, wanted, "free", pool, stream, self.births)
        self.blocks = sorted([*self.blocks, block])
        return block


SIZES = (
    100, 512, 1024, 5000, 300_000, MIB // 2, MIB, MIB + 1, MIB + 512, 2 * MIB, 3 * MIB,
    5 * MIB, 9 * MIB, 9 * MIB + 512, 10 * MIB, 18 * MIB, 19 * MIB, 20 * MIB, 21 * MIB,
)  # fmt: skip
CHANCES = (
    (0.5, "malloc"), (0.85, "free"), (0.92, "record"), (0.96, "complete"), (1, "empty_cache"),
)  # fmt: skip
ALL = tuple(kind for _, kind in CHANCES)


def _a_program(
    rng: Rng, size: int, kinds: tuple[str, ...] = ALL, streams: tuple[int, ...] = (0, 0, 7)
) -> tuple[list[Operation]]:
    """Requests on these streams, and operations of these kinds; few sizes, so that they meet."""
    palette = rng.sample(SIZES, rng.randint(2, 6))
    if rng.chance(0.3):  # rests of less than 1 MiB
        palette = [MIB // 2 * rng.randint(6, 19) for _ in range(4)]
    length, full = 4 + size, 0
    if size == LARGEST:
        length, full, palette = 1500, 1200, [512, 1024, 2048, 4096, 5 * MIB, 9 * MIB]
    program: list[Operation] = []
    live: list[str] = []
    for number in range(length):
        dice = rng.random()
        kind = next(name for limit, name in CHANCES if dice < limit)
        if kind == "malloc" or kind not in kinds or not live or number < full:
            live.append(f"t{number}")
            program.append(("malloc", live[-1], rng.choice(palette), rng.choice(streams)))
        elif kind == "free":
            program.append(("free", live.pop(rng.randrange(len(live)))))
        elif kind == "record":
            program.append(("record", rng.choice(live), rng.choice((0, 7))))
        elif kind == "complete":
            program.append(("complete", rng.choice((0, 7))))
        else:
            program.append(("empty_cache",))
    return (program,)


def _with(*kinds: str, streams: tuple[int, ...] = (0,)) -> Any:
    """A case maker of short programs that hold no other kinds of operations."""
    return lambda rng, size: Case(_a_program(rng, min(12 + size, 40), kinds, streams))


def _drive_program(answer: Any, program: list[Operation]) -> list[str]:
    memory = Memory(*answer)
    addresses = []
    for name, *arguments in program:
        result = getattr(memory, name)(*arguments)
        if name == "malloc":
            label, size, stream = arguments
            where = result - 0x600000000000
            addresses.append(f"{label}: {size} bytes for stream {stream} at {where:#x}")
    return addresses


def _expected_addresses(program: list[Operation]) -> list[str]:
    device = SimulatedDevice(1 << 46)
    return _serve(program, device, CachingAllocator(device))


def _serve(
    program: list[Operation], device: SimulatedDevice, allocator: CachingAllocator
) -> list[str]:
    """Where the allocator puts every request."""
    names: dict[str, int] = {}
    found = []
    for kind, *arguments in program:
        if kind == "malloc":
            label, size, stream = arguments
            names[label] = allocator.malloc(size, stream)
            found.append(f"{label}: {size} bytes for stream {stream} at {names[label] - BASE:#x}")
        elif kind == "free":
            allocator.free(names.pop(arguments[0]))
        elif kind == "record":
            allocator.record_stream(names[arguments[0]], arguments[1])
        elif kind == "complete":
            device.complete(arguments[0])
        else:
            allocator.empty_cache()
    return found


def _map_where_they_part(case: Case, got: Any, right: list[str]) -> Any:
    """The right map, at the first request that these rules put elsewhere."""
    from labkit import show

    given = got if isinstance(got, list) else []
    at = next((n for n, line in enumerate(right) if given[n : n + 1] != [line]), None)
    if at is None:
        return None
    (program,) = case.inputs
    device = SimulatedDevice(1 << 46)
    allocator = CachingAllocator(device)
    allocator.record_memory_history("all", None)
    allocator.explain()
    _serve(program, device, allocator)
    entries = allocator.decisions.entries if allocator.decisions else []
    served = [entry for entry in entries if entry["kind"] == "malloc"]
    return show.memory(
        allocator, what_if=(), frame=served[at]["events"][1], title=f"right: {right[at]}"
    )


def _shorter_programs(program: list[Operation]) -> Iterator[tuple[Any, ...]]:
    for length in (len(program) // 2, len(program) - 1):
        yield (program[:length],)
    for operation in program:
        if operation[0] == "malloc":
            yield ([other for other in program if other[1:2] != operation[1:2]],)
        elif operation[0] != "free":
            yield ([other for other in program if other is not operation],)


def _show_program(program: list[Operation]) -> str:
    lines = [f"{name}({', '.join(map(str, arguments))})" for name, *arguments in program]
    return "; ".join(lines[:40]) + (f"; ... {len(lines)} in all" if len(lines) > 40 else "")


def _uses(evidence: Evidence, *kinds: str) -> bool:
    return any(operation[0] in kinds for operation in evidence.inputs[0])


best_fit = Exercise(
    id="caching_allocator.best_fit",
    rules=("plain Python: nothing of labkit or torch",),
    case=_a_program,
    expected=_expected_addresses,
    drive=_drive_program,
    smaller=_shorter_programs,
    show=_show_program,
    picture=_map_where_they_part,
    cases=250,
    seconds=2,
    sizes=LARGEST,
    minutes=15,
    stages=(
        Stage("requests", case=_with()),
        Stage("free and merge", case=_with("free"), cases=40),
        Stage("two streams", case=_with("free", streams=(0, 7)), cases=40),
        Stage("pending", case=_with("free", "record", "complete", streams=(0, 7)), cases=40),
        Stage("ties and the rest"),
    ),
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "No block is ever freed here. The block is the smallest free one of its pool that is "
            "large enough, and splits decides whether the rest stays with it.",
            stage="requests",
        ),
        Hint(
            "A freed block is free, and one piece with its free neighbours, on both sides. Blocks "
            "that touch may belong to different segments: compare birth. If all this holds: is "
            "splits the one that passed above?",
            stage="free and merge",
        ),
        Hint("A free block serves its own stream alone.", stage="two streams"),
        Hint(
            "A pending block is neither free nor gone: nobody may take it, and no neighbour may "
            "join with it, until its stream is done.",
            stage="pending",
        ),
        Hint(
            "After empty_cache a new segment may lie at a lower address than an old one. Of two "
            "blocks of one size the older segment wins: compare (size, birth, address).",
            stage="ties and the rest",
            when=lambda evidence: _uses(evidence, "empty_cache"),
        ),
        "merge puts one block in the place of two or three: the first address, the sum of the "
        "sizes, state free. Everything else in the list stays as it was.",
    ),
    must_fail=(
        "first fit",
        "ignores stream",
        "ties by address only",
        "splits leaving less than 1 MiB in the large pool",
        "merges across a segment border",
        "merges a pending block",
        TOO_SLOW,
        FIRST,
    ),
)

EXERCISES = (splits, choose, best_fit, round_and_pool)
