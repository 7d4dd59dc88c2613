"""Requests that run out of memory, each for a known cause, and the remedies tried by replay."""

from typing import Any, NamedTuple

from labkit.course.exercise import Case, Rng
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.mem_pool import MemPool
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.sizes import MIB, is_small, round_size, segment_size

Operation = tuple[Any, ...]

CAUSES = ("pending", "stream", "pool", "fragmentation", "capacity")


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
    kind = "small" if is_small(wanted) else "large"
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


def _a_puzzle(rng: Rng, cause: str) -> Case:
    """A request that ran out for this cause; the map and the replays agree about it."""
    while True:
        failure = _a_failure(rng, cause)
        try:
            found = _cheapest(failure)
        except OutOfMemoryError:  # ran out before its last request
            continue
        if found is None or found[0] != cause:
            continue
        allocator, _ = _run_failure(failure, failure.settings)
        free = allocator.driver.memory_info()[0]
        inputs = (allocator.snapshot(), failure.size, failure.stream, free)
        if found == _by_the_map(*inputs):
            return Case(inputs, truth=found)


def puzzle(*causes: str) -> Any:
    """A maker of cases with one of these causes."""
    return lambda rng, size: _a_puzzle(rng, rng.choice(causes))


def show_puzzle(snapshot: dict[str, Any], size: int, stream: int, free: int) -> str:
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
