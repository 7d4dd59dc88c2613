"""Snapshots of training loops, one line of which may leak."""

from typing import Any

from labkit.course.exercise import Case, Rng, handed_out
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.sizes import GIB, MIB


@handed_out
def program_line(frames: list[dict[str, Any]]) -> int | None:
    """The line of train.py in a stack, innermost first; None when it has none."""
    return next((f["line"] for f in frames if f["filename"].endswith("train.py")), None)


def training_run(rng: Rng, size: int, leaks: bool | None = None) -> Case:
    """Snapshot of a training loop whose lines hold memory in five ways, one of which may leak."""
    lines = rng.sample(range(10, 90), 6)
    weights, activations, state, cache, leak, scratch = lines
    steps = 8 + size // 2 + rng.randint(0, 3)
    keeps = rng.randint(2, 3)
    every = rng.choice((1, steps // 2))  # steps from one entry of the cache to the next
    leaks = rng.chance(0.8) if leaks is None else leaks
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
        if step % every == 0:
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


def show_run(snapshot: dict[str, Any]) -> str:
    counts: dict[int | None, int] = {}
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                line = program_line(block["frames"])
                counts[line] = counts.get(line, 0) + 1
    alive = ", ".join(f"line {line}: {n}" for line, n in counts.items())
    return f"{len(snapshot['device_traces'][0])} trace entries; live blocks by {alive}"
