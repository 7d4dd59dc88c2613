"""The allocator: recorded lessons, invariants under random programs, and refusals."""

import random

import pytest

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.mem_pool import MemPool
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.replay.recording import ProgramRun, compare_program
from labkit.memory.sizes import GIB, MIB
from tests.memory import invariants
from tests.memory.mutation import FIXTURES, recording

CONFIGURATIONS = sorted(
    path.name.removesuffix(".json.gz")
    for path in FIXTURES.glob("*.json.gz")
    if path.name not in ("tutorial.json.gz", "settings_and_sizes.json.gz")
)
TUTORIAL = recording("tutorial")["programs"]


@pytest.mark.parametrize("program", TUTORIAL, ids=lambda program: program["name"])
def test_lesson(program):
    assert compare_program(recording("tutorial"), program).difference is None


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_recorded_programs(configuration):
    data = recording(configuration)
    chooser = random.Random(configuration)
    for program in chooser.sample(data["programs"], 6):
        assert compare_program(data, program).difference is None


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_without_a_history_everything_is_the_same(configuration):
    data = recording(configuration)
    for program in random.Random(configuration).sample(data["programs"], 4):
        run = ProgramRun(data, program)
        run.allocator.record_memory_history(None)
        for operation, expected in zip(program["ops"], program["expect"], strict=True):
            assert run.run(operation).get("addr") == expected.get("addr"), operation
        assert run.allocator.memory_stats() == program["final"]["stats"]
        assert run.segments() == program["final"]["segments"]


SETTINGS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:20",
    "max_split_size_mb:32,max_non_split_rounding_mb:40,garbage_collection_threshold:0.3",
    "roundup_power2_divisions:[1:8,8:2,>:4],large_segment_size_mb:11",
    "expandable_segments:True,garbage_collection_threshold:0.4,max_split_size_mb:24",
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda text: text or "default")
@pytest.mark.parametrize("seed", range(3))
def test_invariants_under_random_programs(settings, seed):
    chooser = random.Random(f"{settings}-{seed}")
    device = SimulatedDevice(160 * MIB)
    allocator = CachingAllocator(device, settings, chooser.choice([None, 0.8]))
    live, pools = [], []
    for step in range(400):
        action = chooser.random()
        if action < 0.5:
            size = int(2 ** chooser.uniform(0, 25))
            try:
                live.append(allocator.malloc(size, chooser.randrange(3)))
            except OutOfMemoryError as error:
                assert error.requested == size
        elif action < 0.83 and live:
            allocator.free(live.pop(chooser.randrange(len(live))))
        elif action < 0.88 and live:
            allocator.record_stream(chooser.choice(live), chooser.randrange(3))
        elif action < 0.92:
            device.complete(chooser.randrange(3))
        elif action < 0.95:
            allocator.empty_cache()
        elif action < 0.97:
            pools.append(MemPool(allocator))
            pools[-1].__enter__()
        elif pools:
            pool = pools.pop()
            pool.__exit__(None, None, None)
            pool.drop()
        if step % 10 == 0:
            invariants.check(allocator)
    while pools:
        pool = pools.pop()
        pool.__exit__(None, None, None)
        pool.drop()
    for address in live:
        allocator.free(address)
    allocator.empty_cache()
    invariants.check(allocator)
    empty_rooms_survive = "expandable" in settings
    assert allocator.reserved_bytes == device.used == 0
    assert empty_rooms_survive or not allocator.segments


def plain():
    return CachingAllocator(SimulatedDevice(GIB))


def test_an_unknown_address_is_refused():
    allocator = plain()
    address = allocator.malloc(1000)
    with pytest.raises(ValueError, match=hex(address + 512)):
        allocator.free(address + 512)
    with pytest.raises(ValueError, match=hex(address + 512)):
        allocator.record_stream(address + 512, 1)
    invariants.check(allocator)


def test_a_second_free_is_refused():
    allocator = plain()
    address = allocator.malloc(1000)
    allocator.free(address)
    with pytest.raises(ValueError, match="is not an allocated block"):
        allocator.free(address)
    invariants.check(allocator)


def test_a_pending_block_cannot_be_freed_again():
    allocator = plain()
    address = allocator.malloc(1000)
    allocator.record_stream(address, 7)
    allocator.free(address)
    with pytest.raises(ValueError, match="is not an allocated block"):
        allocator.free(address)


@pytest.mark.parametrize("size", [-1, -512])
def test_a_negative_size_is_refused(size):
    with pytest.raises(ValueError, match=str(size)):
        plain().malloc(size)


def test_nothing_costs_nothing():
    allocator = plain()
    assert allocator.malloc(0) == 0
    allocator.free(0)
    allocator.record_stream(0, 3)
    assert allocator.segments == {}


@pytest.mark.parametrize("fraction", [-0.1, 1.01, float("nan")])
def test_a_fraction_outside_0_to_1_is_refused(fraction):
    with pytest.raises(ValueError, match="Allowed range: 0~1"):
        plain().set_memory_fraction(fraction)


def test_after_running_out_the_allocator_goes_on():
    allocator = CachingAllocator(SimulatedDevice(32 * MIB))
    held = allocator.malloc(20 * MIB)
    seen = []
    allocator.out_of_memory_observers.append(seen.append)
    with pytest.raises(OutOfMemoryError, match=r"Tried to allocate 20.00 MiB.*12.00 MiB is free"):
        allocator.malloc(19 * MIB)
    assert seen[0].block_size == 19 * MIB
    allocator.free(held)
    assert allocator.malloc(19 * MIB)
    invariants.check(allocator)


def test_a_callback_that_frees_memory_spares_the_device_a_request():
    allocator = plain()
    held = [allocator.malloc(30 * MIB)]
    allocator.free_memory_callbacks.append(
        lambda: bool(held) and allocator.free(held.pop()) is None
    )
    address = allocator.malloc(30 * MIB)
    assert allocator.memory_stats()["num_device_alloc"] == 1
    assert address in [block.address for block in allocator.live_blocks()]


def test_during_a_capture_events_wait_and_the_cache_stays():
    device = SimulatedDevice(64 * MIB)
    allocator = CachingAllocator(device)
    cached = allocator.malloc(20 * MIB)
    allocator.free(cached)
    pool = allocator.private_pools.create()
    allocator.private_pools.begin(pool, lambda stream: stream == 5, capture=True)
    inside = allocator.malloc(1000, 5)
    outside = allocator.malloc(1000, 0)
    allocator.record_stream(outside, 5)
    allocator.free(outside)
    device.complete(5)
    allocator.process_events()
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(50 * MIB, 0)
    allocator.private_pools.end(pool)
    allocator.malloc(50 * MIB - 8 * MIB, 0)
    segments = {s["segment_pool_id"] for s in allocator.memory_map()}
    assert segments == {(0, 0), pool}
    allocator.free(inside)
    allocator.private_pools.release(pool)
    allocator.private_pools.release(pool)
    allocator.empty_cache(pool)
    assert {s["segment_pool_id"] for s in allocator.memory_map()} == {(0, 0)}


def test_a_pool_without_split_hands_out_whole_segments():
    allocator = plain()
    with MemPool(allocator, no_split=True):
        first, second = allocator.malloc(1000), allocator.malloc(1000)
    assert abs(first - second) >= 2 * MIB


def test_a_pool_lends_when_the_device_is_full():
    allocator = CachingAllocator(SimulatedDevice(20 * MIB))
    with MemPool(allocator, use_on_oom=True):
        lent = allocator.malloc(15 * MIB)
    allocator.free(lent)
    assert allocator.malloc(15 * MIB) == lent


def test_pools_lend_in_the_order_of_their_table():
    allocator = CachingAllocator(SimulatedDevice(40 * MIB))
    lent = []
    for _ in range(2):
        with MemPool(allocator, use_on_oom=True):
            lent.append(allocator.malloc(20 * MIB))
    for address in lent:
        allocator.free(address)
    # of the table's four slots the second pool's key takes the first, the first one's the third
    assert [allocator.malloc(20 * MIB) for _ in lent] == lent[::-1]


def test_what_lends_is_split_as_a_plain_segment():
    allocator = CachingAllocator(SimulatedDevice(20 * MIB))
    with MemPool(allocator, use_on_oom=True):
        lent = allocator.malloc(20 * MIB)
    allocator.free(lent)
    allocator.apply_settings("expandable_segments:True")
    assert allocator.malloc(20 * MIB - 512 * 1024) == lent
    assert [block.size for block in allocator.live_blocks()] == [20 * MIB]


def test_growing_segments_are_not_lent():
    allocator = CachingAllocator(SimulatedDevice(20 * MIB), "expandable_segments:True")
    with MemPool(allocator, use_on_oom=True):
        allocator.free(allocator.malloc(20 * MIB))
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(20 * MIB)


def test_a_dropped_pool_lends_nothing():
    allocator = CachingAllocator(SimulatedDevice(20 * MIB))
    with (pool := MemPool(allocator, use_on_oom=True)):
        held, lent = allocator.malloc(2 * MIB), allocator.malloc(10 * MIB)
    allocator.free(lent)
    pool.drop()
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(12 * MIB)
    allocator.free(held)


@pytest.mark.parametrize("misuse", ["end", "release", "begin twice"])
def test_misused_pools_are_refused(misuse):
    allocator = plain()
    pool = allocator.private_pools.create()
    with pytest.raises(ValueError, match=r"\(0, 1\)|\(0, 9\)"):
        if misuse == "end":
            allocator.private_pools.end(pool)
        elif misuse == "release":
            allocator.private_pools.release((0, 9))
        else:
            allocator.private_pools.begin(pool)
            allocator.private_pools.begin(pool)
