from labkit.core.memory_overlap import MemOverlap, has_internal_overlap


def test_a_stride_of_zero_is_overlap_and_the_rest_is_not_looked_at():
    assert has_internal_overlap((3, 2), (0, 1)) is MemOverlap.YES
    assert has_internal_overlap((3, 2), (2, 1)) is MemOverlap.NO
    assert has_internal_overlap((3, 2), (1, 1)) is MemOverlap.TOO_HARD
    assert has_internal_overlap((1, 2), (0, 1)) is MemOverlap.NO
    assert has_internal_overlap((0, 2), (0, 1)) is MemOverlap.NO
