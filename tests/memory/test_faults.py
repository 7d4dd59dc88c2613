"""Drivers that refuse or raise at any call, callbacks that raise or allocate: nothing is lost."""

import random
from collections import Counter

import pytest

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.mem_pool import MemPool
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.sizes import GIB, MIB
from labkit.memory.storages.storage_allocator import StorageAllocator
from tests.memory import invariants
from tests.seeds import seeds

SIZES = (1, 512, 5000, 600_000, MIB + 1, 3 * MIB, 9 * MIB, 21 * MIB, 45 * MIB)
SETTINGS = (
    "",
    "max_split_size_mb:20,garbage_collection_threshold:0.3",
    "expandable_segments:True",
    "expandable_segments:True,garbage_collection_threshold:0.4",
)
MAY_REFUSE = ("malloc", "create_page")
MAY_RAISE = (
    *("malloc", "free", "memory_info", "reserve", "unreserve", "create_page", "release_page"),
    *("map_page", "unmap_page", "record_event", "query_event", "synchronize_event"),
    *("synchronize_stream", "stream_id"),
)


class Fault(Exception):
    """What the driver raises."""


class FaultyDevice(SimulatedDevice):
    """Calls of one kind fail from the `first`-th on, `count` of them.

    refuses  True: they answer that there is no room; False: they raise
    """

    def __init__(self, total, kind=None, first=0, count=1, refuses=False):
        super().__init__(total)
        self.made = Counter()
        self._kind, self._failing, self._refuses = kind, range(first, first + count), refuses

    def repair(self):
        self._kind = None


def _may_fail(name):
    original = getattr(SimulatedDevice, name)

    def call(self, *arguments):
        made = self.made[name]
        self.made[name] += 1
        if name == self._kind and made in self._failing:
            if self._refuses:
                return None
            raise Fault(f"{name} number {made}")
        return original(self, *arguments)

    return call


for _name in MAY_RAISE:
    setattr(FaultyDevice, _name, _may_fail(_name))


def run(device, settings, seed, steps=50, prepare=lambda allocator, live: None):
    """A random program in which any step may fail; from then on all is checked after each."""
    chooser = random.Random(seed)
    allocator = CachingAllocator(device, settings, 0.9)
    if seed % 2:
        allocator.record_memory_history("all", clock=lambda: 0)
        allocator.explain()
    live, pools, failed = [], [], False
    prepare(allocator, live)
    for _ in range(steps):
        action = chooser.random()
        try:
            if action < 0.5:
                live.append(allocator.malloc(chooser.choice(SIZES), chooser.choice((0, 0, 7))))
            elif action < 0.78 and live:
                address = live.pop(chooser.randrange(len(live)))
                if chooser.random() < 0.3:
                    allocator.record_stream(address, 9)
                allocator.free(address)
            elif action < 0.84:
                device.complete(9)
            elif action < 0.9:
                allocator.empty_cache()
            elif action < 0.96 and not pools:
                pools.append(MemPool(allocator))
                pools[0].__enter__()
            elif pools:
                pool = pools.pop()
                pool.__exit__(None, None, None)
                pool.drop()
        except (Fault, OutOfMemoryError):
            live[:] = keep_alive(allocator, live)
            failed = True
        if failed:
            invariants.check(allocator)
            check_device(device, allocator)
            assert not seed % 2 or not allocator.decisions._open, "nothing is left half told"
    return allocator, pools


def keep_alive(allocator, live):
    """What the program still holds: a block it lost to a failed `record_stream` is its own."""
    held = [block.address for block in allocator.live_blocks()]
    assert set(live) <= set(held), "a failed call frees nothing else"
    return held


def check_device(device, allocator):
    """Whatever the device gave is reserved, or a page that waits to go back."""
    waiting = sum(
        page for segment in allocator.expandable.segments for page in segment.expandable._unmapped
    )
    assert device.used == allocator.reserved_bytes + waiting


def finish(device, allocator, pools):
    """Everything goes back once the driver works again."""
    device.repair()
    for pool in pools:
        pool.__exit__(None, None, None)
        pool.drop()
    for block in allocator.live_blocks():
        allocator.free(block.address)
    allocator.empty_cache()
    invariants.check(allocator)
    assert device.used == allocator.reserved_bytes == 0
    assert not device._mapped
    stats = allocator.memory_stats()
    assert not any(value for name, value in stats.items() if name.endswith(".current"))


def calls_of(settings, seed):
    device = FaultyDevice(160 * MIB)
    finish(device, *run(device, settings, seed))
    return device.made


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda text: text or "default")
@pytest.mark.parametrize("seed", seeds(0, 1))
def test_a_driver_that_raises_once_at_any_call(settings, seed):
    for kind, count in calls_of(settings, seed).items():
        for first in range(1 if kind == "memory_info" else 0, count):
            device = FaultyDevice(160 * MIB, kind, first)
            finish(device, *run(device, settings, seed))


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda text: text or "default")
@pytest.mark.parametrize("kind", MAY_RAISE)
def test_a_driver_that_raises_for_a_while(settings, kind):
    for first in (1, 3, 8):
        device = FaultyDevice(160 * MIB, kind, first, count=7)
        finish(device, *run(device, settings, first))


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda text: text or "default")
@pytest.mark.parametrize("kind", MAY_REFUSE)
def test_a_driver_that_refuses_at_any_call(settings, kind):
    for first in range(calls_of(settings, 0)[kind]):
        device = FaultyDevice(160 * MIB, kind, first, refuses=True)
        finish(device, *run(device, settings, 0))


CALLBACKS = {
    "raises": lambda allocator, live: fail(),
    "frees": lambda allocator, live: bool(live) and allocator.free(live.pop()) is None,
    "allocates": lambda allocator, live: live.append(allocator.malloc(3 * MIB)) is None,
    "empties": lambda allocator, live: allocator.empty_cache() is None,
}


def fail():
    raise Fault("a callback")


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda text: text or "default")
@pytest.mark.parametrize("place", ["free_memory_callbacks", "out_of_memory_observers"])
@pytest.mark.parametrize("name", CALLBACKS)
def test_callbacks_that_raise_free_or_allocate(settings, place, name):
    def prepare(allocator, live):
        getattr(allocator, place).append(lambda *_: CALLBACKS[name](allocator, live))

    for seed in range(3):
        device = FaultyDevice(100 * MIB)
        finish(device, *run(device, settings, seed, prepare=prepare))


def test_a_callback_that_allocates_is_told_before_the_request_it_served():
    allocator = CachingAllocator(SimulatedDevice(GIB))
    allocator.explain()
    allocator.free_memory_callbacks.append(lambda: bool(allocator.malloc(3 * MIB)))
    allocator.malloc(1000)
    assert [entry["request"] for entry in allocator.decisions.entries] == [3 * MIB, 1000]
    assert {entry["rule"] for entry in allocator.decisions.entries} == {"new_segment"}


def test_a_block_that_a_callback_freed_is_a_candidate():
    allocator = CachingAllocator(SimulatedDevice(GIB))
    allocator.explain()
    held = [allocator.malloc(30 * MIB)]
    allocator.free_memory_callbacks.append(lambda: held and allocator.free(held.pop()) is None)
    address = allocator.malloc(30 * MIB)
    assert [
        (c["address"], c["verdict"]) for c in allocator.decisions.entries[-1]["candidates"]
    ] == [(address, "chosen")]


def test_a_late_free_that_fails_does_not_lose_the_new_block():
    device = FaultyDevice(GIB, "record_event")
    storages = StorageAllocator(CachingAllocator(device))
    allocator = storages.allocator
    used = storages.take(1000, 0)
    storages.record_address(used, 7)
    allocator.free_memory_callbacks.append(lambda: storages.free(used))
    with pytest.raises(Fault):
        storages.take(5 * MIB, 0)
    assert allocator.live_blocks() == []
    device.complete(7)
    allocator.empty_cache()
    assert device.used == 0
