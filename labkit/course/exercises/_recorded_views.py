"""A video pipeline on two streams, whose allocator is told through views which stream still reads.

The rule is a look-up: find_block(blocks, view) is given the live blocks, start -> bytes, and a
view; it returns the start of the block that the view's stream is recorded for, or None.
"""

import functools
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np

from labkit.conformance.allocator import FIXTURES
from labkit.course.exercise import handed_out
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.memory_calls import MemoryCalls
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.replay import recording

FRAMES, NUMBERS = 4, 256
"""Of a run: how many frames, and how many int64 numbers each has."""
CONFIGURATIONS = ("streams", "streams_small_device")
"""Recordings of PyTorch's allocator in which streams are recorded."""


class View(NamedTuple):
    """Some elements of a tensor, in bytes on the device.

    data_ptr     the address of the first element it shows; 0 where it shows none
    storage_ptr  the address of the memory it is a part of; 0 where it has none
    nbytes       how much it shows
    """

    data_ptr: int
    storage_ptr: int
    nbytes: int


FindBlock = Callable[[dict[int, int], View], int | None]


class Played(NamedTuple):
    """What became of a run: the frames that were read, and what was queued, for a picture."""

    read: list[int]
    program: list[tuple[Any, ...]]
    names: list[str]


class Pipeline:
    """The device and its three streams, shared by all runs."""

    def __init__(self) -> None:
        self.driver = EmulatorDriver(capacity=1 << 26, seed=0, why="to reorder its queues")
        streams = [self.driver.stream_create(non_blocking=True) for _ in range(2)]
        self.main, self.side = streams
        self.lanes = {self.main: "copying", self.side: "working"}

    def play(self, find_block: FindBlock, seed: int, protect: bool = True) -> Played:
        """Four frames: each is copied in, its second half read by the other stream, and freed.

        seed  of the order in which the device takes work from its queues
        """
        self.driver.synchronize()
        self.driver.queue.reseed(seed)
        allocator = CachingAllocator(MemoryCalls(self.driver))
        pace, sizes = Random(seed + 1000), NUMBERS * 8
        frames = [np.full(NUMBERS, number, np.int64) for number in range(FRAMES)]
        seen = [np.full(NUMBERS // 2, -1, np.int64) for _ in range(FRAMES)]
        kept = [self.driver.malloc(sizes) for _ in range(FRAMES)]
        program: list[tuple[Any, ...]] = []
        names: list[str] = []
        numbers: dict[int, int] = {}
        pending: dict[int, str] = {}
        for number, frame in enumerate(frames):
            start = allocator.malloc(sizes, self.main)
            letter = "ABCD"[numbers.setdefault(start, len(numbers))]
            block = f"block {letter}"
            if start in pending:  # the allocator has seen that the reading is done
                program.append(("host wait", pending.pop(start)))
            half = View(start + sizes // 2, start, sizes // 2)
            self.driver.memcpy_async(start, frame.ctypes.data, sizes, self.main, keep=frame)
            program.append(("run", "copying", (), (block,)))
            names.append(f"copy {number}, {letter}")
            self._after(program, number)
            self.driver.memcpy_async(kept[number], half.data_ptr, half.nbytes, self.side)
            program.append(("run", "working", (block,), ()))
            names.append(f"read {number}, {letter}")
            if protect and _record(allocator, find_block, half, self.side):
                pending[start] = f"free {number}"
                program.append(("record", "working", pending[start]))
            allocator.free(start)
            for _ in range(pace.choice((3, 4, 5, 6))):
                self.driver.queue.step()
        self.driver.synchronize()
        for place, array in zip(kept, seen, strict=True):
            self.driver.memcpy_async(array.ctypes.data, place, array.nbytes, 0, keep=array)
        self.driver.synchronize()
        for place in kept:
            self.driver.free(place)
        allocator.empty_cache()
        return Played([int(array[0]) for array in seen], program, names)

    def _after(self, program: list[tuple[Any, ...]], number: int) -> None:
        """What the side stream gets from now on runs after this frame's copy."""
        event = self.driver.event_create()
        self.driver.event_record(event, self.main)
        self.driver.stream_wait_event(self.side, event)
        self.driver.event_destroy(event)
        program.append(("record", "copying", number))
        program.append(("wait", "working", number))


@functools.cache
def _pipeline() -> Pipeline:
    return Pipeline()


@handed_out
def play(find_block: FindBlock, seed: int, protect: bool = True) -> Played:
    """A run of the pipeline; right is [0, 1, 2, 3]."""
    return _pipeline().play(find_block, seed, protect)


@handed_out
def live_blocks(allocator: CachingAllocator) -> dict[int, int]:
    """Start -> bytes of every block that is in use."""
    return {block.address: block.size for block in allocator.live_blocks()}


def _record(allocator: CachingAllocator, find_block: FindBlock, view: View, stream: int) -> bool:
    """Whether the look-up found a block, for which the stream is recorded now."""
    found = find_block(live_blocks(allocator), view)
    if found is not None:
        allocator.record_stream(found, stream)
    return found is not None


class RecordsThroughViews(CachingAllocator):
    """Labkit's allocator, but a stream is recorded on a view, whose block a look-up finds.

    The view shows the tensor from its middle on, no element of it, or the whole.
    """

    find_block: FindBlock

    def record_stream(self, address: int, stream: int) -> None:
        """The block that the look-up finds for a view of this one is used on the stream."""
        blocks = live_blocks(self)
        size = blocks.get(address, 0)
        half = size // 2
        views = (
            View(address + half, address, half),
            View(0, address, 0),
            View(address, address, size),
        )
        found = type(self).find_block(blocks, views[self.stats.num_device_alloc % 3])
        if found is not None:
            super().record_stream(found, stream)


@handed_out
def through_views(find_block: FindBlock) -> type[RecordsThroughViews]:
    """The class of allocators with this look-up."""
    rules = {"find_block": staticmethod(find_block)}
    return type("RecordsThroughViews", (RecordsThroughViews,), rules)


@handed_out
def first_difference(find_block: FindBlock, config: str, number: int) -> str:
    """Where PyTorch's recording is left by such an allocator; "" nowhere."""
    head = _recording(config)
    found = recording.compare_program(head, head["programs"][number], through_views(find_block))
    return found.difference or ""


def _by_storage(blocks: dict[int, int], view: View) -> int | None:
    return view.storage_ptr if view.storage_ptr in blocks else None


def _by_address(blocks: dict[int, int], view: View) -> int | None:
    return view.data_ptr if view.data_ptr in blocks else None


def _by_range(blocks: dict[int, int], view: View) -> int | None:
    return next((s for s, size in blocks.items() if s <= view.data_ptr < s + size), None)


def _refuses_foreign(blocks: dict[int, int], view: View) -> int | None:
    if view.storage_ptr not in blocks:
        raise KeyError(view.storage_ptr)
    return view.storage_ptr


OF_2019: dict[str, FindBlock] = {"the look-up of 2019": _by_address}
TODAY: dict[str, FindBlock] = {"the look-up of today": _by_storage}
HALF: dict[str, FindBlock] = {
    "it searches for the block that holds the address": _by_range,
    "an empty view is in no block": lambda blocks, view: (
        _by_storage(blocks, view) if view.nbytes else None
    ),
    "it returns the storage of any view": lambda blocks, view: view.storage_ptr,
    "it raises for memory of somebody else": _refuses_foreign,
    "it returns the last block that begins before the view": lambda blocks, view: max(
        (start for start in blocks if start <= view.storage_ptr), default=None
    ),
}
SIDES = {**TODAY, **OF_2019, **HALF}
"""Look-ups by name: the one that a test passes, and those that it must not."""


@functools.cache
@handed_out
def _recording(config: str) -> dict[str, Any]:
    return recording.load_recording(FIXTURES / f"{config}.json.gz")
