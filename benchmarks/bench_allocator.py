"""How fast the rebuilt allocator replays traces, beside a C++ `std::set` twin in the same run.

.venv/bin/python benchmarks/bench_allocator.py
"""

import random
import subprocess
import tempfile
import time
from array import array
from pathlib import Path

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.sizes import KIB, MIB

TWIN = Path(__file__).with_name("allocator_twin.cpp")
DEVICE_BYTES = 2**46  # never full: the twin does not release memory


def training_trace(events: int, seed: int = 0) -> list[int]:
    """Steps of a net: activations live until backward, workspaces die at once, gradients follow.

    Numbers > 0 allocate so many bytes; others free the request of that number, counted from 0.
    """
    chooser = random.Random(seed)
    layers = [
        (chooser.randrange(64 * KIB, 24 * MIB), chooser.randrange(512, 900 * KIB),
         chooser.randrange(4 * KIB, 4 * MIB)) for _ in range(40)
    ]  # fmt: skip
    trace: list[int] = []
    made = 0

    def allocate(size: int) -> int:
        nonlocal made
        trace.append(size)
        made += 1
        return made - 1

    for _, _, weight in layers:
        allocate(weight)
    while len(trace) < events:
        kept = []
        for activation, workspace, _ in layers:
            temporary = allocate(workspace)
            kept.append(allocate(activation))
            kept.append(allocate(chooser.choice((4, 256, 2048))))
            trace.append(-temporary)
        gradients = []
        for activation, workspace, weight in reversed(layers):
            incoming = allocate(activation)
            temporary = allocate(workspace)
            gradients.append(allocate(weight))
            trace.append(-temporary)
            trace.append(-kept.pop())
            trace.append(-kept.pop())
            trace.append(-incoming)
        trace.extend(-gradient for gradient in gradients)
    return trace[:events]


def adversarial_trace(events: int, seed: int = 0) -> list[int]:
    """Random sizes, an eighth of the events alive at once: the free list grows with the trace."""
    chooser = random.Random(seed)
    trace: list[int] = []
    alive: list[int] = []
    made = 0
    while len(trace) < events:
        if len(alive) < events // 8 or chooser.random() < 0.5:
            trace.append(int(2 ** chooser.uniform(4, 20)))
            alive.append(made)
            made += 1
        else:
            place = chooser.randrange(len(alive))
            alive[place], alive[-1] = alive[-1], alive[place]
            trace.append(-alive.pop())
    return trace


def replay(trace: list[int], statistics: bool) -> tuple[float, int, int]:
    """(nanoseconds per event, checksum of the addresses, free blocks at the end)."""
    allocator = CachingAllocator(SimulatedDevice(DEVICE_BYTES), statistics=statistics)
    malloc, free = allocator.malloc, allocator.free
    addresses: list[int] = []
    remember = addresses.append
    start = time.process_time_ns()
    for event in trace:
        if event > 0:
            remember(malloc(event))
        else:
            free(addresses[-event])
    taken = time.process_time_ns() - start
    checksum = 0
    for address in addresses:
        checksum = (checksum * 31 + address) % 1000000007
    free_blocks = sum(
        len(pool.free_blocks()) for pool in (allocator.small_pool, allocator.large_pool)
    )
    return taken / len(trace), checksum, free_blocks


class Twin:
    """The C++ twin, compiled for this run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = folder / "twin"
        command = ["g++", "-O2", "-std=c++17", str(TWIN), "-o", str(self._program)]
        subprocess.run(command, check=True, timeout=120)

    def replay(self, trace: list[int]) -> tuple[float, int]:
        """(nanoseconds per event, checksum)."""
        events = self._folder / "events"
        events.write_bytes(array("q", trace).tobytes())
        answer = subprocess.run(
            [self._program, events, "1"], check=True, capture_output=True, text=True, timeout=300
        ).stdout.split()
        return float(answer[0]), int(answer[1])


def measure(repeats: int = 7) -> dict[str, float]:
    """Interleaved runs, medians. Ratios are ours / twin, growth is ns(1M) / ns(100k)."""
    figures: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)

    training, training_long = training_trace(100_000), training_trace(1_000_000)
    hard, hard_long = adversarial_trace(100_000), adversarial_trace(1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        twin = Twin(Path(folder))
        for repeat in range(repeats):
            twin_ns, twin_sum = twin.replay(training)
            bare_ns, bare_sum, _ = replay(training, statistics=False)
            full_ns, full_sum, _ = replay(training, statistics=True)
            if not twin_sum == bare_sum == full_sum:
                raise AssertionError(f"addresses differ: {twin_sum}, {bare_sum}, {full_sum}")
            note("twin_ns", twin_ns)
            note("bare_ns", bare_ns)
            note("full_ns", full_ns)
            note("bare_ratio", bare_ns / twin_ns)
            note("full_ratio", full_ns / twin_ns)
            if repeat < max(1, repeats // 2):
                long_ns, _, _ = replay(training_long, statistics=True)
                hard_ns, _, _ = replay(hard, statistics=True)
                hard_long_ns, hard_sum, free_blocks = replay(hard_long, statistics=True)
                note("long_ns", long_ns)
                note("growth", long_ns / full_ns)
                note("adversarial_100k_ns", hard_ns)
                note("adversarial_1M_ns", hard_long_ns)
                note("adversarial_growth", hard_long_ns / hard_ns)
                note("adversarial_free_blocks", free_blocks)
        hard_twin_ns, hard_twin_sum = twin.replay(hard_long)
        note("adversarial_twin_1M_ns", hard_twin_ns)
        if hard_twin_sum != hard_sum:
            raise AssertionError("addresses differ on the adversarial trace")
    return {name: sorted(values)[len(values) // 2] for name, values in figures.items()}


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:28s} {value:10.2f}")
