"""Recorded histories made again: exactly, from the middle, and under other settings."""

import json
import random

import pytest

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.replay.exactly import explicit_releases, replay_exactly
from labkit.memory.replay.replay import replay
from labkit.memory.replay.restore import restore
from labkit.memory.sizes import GIB, MIB
from labkit.memory.snapshots.snapshot import load
from labkit.memory.snapshots.trace import entries_of, requests, segments_before
from tests.memory.mutation import FIXTURES

SNAPSHOTS = sorted((FIXTURES / "snapshots").glob("*.pickle.gz"))
TOTAL = {"infer_growing": 320 * MIB, "infer_growing_expandable": 320 * MIB}


def name_of(path):
    return path.name.removesuffix(".pickle.gz")


@pytest.mark.parametrize("path", SNAPSHOTS, ids=name_of)
def test_a_whole_recording_follows_from_its_requests(path):
    outcome = replay_exactly(load(path), device_total=TOTAL.get(name_of(path), 8 * GIB))
    assert outcome.difference is None
    assert outcome.compared["trace entries"] == len(entries_of(load(path)))


@pytest.mark.parametrize("path", SNAPSHOTS, ids=name_of)
@pytest.mark.parametrize("part", [0.2, 0.6])
def test_a_recording_that_begins_in_the_middle(path, part):
    snapshot = load(path)
    entries = entries_of(snapshot)
    snapshot["device_traces"] = [entries[int(part * len(entries)) :]]
    outcome = replay_exactly(snapshot, device_total=TOTAL.get(name_of(path), 8 * GIB))
    assert outcome.difference is None


def test_a_changed_address_is_noticed():
    snapshot = load(SNAPSHOTS[2])
    changed = next(e for e in entries_of(snapshot)[200:] if e["action"] == "alloc")
    changed["addr"] += 512
    assert "recorded" in replay_exactly(snapshot).difference


def test_undoing_the_whole_trace_leaves_nothing():
    for path in SNAPSHOTS:
        assert segments_before(load(path)) == []


def test_a_cure_for_fragmentation_shows():
    snapshot = load(FIXTURES / "snapshots" / "infer_growing.pickle.gz")
    as_it_was = replay(snapshot, device_total=320 * MIB)
    cured = replay(snapshot, "expandable_segments:True", device_total=320 * MIB)
    assert as_it_was.ran_out_at == len(entries_of(snapshot)) - 1 - sum(
        entry["action"] != "oom" for entry in entries_of(snapshot)[-3:]
    )
    assert cured.ran_out is None
    assert cured.fragmentation < as_it_was.fragmentation
    assert cured.peak_reserved < as_it_was.peak_reserved


def test_without_a_size_the_device_never_runs_out():
    snapshot = load(FIXTURES / "snapshots" / "infer_growing.pickle.gz")
    assert replay(snapshot).ran_out is None


def test_the_replay_of_our_own_recording():
    device = SimulatedDevice(GIB)
    allocator = CachingAllocator(device)
    allocator.record_memory_history("all", None)
    kept = allocator.malloc(3 * MIB)
    dropped = allocator.malloc(5 * MIB)
    allocator.record_stream(dropped, 4)
    allocator.free(dropped)
    allocator.malloc(700)
    allocator.empty_cache()
    with_pool = allocator.private_pools.create()
    allocator.private_pools.begin(with_pool)
    allocator.malloc(100)
    allocator.private_pools.end(with_pool)
    allocator.free(kept)
    allocator.empty_cache()
    assert replay_exactly(allocator.snapshot()).difference is None
    kinds = [request.kind for request in requests(entries_of(allocator.snapshot()))]
    assert kinds == [
        "malloc", "malloc", "free", "malloc", "complete", "malloc", "free", "empty_cache",
    ]  # fmt: skip


def test_an_empty_cache_before_a_request_that_grows():
    """Releases before growth look like a retry; a cached block that fits gives them away."""
    allocator = CachingAllocator(SimulatedDevice(GIB))
    allocator.record_memory_history("all", None)
    allocator.free(allocator.malloc(30 * MIB))
    allocator.snapshot()  # an entry between, which shifts the numbers
    allocator.empty_cache()
    allocator.malloc(25 * MIB)
    snapshot = allocator.snapshot()
    assert replay_exactly(snapshot).difference is None
    assert explicit_releases(snapshot) == {5}
    assert replay(snapshot).device_frees == 1


def test_a_retry_before_growth_is_not_an_empty_cache():
    allocator = CachingAllocator(SimulatedDevice(64 * MIB))
    allocator.record_memory_history("all", None)
    allocator.free(allocator.malloc(30 * MIB))
    allocator.malloc(40 * MIB)
    snapshot = allocator.snapshot()
    assert replay_exactly(snapshot).difference is None
    assert explicit_releases(snapshot) == set()
    assert replay(snapshot).device_frees == 0


@pytest.mark.parametrize("last", ["segment_free", "free_completed"])
def test_a_trace_that_ends_while_a_request_grows_is_read_to_its_end(last):
    entries = [
        {"action": last, "addr": 1 << 40, "size": 2 * MIB, "stream": 0},
        {"action": "segment_alloc", "addr": 1 << 41, "size": 2 * MIB, "stream": 0},
    ]
    kinds = [request.kind for request in requests(entries, {1 << 40})]
    assert kinds == [{"segment_free": "empty_cache", "free_completed": "complete"}[last]]


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("h[12]00/*.gz")), ids=name_of)
def test_recordings_of_a_real_card(path):
    """Two cards under torch 2.11, streams held back, 2 % of the memory: nothing simulated."""
    described = json.loads((path.parent / "summary.json").read_text())["snapshots"]
    about = next(row for row in described if row["file"] == path.name)
    outcome = replay_exactly(
        load(path),
        device_total=about["device_total_bytes"],
        memory_fraction=about["memory_fraction"],
    )
    assert outcome.difference is None
    assert outcome.compared["trace entries"] == about["trace_entries"]


class DownwardDevice(SimulatedDevice):
    """Each segment lies below the one before, so that age and address disagree."""

    def __init__(self, total):
        super().__init__(total)
        self.lowest, self.behind = 1 << 46, {}

    def malloc(self, size):
        address = super().malloc(size)
        if address is None:
            return None
        self.lowest -= size
        self.behind[self.lowest] = address
        return self.lowest

    def free(self, address):
        super().free(self.behind.pop(address))


@pytest.mark.parametrize("by_birth", [True, False])
def test_the_order_of_ties_is_found_in_the_recording(by_birth):
    device = DownwardDevice(GIB)
    allocator = CachingAllocator(device, orders_by_birth=by_birth)
    allocator.record_memory_history("all", None)
    for _ in range(3):
        held = [allocator.malloc(30 * MIB) for _ in range(4)]
        for address in held:
            allocator.free(address)
    snapshot = allocator.snapshot()
    first, again = (
        [e["addr"] for e in entries_of(snapshot) if e["action"] == "alloc"][i] for i in (0, 4)
    )
    assert (first == again) == by_birth
    assert replay_exactly(snapshot).difference is None
    assert replay_exactly(snapshot, orders_by_birth=by_birth).difference is None
    assert replay_exactly(snapshot, orders_by_birth=not by_birth).difference is not None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("by_birth", [True, False])
def test_random_programs_tell_their_order(by_birth, seed):
    rng = random.Random(seed)
    allocator = CachingAllocator(DownwardDevice(4 * GIB), orders_by_birth=by_birth)
    allocator.record_memory_history("all", None)
    alive = []
    for _ in range(600):
        if alive and rng.random() < 0.48:
            allocator.free(alive.pop(rng.randrange(len(alive))))
        else:
            alive.append(allocator.malloc(rng.choice([700, 90_000, 3 * MIB, 12 * MIB, 30 * MIB])))
    assert replay_exactly(allocator.snapshot()).difference is None


def with_a_tail_from_before_the_trace():
    """A block that kept 983,040 bytes too few to split off, its neighbour freed: all before."""
    allocator = CachingAllocator(SimulatedDevice(GIB))
    first, neighbour = allocator.malloc(4 * MIB), allocator.malloc(3 * MIB)
    allocator.free(first)
    kept = allocator.malloc(4 * MIB - 983_040)
    assert kept == first
    allocator.free(neighbour)
    allocator.record_memory_history("all", None)
    return allocator, kept


def test_a_tail_from_before_the_trace_is_found_by_what_starts_behind_it():
    allocator, kept = with_a_tail_from_before_the_trace()
    behind = allocator.malloc(2 * MIB)
    assert behind == kept + 4 * MIB
    allocator.free(kept)
    allocator.malloc(MIB + 512)
    snapshot = allocator.snapshot()
    block = segments_before(snapshot)[0]["blocks"][0]
    assert (block["address"], block["size"]) == (kept, 4 * MIB)
    assert replay_exactly(snapshot).difference is None


def test_what_starts_there_after_the_block_is_gone_says_nothing():
    allocator, kept = with_a_tail_from_before_the_trace()
    allocator.free(kept)
    allocator.malloc(3 * MIB + 512)
    assert allocator.malloc(2 * MIB) == kept + 3 * MIB + 512
    block = segments_before(allocator.snapshot())[0]["blocks"][0]
    assert block["size"] == 4 * MIB - 983_040


def test_a_device_that_was_not_recorded_is_refused():
    with pytest.raises(ValueError, match="traces of 1 devices, not of 3"):
        replay(load(SNAPSHOTS[0]), device=3)


def test_a_restored_pool_reserves_all_its_growing_segments():
    def growing(address):
        block = {"address": address, "size": 20 * MIB, "requested_size": 0, "state": "inactive"}
        return {
            "address": address, "total_size": 20 * MIB, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 7), "is_expandable": True, "blocks": [block],
        }  # fmt: skip

    allocator = CachingAllocator(SimulatedDevice(GIB))
    base = 0x7F0000000000
    restore(allocator, [growing(base), growing(base + 40 * MIB)])
    assert allocator.private_pools[0, 7].reserved_bytes == 40 * MIB == allocator.reserved_bytes
