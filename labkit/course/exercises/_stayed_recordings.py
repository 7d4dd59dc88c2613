"""Recordings of training runs that ended in out of memory, and what would have helped."""

from typing import Any, NamedTuple

from labkit.course.exercise import Case, Rng
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.replay.replay import replay
from labkit.memory.sizes import MIB

REMEDIES = ("max_split_size_mb:20", "expandable_segments:True")
KINDS = ("pinned", "scattered", "capacity", "paged")
"""What a run is made for; what became of it is measured."""

Operation = tuple[str, str, int, int]
"""("malloc", name, MiB, line of train.py) or ("free", name, 0, 0)."""


class Died(NamedTuple):
    """A recording whose last request found no room."""

    snapshot: dict[str, Any]
    failed: dict[str, Any]
    total: int


def record(program: list[Operation], total: int, settings: str = "") -> Died | None:
    """The recording of a run on a device of `total` MiB, if its last request finds no room."""
    allocator = CachingAllocator(SimulatedDevice(total * MIB), settings)
    allocator.record_memory_history("all", None, clock=lambda: 0)
    assert allocator.history is not None
    names: dict[str, int] = {}
    lines: dict[int, int] = {}
    for place, (kind, name, size, line) in enumerate(program, 1):
        if kind == "free":
            allocator.free(names.pop(name))
            continue
        try:
            names[name] = allocator.malloc(size * MIB)
            lines[allocator.history.total - 1] = line
        except OutOfMemoryError:
            if place < len(program):
                return None
            return _with_frames(allocator.snapshot(), lines, total * MIB)
    return None


def _with_frames(snapshot: dict[str, Any], lines: dict[int, int], total: int) -> Died:
    """Each block gets the stack of the line that asked for it."""
    trace = snapshot["device_traces"][0]
    frames_at: dict[int, list[dict[str, Any]]] = {}
    for place, entry in enumerate(trace):
        entry["frames"] = []
        if entry["action"] == "alloc":
            entry["frames"] = frames_at[entry["addr"]] = [
                {"name": "empty", "filename": "torch/functional.py", "line": 77},
                {"name": "step", "filename": "train.py", "line": lines[place]},
            ]
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            live = block["state"] == "active_allocated"
            block["frames"] = frames_at[block["address"]] if live else []
    failed = {key: trace[-1][key] for key in ("size", "device_free")}
    return Died(snapshot, failed, total)


def _pinned(rng: Rng, lines: list[int]) -> tuple[list[Operation], int, str]:
    """A large tensor of the first step; state that settles in its segment, and stays."""
    large, weights = rng.randrange(24, 80, 2), rng.randrange(20, 60, 2)
    pins = rng.choice((1, 1, 1, 2, 3))
    held = [rng.randrange(2, 20, 2) for _ in range(pins)]
    program = [("malloc", "weights", weights, lines[0]), ("malloc", "large", large, lines[1])]
    program.append(("free", "large", 0, 0))
    room = large
    for number, size in enumerate(held):
        if size + 2 > room:
            break
        room -= size
        program.append(("malloc", f"state{number}", size, lines[2 + number]))
    again = large + rng.choice((0, 0, 0, 2, 8))
    program.append(("malloc", "again", again, lines[1]))
    spare = rng.randrange(rng.choice((2, again // 2)), again)
    return program, weights + large + spare // 2 * 2, ""


def _small_pinned(rng: Rng, lines: list[int]) -> tuple[list[Operation], int, str]:
    """The same below the limit of max_split_size_mb:20."""
    large, weights = rng.choice((14, 16, 18)), rng.randrange(20, 60, 2)
    kept = rng.randrange(2, large - 2, 2)
    program = [("malloc", "weights", weights, lines[0]), ("malloc", "large", large, lines[1])]
    program += [("free", "large", 0, 0), ("malloc", "state", kept, lines[2])]
    program.append(("malloc", "again", large, lines[1]))
    return program, weights + large + rng.randrange(2, large, 2), ""


def _scattered(rng: Rng, lines: list[int]) -> tuple[list[Operation], int, str]:
    """Every segment of the first step gets one tenant that is too large for a neighbour."""
    size = rng.choice((14, 16, 18, 40, 44))
    count = rng.randint(3, 5)
    kept = size // 2 + 1 + rng.randint(0, 1)
    program = [("malloc", f"wide{i}", size, lines[1]) for i in range(count)]
    program += [("free", f"wide{i}", 0, 0) for i in range(count)]
    program += [("malloc", f"tenant{i}", kept, lines[2]) for i in range(count)]
    spare = rng.randrange(0, 8, 2)
    program.append(("malloc", "again", size + spare + 2, lines[3]))
    return program, size * count + spare, ""


def _capacity(rng: Rng, lines: list[int]) -> tuple[list[Operation], int, str]:
    """More and more is kept, until there is no more."""
    program: list[Operation] = []
    total = rng.randrange(60, 120, 2)
    live = 0
    while True:
        size = rng.randrange(6, 30, 2)
        program.append(("malloc", f"kept{len(program)}", size, rng.choice(lines)))
        if live + size > total:
            return program, total, rng.choice(("", REMEDIES[1]))
        live += size
        if rng.chance(0.3):
            program.append(("malloc", f"gone{len(program)}", 2, lines[0]))
            program.append(("free", program[-1][1], 0, 0))


def _paged(rng: Rng, lines: list[int]) -> tuple[list[Operation], int, str]:
    """One small block stays in every page of 20 MiB; growing segments are on already."""
    pages = rng.randint(5, 7)
    parts = rng.choice(((8, 4, 8), (10, 2, 8), (6, 6, 8)))
    names = [(f"a{i}", f"k{i}", f"b{i}") for i in range(pages)]
    program: list[Operation] = [
        ("malloc", name, size, lines[place])
        for group in names
        for place, (name, size) in enumerate(zip(group, parts, strict=True))
    ]
    program += [("free", name, 0, 0) for first, _, last in names for name in (first, last)]
    program.append(("malloc", "again", rng.choice((40, 44, 48)), lines[3]))
    return program, 20 * pages, REMEDIES[1]


_MAKERS: dict[str, tuple[Any, ...]] = {
    "pinned": (_pinned, _pinned, _small_pinned),
    "scattered": (_scattered,),
    "capacity": (_capacity,),
    "paged": (_paged,),
}


def only_live(segment: dict[str, Any]) -> Any:
    """The one live block of the segment; None where there is another number of them."""
    live = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
    return live[0] if len(live) == 1 else None


def _held_idle(died: Died) -> list[tuple[int, Any]]:
    """(idle bytes, block) of each segment that one live block keeps, most idle bytes first.

    Only segments that would let the request in, had they gone back.
    """
    missing = died.failed["size"] - died.failed["device_free"]
    held = [
        (segment["total_size"] - block["size"], block)
        for segment in died.snapshot["segments"]
        if segment["total_size"] >= missing and (block := only_live(segment))
    ]
    return sorted((one for one in held if one[0]), key=lambda one: -one[0])


def cause(died: Died) -> tuple[str, int | None]:
    """Why the request found no room, and the line of train.py that pins a segment."""
    live = sum(segment["allocated_size"] for segment in died.snapshot["segments"])
    if live + died.failed["size"] > died.total:
        return "capacity", None
    held = _held_idle(died)
    return ("pinned", held[0][1]["frames"][-1]["line"]) if held else ("scattered", None)


def _remedy(died: Died) -> str:
    """Of the settings under which the run finishes, the one that reserves least at its peak."""
    runs = {name: replay(died.snapshot, name, device_total=died.total) for name in REMEDIES}
    helpful = {name: run.peak_reserved for name, run in runs.items() if not run.ran_out}
    return min(helpful, key=lambda name: helpful[name], default="less memory")


def is_clear(died: Died) -> bool:
    """Whether no two segments hold back the same number of bytes."""
    idle = [held for held, _ in _held_idle(died)[:2]]
    return len(idle) < 2 or idle[0] > idle[1]


def run_that_died(rng: Rng, *kinds: str) -> Case:
    """A recording of one of these kinds, and (cause, line, remedy)."""
    while True:
        lines = rng.sample(range(10, 90), 6)
        kind = rng.choice(kinds)
        program, total, settings = rng.choice(_MAKERS[kind])(rng, lines)
        died = record(program, total, settings)
        if died is None or not is_clear(died):
            continue
        return Case(tuple(died), truth=(*cause(died), _remedy(died)))
