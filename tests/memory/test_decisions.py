"""The log says what was looked at, why it was rejected, and what became of it."""

import pytest

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.decisions import RULES, VERDICTS
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.replay.recording import ProgramRun
from labkit.memory.sizes import GIB, MIB
from tests.memory.mutation import recording


def explained(settings="", total=GIB):
    allocator = CachingAllocator(SimulatedDevice(total), settings)
    allocator.record_memory_history("all", None)
    allocator.explain()
    return allocator


def verdicts(allocator):
    return [c["verdict"] for c in allocator.decisions.entries[-1]["candidates"]]


def test_a_tie_between_segments():
    allocator = explained()
    older, younger = allocator.malloc(12 * MIB), allocator.malloc(12 * MIB)
    allocator.free(older)
    allocator.free(younger)
    assert allocator.malloc(12 * MIB) == older
    entry = allocator.decisions.entries[-1]
    assert entry["rule"] == "best_fit"
    assert verdicts(allocator) == ["chosen", "younger_segment"]
    assert entry["split_at"] is None


def test_every_reason_for_a_rejection():
    allocator = explained("max_split_size_mb:20")
    sizes = [30 * MIB, 5 * MIB, 3 * MIB, 2 * MIB]
    blocks = [allocator.malloc(size) for size in sizes]
    walls = [allocator.malloc(2 * MIB) for _ in range(3)]
    other = allocator.malloc(4 * MIB, 9)
    for address in [blocks[0], blocks[2], other]:
        allocator.free(address)
    allocator.record_stream(blocks[1], 9)
    allocator.free(blocks[1])
    allocator.malloc(2 * MIB + 512)
    assert set(verdicts(allocator)) == {"pending", "chosen", "larger", "oversize", "other_stream"}
    assert walls


def test_the_split_is_told():
    allocator = explained()
    address = allocator.malloc(1000)
    entry = allocator.decisions.entries[-1]
    assert (entry["rule"], entry["chosen"]) == ("new_segment", address)
    assert (entry["split_at"], entry["rest"]) == (address + 1024, 2 * MIB - 1024)
    assert "1000 bytes are rounded to 1024 bytes" in entry["why"]


def test_a_size_is_told_as_a_round_number_only_where_it_is_one():
    allocator = explained()
    allocator.malloc(MIB + 1)
    assert "1048577 bytes are rounded to 1024.50 KiB" in allocator.decisions.entries[-1]["why"]


def test_running_out_is_told_with_what_was_left():
    allocator = explained(total=32 * MIB)
    allocator.malloc(20 * MIB)
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(20 * MIB)
    assert "12.00 MiB free for a segment of 20.00 MiB" in allocator.decisions.entries[-1]["why"]


def test_frees_say_what_they_joined():
    allocator = explained()
    first, second = allocator.malloc(2 * MIB), allocator.malloc(2 * MIB)
    allocator.free(first)
    allocator.free(second)
    allocator.empty_cache()
    assert [e["rule"] for e in allocator.decisions.entries[2:]] == [
        "not_joined", "whole_segment", "emptied",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "configuration", ["tutorial", "mixed", "expandable_gc", "pools", "streams"]
)
def test_explaining_changes_nothing_and_covers_every_entry(configuration):
    data = recording(configuration)
    for program in data["programs"][:6]:
        run = ProgramRun(data, program)
        run.allocator.explain()
        for operation, expected in zip(program["ops"], program["expect"], strict=True):
            assert run.run(operation).get("addr") == expected.get("addr")
        entries = run.allocator.decisions.entries
        ends = [0, *(entry["events"][1] for entry in entries)]
        assert all(e["events"][0] == end for e, end in zip(entries, ends, strict=False))
        assert ends[-1] == run.allocator.history.total
        for entry in entries:
            assert entry["rule"] in RULES
            for candidate in entry.get("candidates", []):
                assert candidate["verdict"] in VERDICTS
                assert (candidate["verdict"] == "chosen") == (
                    entry["rule"] == "best_fit" and candidate["address"] == entry["chosen"]
                )


def test_only_the_nearest_candidates_are_kept_when_asked():
    allocator = CachingAllocator(SimulatedDevice(GIB))
    allocator.explain(most_candidates=3)
    blocks = [allocator.malloc(512 * (i + 1)) for i in range(40)]
    for address in blocks[::2]:
        allocator.free(address)
    allocator.malloc(512 * 21)
    entry = allocator.decisions.entries[-1]
    assert len(entry["candidates"]) == 3
    assert "chosen" in [candidate["verdict"] for candidate in entry["candidates"]]
