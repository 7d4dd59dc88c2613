"""Settings strings: recorded readings, refusals, and what survives the next string."""

import pytest

from labkit.conformance.allocator_settings import compare_installed, compare_recorded
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.settings import UNLIMITED, AllocatorSettings
from labkit.memory.sizes import GIB, MIB, division_class, round_size, segment_size
from tests.memory.mutation import recording

parse = AllocatorSettings.parse


def test_recorded_strings_and_sizes():
    for comparison in compare_recorded(recording("settings_and_sizes")):
        assert comparison.passed, comparison


@pytest.mark.parametrize("seed", range(3))
def test_the_installed_parser_agrees(seed):
    for comparison in compare_installed(seed, 400):  # none where another release is installed
        assert comparison.passed, comparison


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("max_split_size_mb:19", ValueError, "must be >= 20, got 19"),
        ("large_segment_size_mb:10", ValueError, "must be > 10 MB, got 10"),
        ("max_split_size_mb:abc", ValueError, "'abc'"),
        ("max_split_size_mb", RuntimeError, "wanted token 2 of 1"),
        ("max_split_size_mb:99999999999999999999", IndexError, "64 bits"),
        ("garbage_collection_threshold:2", ValueError, "got 2.0"),
        ("roundup_power2_divisions:[1:3]", ValueError, "got 3"),
        ("roundup_power2_divisions:[1:2", RuntimeError, "closing bracket"),
        ("expandable_segments:yes", ValueError, "'yes'"),
        ("backend:other", ValueError, "'other'"),
        ("per_process_memory_fraction:1.5", ValueError, "got 1.5"),
        ("nonsense:1", ValueError, "Unrecognized key 'nonsense'"),
    ],
)
def test_a_bad_string_is_refused_with_its_value(text, error, words):
    with pytest.raises(error) as caught:
        parse(text)
    assert words in str(caught.value)


def test_settings_are_text():
    with pytest.raises(TypeError, match="NoneType"):
        parse(None)


def test_a_refused_string_changes_nothing():
    allocator = CachingAllocator(SimulatedDevice(GIB), "max_split_size_mb:40")
    with pytest.raises(ValueError, match="Unrecognized"):
        allocator.apply_settings("garbage_collection_threshold:0.5,nonsense:1")
    assert allocator.settings == parse("max_split_size_mb:40")


def test_what_the_next_string_keeps():
    settings = parse("expandable_segments:True,large_segment_size_mb:32,max_split_size_mb:40")
    after = parse("garbage_collection_threshold:0.5", settings)
    assert after.expandable_segments
    assert after.large_segment_size == after.max_non_split_rounding_size == 32 * MIB
    assert after.max_split_size == UNLIMITED


def test_the_fraction_of_the_settings_is_a_limit():
    allocator = CachingAllocator(SimulatedDevice(GIB), "per_process_memory_fraction:0.25")
    assert allocator.reserved.limit == 256 * MIB


def test_growing_segments_switched_off_no_longer_serve():
    allocator = CachingAllocator(SimulatedDevice(GIB), "expandable_segments:True")
    allocator.free(allocator.malloc(3 * MIB))
    allocator.apply_settings("expandable_segments:False")
    allocator.malloc(3 * MIB)
    assert [s["is_expandable"] for s in allocator.memory_map()] == [False, True]


@pytest.mark.parametrize(
    ("size", "expected"), [(1, 0), (MIB, 0), (2 * MIB - 1, 0), (2 * MIB, 1), (2**60, 15)]
)
def test_division_class(size, expected):
    assert division_class(size) == expected


@pytest.mark.parametrize(
    ("size", "block", "segment"),
    [(1, 512, 2 * MIB), (MIB, MIB, 2 * MIB), (MIB + 1, MIB + 512, 20 * MIB),
     (10 * MIB - 1, 10 * MIB, 10 * MIB), (20 * MIB + 1, 20 * MIB + 512, 22 * MIB)],
)  # fmt: skip
def test_block_and_segment_sizes(size, block, segment):
    assert round_size(size) == block
    assert segment_size(round_size(size)) == segment
