"""Make snapshots of any size in PyTorch's own format, for measuring viewers and loaders.

    python benchmarks/synthetic_snapshot.py 450000 /tmp/450k.pickle

A training loop is imitated: parameters and optimizer state, then steps of a forward pass that keeps
activations, a backward pass that frees them in reverse, and short-lived workspaces. As in
PyTorch's recordings each traceback is a list of its own holding 32 to 66 shared frames, and
metadata strings and pool ids are fresh objects per entry. 450,000 entries make about 120 MB.
"""

import argparse
import gc
import pickle
import random
from pathlib import Path
from typing import Any

MIB = 1 << 20
FIRST_ADDRESS = 0x7F0000000000


class Heap:
    """Addresses for requests: exact-size free lists over 2 MiB and 20 MiB segments."""

    def __init__(self, record: Any) -> None:
        self.record = record
        self.free: dict[int, list[int]] = {}
        self.segments: list[list[Any]] = []  # [address, size, kind, bytes used]
        self.open: dict[str, list[Any]] = {}
        self.next_address = FIRST_ADDRESS

    def take(self, size: int, frames: list[Any]) -> tuple[int, int]:
        rounded = -(-size // 512) * 512
        if self.free.get(rounded):
            return self.free[rounded].pop(), rounded
        kind = "small" if rounded <= MIB else "large"
        segment = self.open.get(kind)
        if segment is None or segment[3] + rounded > segment[1]:
            plain = 2 * MIB if kind == "small" else 20 * MIB
            room = max(plain, -(-rounded // (2 * MIB)) * 2 * MIB)
            segment = [self.next_address, room, kind, 0]
            self.next_address += room
            self.segments.append(segment)
            self.open[kind] = segment
            self.record("segment_alloc", segment[0], room, frames)
        address = segment[0] + segment[3]
        segment[3] += rounded
        return address, rounded

    def give(self, address: int, rounded: int) -> None:
        self.free.setdefault(rounded, []).append(address)


def make_stacks(rng: random.Random, layers: int, depths: tuple[int, int]) -> list[list[Any]]:
    """Tracebacks of one model: a common outer part, per layer its own frames, shared dicts."""

    def frame(name: str, filename: str, line: int) -> dict[str, Any]:
        return {"name": name, "filename": filename, "line": line}

    outer = [frame(f"main_{i}", "/home/user/project/train.py", 10 + i) for i in range(6)]
    calls = [frame("_call_impl", "/opt/torch/nn/modules/module.py", 1700 + i) for i in range(20)]
    native = [
        frame(f"at::_ops::op_{i}::call(at::Tensor const&)", "/pytorch/aten/Operators.cpp", 100 + i)
        for i in range(40)
    ]
    stacks = []
    for layer in range(layers):
        own = [
            frame("forward", f"/home/user/project/block_{layer % 7}.py", 20 + layer + i)
            for i in range(12)
        ]
        for _ in range(8):
            depth = rng.randint(*depths)
            inner = rng.sample(native, min(len(native), depth // 2))
            middle = [frame for pair in zip(own, calls, strict=False) for frame in pair]
            stacks.append((inner + middle + calls + outer)[:depth])
    return stacks


def make_snapshot(
    entries: int,
    seed: int = 0,
    layers: int = 48,
    depths: tuple[int, int] = (32, 66),
    end_in_step: bool = True,
) -> dict[str, Any]:
    """A snapshot whose trace has about `entries` entries (at least that many)."""
    rng = random.Random(seed)
    stacks = make_stacks(rng, layers, depths)
    trace: list[dict[str, Any]] = []
    clock, step = [1_790_000_000_000_000], [0]

    def record(action: str, address: int, size: int, frames: list[Any]) -> None:
        clock[0] += rng.randint(1, 40)
        trace.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "stream": 0,
                "time_us": clock[0],
                "compile_context": "".join(("N/", "A")),
                "user_metadata": "".join(("step ", str(step[0]))),
                "pool_id": tuple([0, 0]),  # a fresh tuple each time, as in recordings
                "frames": list(frames),
            }
        )

    heap = Heap(record)
    live: dict[int, tuple[int, int, list[Any]]] = {}

    def allocate(size: int, frames: list[Any]) -> int:
        address, rounded = heap.take(size, frames)
        record("alloc", address, size, frames)
        live[address] = (rounded, size, frames)
        return address

    def release(address: int, frames: list[Any]) -> None:
        rounded, size, _ = live.pop(address)
        record("free_requested", address, size, frames)
        record("free_completed", address, size, frames)
        heap.give(address, rounded)

    weights = [rng.randint(1, 4000) * 1024 for _ in range(layers)]
    for layer in range(layers):
        for copy in range(3):
            allocate(weights[layer], stacks[8 * layer + copy])
    while len(trace) < entries:
        kept = []
        step[0] += 1
        for layer in range(layers):
            for op in range(6):
                stack = stacks[8 * layer + op]
                kept.append((allocate(weights[layer] // (op + 1) + 100 * op, stack), stack))
                workspace = allocate(1024 * (1 + (layer + op) % 64), stack)
                release(workspace, stack)
            if end_in_step and len(trace) >= entries:
                break
        else:
            for address, stack in reversed(kept):
                gradient = allocate(4096 * rng.randint(1, 8), stack)
                release(address, stack)
                release(gradient, stack)
    segments = _segments(heap, live)
    return {
        "segments": segments,
        "device_traces": [trace],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1},
        "external_annotations": [],
    }


def _segments(heap: Heap, live: dict[int, tuple[int, int, list[Any]]]) -> list[dict[str, Any]]:
    found = []
    starts = sorted(live)
    position = 0
    for address, size, kind, _ in sorted(heap.segments):
        blocks, at = [], address
        while position < len(starts) and starts[position] < address + size:
            start = starts[position]
            if start > at:
                blocks.append(_block(at, start - at, 0, "inactive", []))
            rounded, requested, frames = live[start]
            blocks.append(_block(start, rounded, requested, "active_allocated", list(frames)))
            at = start + rounded
            position += 1
        if at < address + size:
            blocks.append(_block(at, address + size - at, 0, "inactive", []))
        used = [block for block in blocks if block["state"] != "inactive"]
        allocated = sum(block["size"] for block in used)
        found.append(
            {
                "device": 0,
                "address": address,
                "total_size": size,
                "allocated_size": allocated,
                "active_size": allocated,
                "requested_size": sum(block["requested_size"] for block in used),
                "stream": 0,
                "segment_type": kind,
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": blocks,
            }
        )
    return found


def _block(
    address: int, size: int, requested: int, state: str, frames: list[Any]
) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": requested,
        "state": state,
        "frames": frames,
    }


def write_snapshot(path: Path, entries: int, seed: int = 0) -> int:
    """Write a snapshot of about `entries` entries; returns the file's size in bytes."""
    gc.disable()  # millions of containers: the collector would walk them again and again
    try:
        with path.open("wb") as file:
            pickle.dump(make_snapshot(entries, seed), file)
    finally:
        gc.enable()
    return path.stat().st_size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("entries", type=int)
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    size = write_snapshot(arguments.path, arguments.entries, arguments.seed)
    print(f"{arguments.path}: {size / 1e6:.1f} MB")
