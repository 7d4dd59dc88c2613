"""The caching allocator: sizes, best fit, running out, fragments made and cured, a leak found."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Raised, Rng, Wrong, handed_out
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.mem_pool import MemPool
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.settings import AllocatorSettings
from labkit.memory.sizes import GIB, MIB, SMALL_SIZE, round_size, segment_size

NOTEBOOK = "2_core_code/9_caching_allocator"

FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
READS = "reads the expected value out of the checker (module globals, frames or closure)"
SLOW = (
    "is right on small cases and exceeds the size limit on large ones (quadratic, recursive or "
    "waiting for ever)"
)
BASE = SimulatedDevice.MALLOC_BASE

# --- round_and_pool


def _a_setting(rng: Rng) -> str:
    parts = []
    kind = rng.randint(0, 3)
    if kind == 1:
        parts.append(f"roundup_power2_divisions:{rng.choice((1, 2, 4, 8, 16))}")
    if kind >= 2:
        listed = sorted(rng.sample(range(16), rng.randint(1, 4)))
        entries = [f"{1 << place}:{rng.choice((0, 1, 2, 4, 8))}" for place in listed]
        if rng.chance(0.4):
            entries.append(f">:{rng.choice((1, 2, 4))}")
        parts.append(f"roundup_power2_divisions:[{','.join(entries)}]")
    if rng.chance(0.3):
        parts.append(f"large_segment_size_mb:{rng.choice((11, 12, 30, 40, 64))}")
    if rng.chance(0.15):
        parts.append("garbage_collection_threshold:0.8")
    rng.shuffle(parts)
    return ",".join(parts)


def _a_request(rng: Rng, size: int) -> int:
    """Bytes, mostly close to where a rule changes."""
    place = rng.choice(
        (512, 1024, 512 * rng.randint(1, 64), MIB, MIB, 10 * MIB, 10 * MIB, 20 * MIB)
        if size < 2 or rng.chance(0.5)
        else (1 << rng.randint(9, 36), 3 << rng.randint(9, 35), 512 * rng.randint(1, 1 << 20))
    )
    if rng.chance(0.2):
        place = rng.randint(1, 1 << rng.randint(10, 37))
    return max(1, place + rng.choice((-512, -1, 0, 0, 1, 511, 512, rng.randint(-9999, 9999))))


def _requests(rng: Rng, size: int) -> tuple[str, tuple[int, ...]]:
    return _a_setting(rng), tuple(_a_request(rng, size) for _ in range(100))


def _drive_sizes(answer: Any, settings: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    return {f"{size:,} bytes": answer(size, settings) for size in sizes}


def _expected_sizes(settings: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    options = AllocatorSettings.parse(settings)
    found = {}
    for size in sizes:
        block = round_size(size, options.roundup_power2_divisions)
        pool = "small" if block <= SMALL_SIZE else "large"
        found[f"{size:,} bytes"] = (block, pool, segment_size(block, options.large_segment_size))
    return found


def _fewer_sizes(settings: str, sizes: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    if len(sizes) > 1:
        yield from ((settings, (size,)) for size in sizes)
        yield from (("", (size,)) for size in sizes)
    else:
        yield from ((part, sizes) for part in settings.split(",") if "[" not in settings)


def _wrong_one(evidence: Evidence) -> tuple[int, Any, Any]:
    """(requested bytes, got, right) of the first request that differs."""
    for size in evidence.inputs[1]:
        name = f"{size:,} bytes"
        if evidence.value[name] != evidence.right[name]:
            return size, evidence.value[name], evidence.right[name]
    raise LookupError("nothing differs")


round_and_pool = Exercise(
    id="caching_allocator.round_and_pool",
    statement=(
        "Write round_and_pool(size, settings): size is a request in bytes, at least 1; settings "
        "is a valid string such as 'roundup_power2_divisions:[1:2,4:8,>:1],large_segment_size_mb:"
        "40' or ''. Return (block size, 'small' or 'large', segment size), sizes in bytes: what "
        "the request is rounded to, its pool, and what the device is asked for when nothing "
        "cached fits. round_and_pool(100, '') is (512, 'small', 2097152)."
    ),
    rules=("plain Python: nothing of labkit or torch",),
    case=_requests,
    expected=_expected_sizes,
    drive=_drive_sizes,
    smaller=_fewer_sizes,
    cases=200,
    minutes=20,
    difficulty=3,
    banned=("torch.*", "labkit.*"),
    hints=(
        "Small means rounded size up to and including 1 MiB; a block of less than 10 MiB shares a "
        "segment of large_segment_size, others get their own in steps of 2 MiB. Round first, then "
        "ask which of the three it is.",
        Hint(
            "10 MiB - 1 rounds up to exactly 10 MiB, and that is no longer less than 10 MiB.",
            when=lambda evidence: 9 * MIB < _wrong_one(evidence)[2][0] <= 11 * MIB,
        ),
        Hint(
            "A list gives one number per class: class = floor(log2(size)) - 20, clamped to 0..15. "
            "Only the first entry also covers the classes below it; those between two entries "
            "stay 0, and '>' fills what is above the last.",
            when=lambda evidence: "[" in evidence.inputs[0],
        ),
        "d divisions apply when d > 1 and size > 512 * d: the step is the power of two at or "
        "below the size, divided by d.",
    ),
    must_fail=(
        "rounds to powers of two",
        "1 MiB in the large pool",
        "ignores divisions",
        "interpolates sizes between listed classes",
        "10 MiB treated as shared",
        "off by one at exact multiples of 512",
        FIRST,
        CONSTANT,
    ),
)

# --- best_fit

Operation = tuple[Any, ...]
LARGEST = 80
"""The size of the few programs on which a slow answer runs out of time."""


class Block(NamedTuple):
    """A piece of a segment. `birth` numbers the segments in the order they were created."""

    address: int
    size: int
    state: str
    pool: str
    stream: int
    birth: int


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
        size = -(-size // 512) * 512
        pool = "small" if size <= 1 << 20 else "large"
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
        granule = 2 << 20
        wanted = -(-size // granule) * granule if size >= 10 << 20 else 20 << 20
        if pool == "small":
            wanted = granule
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


def _a_program(rng: Rng, size: int) -> tuple[list[Operation]]:
    palette = rng.sample(
        (
            100, 512, 1024, 5000, 300_000, MIB // 2, MIB, MIB + 1, MIB + 512, 2 * MIB, 3 * MIB,
            5 * MIB, 9 * MIB, 9 * MIB + 512, 10 * MIB, 18 * MIB, 19 * MIB, 20 * MIB, 21 * MIB,
        ),
        rng.randint(2, 6),
    )  # fmt: skip
    if rng.chance(0.3):  # rests of less than 1 MiB
        palette = [MIB // 2 * rng.randint(6, 19) for _ in range(4)]
    length, full = 4 + size, 0
    if size == LARGEST:
        length, full, palette = 1500, 1200, [512, 1024, 2048, 4096, 5 * MIB, 9 * MIB]
    program: list[Operation] = []
    live: list[str] = []
    for number in range(length):
        dice = rng.random()
        if dice < 0.5 or not live or number < full:
            live.append(f"t{number}")
            program.append(("malloc", live[-1], rng.choice(palette), rng.choice((0, 0, 7))))
        elif dice < 0.85:
            program.append(("free", live.pop(rng.randrange(len(live)))))
        elif dice < 0.92:
            program.append(("record", rng.choice(live), rng.choice((0, 7))))
        elif dice < 0.96:
            program.append(("complete", rng.choice((0, 7))))
        elif rng.chance(0.7):
            program.append(("empty_cache",))
    return (program,)


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
    allocator = CachingAllocator(device)
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
    statement=(
        "Predict every address. Write three functions. choose(blocks, size, pool, stream): the "
        "block that serves a rounded request, or None for a new segment. splits(block, size): "
        "whether the rest of a larger block becomes a block of its own. merge(blocks, block): the "
        "list of blocks after this one became free. blocks is a list by address of named tuples "
        "(address, size, state, pool, stream, birth): state is 'live', 'pending' or 'free', pool "
        "'small' or 'large', and all blocks of a segment share its birth, a number that grows "
        "with every new segment. Use block._replace(...). With one free block of 1024 bytes, "
        "choose for 512 returns it and splits says True."
    ),
    rules=("plain Python: nothing of labkit or torch",),
    case=_a_program,
    expected=_expected_addresses,
    drive=_drive_program,
    smaller=_shorter_programs,
    show=_show_program,
    cases=400,
    sizes=LARGEST,
    minutes=30,
    difficulty=4,
    banned=("torch.*", "labkit.*"),
    hints=(
        Hint(
            "A pending block is neither free nor gone: nobody may take it and no neighbour may "
            "absorb it until its stream is done.",
            when=lambda evidence: _uses(evidence, "record") and not _uses(evidence, "empty_cache"),
        ),
        Hint(
            "After empty_cache a new segment may lie at a lower address than an old one. Of two "
            "blocks of one size the older segment wins.",
            when=lambda evidence: _uses(evidence, "empty_cache"),
        ),
        "The first wrong address follows a tie, or a block that should have been joined with the "
        "previous one: two blocks touch without belonging to one segment, so compare birth.",
        "Key (size, birth, address) among free blocks of the stream and pool; split small at a "
        "rest of 512, large above a rest of 1 MiB.",
    ),
    must_fail=(
        "first fit",
        "ignores stream",
        "ties by address only",
        "splits leaving less than 1 MiB in the large pool",
        "merges across a segment border",
        "merges a pending block",
        SLOW,
        FIRST,
    ),
)

# --- why_oom

REMEDIES = {
    "pending": "synchronize",
    "stream": "stream",
    "pool": "release_pool",
    "fragmentation": "expandable_segments:True",
    "capacity": "less memory",
}


class Failure(NamedTuple):
    """A program whose last request finds no room."""

    total: int
    settings: str
    program: list[Operation]
    size: int
    stream: int


def _run_failure(failure: Failure, settings: str) -> tuple[CachingAllocator, list[MemPool]]:
    """The allocator as it is just before the last request."""
    allocator = CachingAllocator(SimulatedDevice(failure.total), settings)
    pool = MemPool(allocator)
    names = {}
    for kind, name, *arguments in failure.program:
        if kind == "malloc":
            names[name] = allocator.malloc(*arguments)
        elif kind == "pooled":
            with pool:
                names[name] = allocator.malloc(*arguments)
        elif kind == "record":
            allocator.record_stream(names[name], *arguments)
        else:
            allocator.free(names.pop(name))
    return allocator, [pool]


def _helps(failure: Failure, remedy: str) -> bool:
    """Whether the last request is served once the remedy was applied."""
    growing = remedy == "expandable_segments:True"
    try:
        allocator, pools = _run_failure(failure, remedy if growing else failure.settings)
        stream = failure.stream
        if remedy == "synchronize":
            for other in (0, 1, 2):
                allocator.driver.synchronize_stream(other)
        elif remedy.startswith("stream "):
            stream = int(remedy.removeprefix("stream "))
        elif remedy == "release_pool":
            pools[0].drop()
        allocator.malloc(failure.size, stream)
    except OutOfMemoryError:
        return False
    return True


def _cheapest(failure: Failure) -> tuple[str, str] | None:
    """(cause, remedy) by replay, cheapest remedy first; None when the request does not fail."""
    if _helps(failure, "nothing"):
        return None
    if _helps(failure, "synchronize"):
        return "pending", "synchronize"
    for stream in (0, 1, 2):
        if stream != failure.stream and _helps(failure, f"stream {stream}"):
            return "stream", f"stream {stream}"
    if _helps(failure, "release_pool"):
        return "pool", "release_pool"
    if "expandable" not in failure.settings and _helps(failure, "expandable_segments:True"):
        return "fragmentation", "expandable_segments:True"
    allocator, _ = _run_failure(failure, failure.settings)
    enough = allocator.active_bytes + round_size(failure.size) <= failure.total
    return ("fragmentation" if enough else "capacity"), "less memory"


def _by_the_map(snapshot: dict[str, Any], size: int, stream: int, free: int) -> tuple[str, str]:
    """The same from the map alone: only cases on which both agree are asked."""
    wanted = round_size(size)
    kind = "small" if wanted <= SMALL_SIZE else "large"
    growing = snapshot["allocator_settings"]["expandable_segments"]
    own = [
        (segment, [(b["size"], b["state"]) for b in segment["blocks"]])
        for segment in snapshot["segments"]
        if tuple(segment["segment_pool_id"]) == (0, 0) and segment["segment_type"] == kind
    ]
    for segment, blocks in own:
        run = 0
        for length, state in blocks:
            run = 0 if state == "active_allocated" else run + length
            if run >= wanted and segment["stream"] == stream:
                return "pending", "synchronize"
    for segment, blocks in own:
        if any(state == "inactive" and length >= wanted for length, state in blocks):
            return "stream", f"stream {segment['stream']}"
    whole = {True: 0, False: 0}
    idle = free
    live = 0
    for segment in snapshot["segments"]:
        private = tuple(segment["segment_pool_id"]) != (0, 0)
        used = segment["allocated_size"]
        live += segment["active_size"]
        if used == 0:
            whole[private] += segment["total_size"]
        if not private:
            idle += segment["total_size"] - used
    asked = wanted if growing else segment_size(wanted)
    if whole[True] and free + whole[True] + whole[False] >= asked:
        return "pool", "release_pool"
    if not growing and idle >= wanted:
        return "fragmentation", "expandable_segments:True"
    return ("fragmentation" if idle >= wanted else "capacity"), "less memory"


def _a_failure(rng: Rng, cause: str) -> Failure:
    """A device filled with segments whose second half is idle in the way the cause says."""
    program: list[Operation] = []
    idle: list[str] = []
    segments = rng.randint(3, 7)
    settings = "expandable_segments:True" if rng.chance(0.4) else ""
    half = rng.randrange(3, 9) * 2 * MIB if settings else rng.randrange(11, 19) * 2 * MIB
    live = half + rng.choice((4, 6)) * MIB
    stream, other = rng.sample((0, 1, 2), 2)

    def filled(number: int, owner: int, fate: str) -> None:
        """One segment: `live` bytes in use, and the rest as the fate says."""
        whole, kept, rest = f"w{number}", f"k{number}", f"r{number}"
        program.append(("malloc", whole, live + half, owner))
        program.append(("free", whole))
        program.append(("malloc", kept, live, owner))
        program.append(("malloc", rest, half, owner))
        if fate == "idle":
            idle.append(rest)
        if fate == "pending":
            program.append(("record", rest, 2 if owner != 2 else 0))
            program.append(("free", rest))

    if rng.chance(0.5):
        program.append(("malloc", "small", rng.randint(1, 900_000), rng.choice((0, 1))))
    private = cause == "pool" or rng.chance(0.3)
    pooled = rng.randrange(12, 30) * 2 * MIB
    if private:
        program.append(("pooled", "graph", pooled, 0))
        program.append(("free", "graph"))
    fates = {"pending": "pending", "stream": "idle", "fragmentation": "idle"}
    special = rng.randrange(segments)
    for number in range(segments):
        owner = stream
        fate = rng.choice(("live", "idle")) if cause == "fragmentation" else "live"
        if number == special:
            fate = fates.get(cause, "live")
            owner = other if cause == "stream" else stream
        elif cause == "fragmentation" and number == (special + 1) % segments:
            fate = "idle"
        filled(number, owner, fate)
    program += [("free", rest) for rest in idle]
    size = half - rng.choice((0, 1, 512, MIB))
    if cause == "fragmentation":
        size = half + rng.randrange(1, 8) * 2 * MIB
    elif cause == "pool":
        size = pooled - rng.choice((0, 512, MIB))
    elif cause == "capacity":
        size = half + (pooled if private else 0) + rng.randrange(2, 20) * 2 * MIB
    total = segments * (live + half) + private * pooled + 2 * MIB + rng.randrange(3) * 2 * MIB
    if settings:  # pages of 20 MiB
        total = -(-total // (20 * MIB)) * 20 * MIB + 2 * MIB
    return Failure(total, settings, program, size, stream)


def _a_puzzle(rng: Rng, size: int) -> Case:
    cause = rng.choice(tuple(REMEDIES))
    for _ in range(60):
        failure = _a_failure(rng, cause)
        try:
            found = _cheapest(failure)
        except OutOfMemoryError:  # ran out before its last request
            continue
        if found is None or found[0] != cause:
            continue
        allocator, _ = _run_failure(failure, failure.settings)
        snapshot = allocator.snapshot()
        free = allocator.driver.memory_info()[0]
        inputs = (snapshot, failure.size, failure.stream, free)
        if found == _by_the_map(*inputs):
            return Case(inputs, truth=found)
    return _a_puzzle(rng, size)


def _show_puzzle(snapshot: dict[str, Any], size: int, stream: int, free: int) -> str:
    def blocks(segment: dict[str, Any]) -> str:
        words = {"active_allocated": "live", "active_pending_free": "pending", "inactive": "free"}
        return " + ".join(
            f"{block['size'] / MIB:g} {words[block['state']]}" for block in segment["blocks"]
        )

    lines = [
        f"[{segment['segment_type']}, stream {segment['stream']}"
        f"{', private pool' if tuple(segment['segment_pool_id']) != (0, 0) else ''}: "
        f"{blocks(segment)}]"
        for segment in snapshot["segments"]
    ]
    growing = snapshot["allocator_settings"]["expandable_segments"]
    return (
        f"{size / MIB:g} MiB wanted on stream {stream}, {free / MIB:g} MiB free on the device, "
        f"expandable_segments {'on' if growing else 'off'}; segments in MiB: {' '.join(lines)}"
    )


why_oom = Exercise(
    id="caching_allocator.why_oom",
    statement=(
        "Write why_oom(snapshot, size, stream, free): a request of size bytes on a stream just "
        "ran out of memory; snapshot is the map in PyTorch's format right before it, free the "
        "bytes the device has left. Return (cause, remedy), the cheapest remedy that helps, in "
        "this order: ('pending', 'synchronize') wait for other streams, then ask again; "
        "('stream', 'stream 2') ask on that stream; ('pool', 'release_pool') drop the private "
        "pool; ('fragmentation', 'expandable_segments:True') unless it is on already; else "
        "('fragmentation', 'less memory') when enough is idle in the default pools and on the "
        "device together, or ('capacity', 'less memory'). The allocator has already waited and "
        "given every wholly idle segment back, except those of a private pool that is held."
    ),
    rules=("plain Python: nothing of labkit or torch",),
    case=_a_puzzle,
    show=_show_puzzle,
    cases=60,
    minutes=25,
    difficulty=4,
    banned=("torch.*", "labkit.*"),
    hints=(
        Hint(
            "There is a free block large enough: why not it? Look at its stream, and whether it is "
            "free or pending.",
            when=lambda evidence: evidence.right[0] in ("stream", "pending"),
        ),
        Hint(
            "allocator_settings in the snapshot says what is on. A flag that is on already "
            "is no remedy.",
            when=lambda evidence: evidence.inputs[0]["allocator_settings"]["expandable_segments"],
        ),
        Hint(
            "A segment of a private pool (segment_pool_id other than (0, 0)) with nothing "
            "allocated goes back only when its pool is dropped.",
            when=lambda evidence: evidence.right[0] == "pool",
        ),
        "Check stream, pool and pending in that order, block by block; neighbours that are free or "
        "pending become one block once the other stream is done.",
        "Sum the idle bytes of the default pools and what the device has left, and compare with "
        "the request.",
    ),
    must_fail=(
        "always fragmentation",
        "always lower the batch",
        "suggests a flag already on",
        "counts pending blocks as free",
        CONSTANT,
        READS,
        FIRST,
    ),
)

# --- fragments

LONGEST = 2000
"""Operations a program of `cause_and_cure` may have."""


def _a_device(rng: Rng, size: int) -> tuple[int]:
    return (rng.randrange(160, 200 + 400 * size, 2) * MIB,)


def _judge_fragments(case: Case, got: Any) -> str | Wrong | None:
    total = case.inputs[0]
    if isinstance(got, Raised) or not isinstance(got, tuple | list) or len(got) != 2:
        return "cause_and_cure returns (program, settings)"
    program, cure = got
    if not isinstance(program, list | tuple) or not program or len(program) > LONGEST:
        return f"the program is a list of 1 to {LONGEST} operations"
    if not isinstance(cure, str):
        return "settings is one string"
    try:
        options = AllocatorSettings.parse(cure)
    except (ValueError, RuntimeError, IndexError) as error:
        return f"PyTorch refuses the settings: {error}"
    if options.per_process_memory_fraction != 1.0:
        return "the cure changes no memory fraction"
    found = _serve(program, total, AllocatorSettings())
    if isinstance(found, str):
        return found
    at, live, wanted = found
    if at is None:
        return "under default settings the last request runs out of memory"
    if at != len(program) - 1:
        return f"only the last request runs out; operation {at} of {len(program)} did"
    if live > 0.6 * total:
        return Wrong(
            f"at most 60 % of the device is in use when it runs out, not {live / total:.0%}"
        )
    if live + wanted > total:
        return Wrong("what is in use and the last request fit on the device together")
    found = _serve(program, total, options)
    if isinstance(found, str):
        return found
    if found[0] is not None:
        return Wrong(f"under {cure or 'the default settings'} every request is served")
    return None


def _serve(
    program: Any, total: int, options: AllocatorSettings
) -> str | tuple[int | None, int, int]:
    """(operation that ran out or None, bytes in use, bytes wanted); or what is wrong with it."""
    allocator = CachingAllocator(SimulatedDevice(total), options)
    names: dict[Any, int] = {}
    for at, operation in enumerate(program):
        match operation:
            case ("malloc", name, int(size)) if size > 0 and name not in names:
                try:
                    names[name] = allocator.malloc(size)
                except OutOfMemoryError:
                    return at, allocator.allocated_bytes, size
            case ("free", name) if name in names:
                allocator.free(names.pop(name))
            case _:
                return f"operation {at} is ('malloc', new name, bytes) or ('free', live name)"
    return None, allocator.allocated_bytes, 0


cause_and_cure = Exercise(
    id="caching_allocator.cause_and_cure",
    statement=(
        "Cause fragmentation, then cure it. Write cause_and_cure(total) for a device of total "
        "bytes (at least 160 MiB). Return (program, settings). program is a list of at most 2000 "
        "operations ('malloc', name, bytes) and ('free', name). Under default settings its last "
        "request, and only that one, runs out of memory, although at most 60 % of the device is "
        "in use and the request would fit beside it. With your settings string the same program "
        "runs to its end. On a full device [('malloc', 'a', total + 1)] also runs out, but that "
        "is no fragmentation."
    ),
    rules=("no memory fraction in the settings",),
    case=_a_device,
    judge=_judge_fragments,
    cases=60,
    minutes=15,
    difficulty=3,
    banned=("labkit.*",),
    hints=(
        "An idle segment goes back whole. Every segment needs one block that stays, so that the "
        "rest of it is stuck.",
        Hint(
            "Blocks of less than 10 MiB share segments and pack well. A request of 40 MiB has a "
            "segment of its own: give it back, and let a smaller one move in.",
            when=lambda evidence: "runs out" in evidence.property or "60 %" in evidence.property,
        ),
        Hint(
            "Fill the device with segments of 40 MiB, free them all, then ask for 21 MiB as often: "
            "each takes one segment. With growing segments the same blocks lie side by side.",
            when=lambda evidence: "every request is served" in evidence.property,
        ),
        "expandable_segments:True lets one segment grow; a block that stays in every 20 MiB page "
        "would defeat even that.",
    ),
    must_fail=(
        "asks for more than is left",
        "frees nothing",
        "a cure that changes nothing",
        "pins every page, so that nothing cures it",
        "the same program for every device",
        "an operation per 512 bytes",
        FIRST,
    ),
)

# --- find_the_leak


@handed_out
def program_line(frames: list[dict[str, Any]]) -> int | None:
    """The line of train.py in a stack, innermost first; None when it has none."""
    return next((f["line"] for f in frames if f["filename"].endswith("train.py")), None)


def _a_training_run(rng: Rng, size: int) -> Case:
    """Snapshot of a training loop whose lines hold memory in five ways, one of which may leak."""
    lines = rng.sample(range(10, 90), 6)
    weights, activations, state, cache, leak, scratch = lines
    steps = 8 + size // 2 + rng.randint(0, 3)
    keeps = rng.randint(2, 3)
    leaks = rng.chance(0.8)
    leaked = rng.randint(1, 3) if leaks else 0
    allocator = CachingAllocator(SimulatedDevice(64 * GIB))
    allocator.record_memory_history("all", None, clock=lambda: 0)
    stacks: dict[int, int] = {}
    held: list[tuple[int, int]] = []

    def allocate(line: int, nbytes: int) -> int:
        address = allocator.malloc(nbytes)
        assert allocator.history is not None
        stacks[allocator.history.total - 1] = line
        return address

    big = rng.randint(2, 30) * MIB
    for _ in range(rng.randint(2, 5)):
        held.append((allocate(weights, big), weights))
    cached: list[int] = []
    for step in range(steps):
        inside = [allocate(activations, rng.randint(1, 20) * 100_000) for _ in range(4)]
        if step == 0 or (step == 1 and rng.chance(0.5)):
            held += [(allocate(state, big), state) for _ in range(4)]
        cached.append(allocate(cache, rng.choice((MIB, 2 * MIB))))
        if len(cached) > keeps:
            allocator.free(cached.pop(0))
        for _ in range(leaked):
            held.append((allocate(leak, rng.choice((4, 512, 5000))), leak))
        for _ in range(rng.randint(3, 9)):  # many, all gone at once
            allocator.free(allocate(scratch, rng.randint(1, 5000)))
        for address in rng.sample(inside, len(inside)):
            allocator.free(address)
    snapshot = allocator.snapshot()
    _give_frames(snapshot, stacks, rng)
    return Case((snapshot,), truth=leak if leaks else None)


def _give_frames(snapshot: dict[str, Any], stacks: dict[int, int], rng: Rng) -> None:
    """Every allocation gets its stack: a library on top of train.py on top of a launcher."""
    library = [
        {"name": "linear", "filename": "torch/nn/functional.py", "line": 2100},
        {"name": "cat", "filename": "torch/functional.py", "line": 77},
    ]
    frames_at: dict[int, list[dict[str, Any]]] = {}
    for entry, event in enumerate(snapshot["device_traces"][0]):
        if event["action"] == "alloc":
            line = stacks[entry]
            inner = library[: rng.randint(0, 2)]
            frames_at[event["addr"]] = event["frames"] = [
                *inner,
                {"name": "step", "filename": "train.py", "line": line},
                {"name": "<module>", "filename": "launch.py", "line": 3},
            ]
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                block["frames"] = frames_at[block["address"]]


def _show_run(snapshot: dict[str, Any]) -> str:
    counts: dict[int | None, int] = {}
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                line = program_line(block["frames"])
                counts[line] = counts.get(line, 0) + 1
    alive = ", ".join(f"line {line}: {n}" for line, n in counts.items())
    return f"{len(snapshot['device_traces'][0])} trace entries; live blocks by {alive}"


find_the_leak = Exercise(
    id="caching_allocator.find_the_leak",
    statement=(
        "Write find_the_leak(snapshot): a training loop of at least 8 steps ran, and snapshot is "
        "what torch.cuda.memory._snapshot() returned at the end, with the whole trace. Return the "
        "line of train.py (an int) that keeps more memory in every step, or None when there is "
        "none. Frames are listed innermost first: {'name', 'filename', 'line'}. Weights, "
        "optimizer state made in the first steps and a cache of at most three entries are no "
        "leak. The leak may be one of 4 bytes per step."
    ),
    rules=("plain Python: nothing of labkit or torch",),
    case=_a_training_run,
    show=_show_run,
    cases=60,
    minutes=15,
    difficulty=3,
    banned=("torch.*", "labkit.*"),
    hints=(
        Hint(
            "This run does not leak: what you named stopped growing. Compare the live memory in "
            "the middle of the trace with the end.",
            when=lambda evidence: evidence.right is None,
        ),
        Hint(
            "The line with the most bytes is the model. A leak need not be large: it grows.",
            when=lambda evidence: evidence.right is not None and evidence.value is not None,
        ),
        "Walk device_traces[0]: an alloc adds its line, a free_completed takes away what its "
        "address added.",
        "Take the frame whose filename is train.py, not the innermost one; keep the lines of "
        "which more blocks are alive at the end than halfway, by more than the cache's three.",
    ),
    must_fail=(
        "names the line with the most live bytes",
        "names the line with the most allocations",
        "names the library's frame",
        "flags the optimizer state",
        "never says None",
        FIRST,
        READS,
    ),
)

EXERCISES = (round_and_pool, best_fit, cause_and_cure, why_oom, find_the_leak)
