"""How fast the rebuilt allocator replays traces, beside a C++ `std::set` twin in the same run."""

import ctypes
import random
import subprocess
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path

from labkit.bench import Bench
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.sizes import KIB, MIB

TWIN = Path(__file__).with_name("allocator_twin.cpp")
SHORT, LONG = 100_000, 1_000_000
GOAL = 25.0
"""What a path that is written to be read may cost, in times of the twin."""
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
    """Random sizes, 1 KiB to 540 KiB, a tenth of the events alive at once.

    The free list grows with the trace, to about 12,000 blocks after a million events.
    """
    chooser = random.Random(seed)
    trace: list[int] = []
    alive: list[int] = []
    made = 0
    while len(trace) < events:
        if len(alive) < events // 10 or chooser.random() < 0.5:
            trace.append(int(2 ** chooser.uniform(10, 19.05)))
            alive.append(made)
            made += 1
        else:
            place = chooser.randrange(len(alive))
            alive[place], alive[-1] = alive[-1], alive[place]
            trace.append(-alive.pop())
    return trace


def replay(trace: list[int]) -> CachingAllocator:
    """The allocator after the trace."""
    allocator = CachingAllocator(SimulatedDevice(DEVICE_BYTES))
    malloc, free = allocator.malloc, allocator.free
    addresses: list[int] = []
    remember = addresses.append
    for event in trace:
        if event > 0:
            remember(malloc(event))
        else:
            free(addresses[-event])
    return allocator


def checksum_of(trace: list[int]) -> int:
    """Of all addresses, as the twin computes it."""
    allocator = CachingAllocator(SimulatedDevice(DEVICE_BYTES))
    addresses: list[int] = []
    for event in trace:
        if event > 0:
            addresses.append(allocator.malloc(event))
        else:
            allocator.free(addresses[-event])
    checksum = 0
    for address in addresses:
        checksum = (checksum * 31 + address) % 1000000007
    return checksum


class Twin:
    """The C++ twin, compiled for this run."""

    def __init__(self, folder: Path) -> None:
        library = folder / "twin.so"
        command = ["g++", "-O2", "-std=c++17", "-shared", "-fPIC", str(TWIN), "-o", str(library)]
        subprocess.run(command, check=True, timeout=120)
        self._replay = ctypes.CDLL(str(library)).replay
        self._replay.restype = ctypes.c_int64
        self._replay.argtypes = [ctypes.c_void_p, ctypes.c_int64]

    def replay(self, events: array) -> int:
        """The checksum of the addresses."""
        return int(self._replay(events.buffer_info()[0], len(events)))


def BENCHES() -> Iterator[Bench]:
    """Both sides hand out the same addresses and count all statistics."""
    trace, long_trace = training_trace(SHORT), training_trace(LONG)
    hard, long_hard = adversarial_trace(SHORT), adversarial_trace(LONG)
    events = array("q", trace)
    free_blocks = sum(
        len(pool.free_blocks())
        for allocator in [replay(long_hard)]
        for pool in (allocator.default_pools.small_blocks, allocator.default_pools.large_blocks)
    )
    with tempfile.TemporaryDirectory() as folder:
        twin = Twin(Path(folder))
        if twin.replay(events) != checksum_of(trace):
            raise AssertionError("the C++ twin hands out other addresses")

        yield Bench(
            "training trace / std::set twin",
            lambda: replay(trace),
            lambda: twin.replay(events),
            GOAL,
            calls=1,
            work=SHORT,
            clock="cpu",
        )

    def growth(name: str, long: list[int], short: list[int], goal: float) -> Bench:
        def as_many_short_ones() -> None:
            for _ in range(LONG // SHORT):
                replay(short)

        return Bench(
            name, lambda: replay(long), as_many_short_ones, goal, calls=1, work=LONG, clock="cpu"
        )

    yield growth("training trace, 1M events / 10 x 100k", long_trace, trace, 1.15)
    name = f"adversarial trace, 1M events ({free_blocks:,} free blocks) / 10 x 100k"
    yield growth(name, long_hard, hard, 2.5)
