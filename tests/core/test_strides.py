import math
import random

import pytest
import torch

from labkit.core import memory_format as formats
from labkit.core import strides as rules
from labkit.core.memory_format import MemoryFormat


def random_geometry(r, ndim=None):
    sizes = [r.choice((0, 1, 1, 2, 3, 4)) for _ in range(r.randrange(6) if ndim is None else ndim)]
    if r.random() < 0.5:
        order = list(range(len(sizes)))
        r.shuffle(order)
        strides, step = [0] * len(sizes), 1
        for dim in order:
            strides[dim] = step
            step *= r.choice((sizes[dim], max(sizes[dim], 1), sizes[dim] + 1))
    else:
        strides = [r.choice((0, 1, 2, 3, 4, 6, 12)) for _ in sizes]
    return tuple(sizes), tuple(strides)


def torch_like(sizes, strides):
    return torch.empty_strided(sizes, strides)  # not on meta: its empty_like is only approximate


def test_contiguity_in_every_format_is_torchs():
    r = random.Random(1)
    for _ in range(4000):
        sizes, strides = random_geometry(r, r.choice((None, 4, 5)))
        theirs = torch_like(sizes, strides)
        assert formats.is_contiguous(sizes, strides) == theirs.is_contiguous()
        for ndim, name in ((4, "channels_last"), (5, "channels_last_3d")):
            if len(sizes) == ndim:
                expected = theirs.is_contiguous(memory_format=getattr(torch, name))
                assert formats.is_channels_last_contiguous(sizes, strides) == expected


def test_like_tensors_preserve_the_order_of_dimensions_as_torch_does():
    r = random.Random(2)
    for _ in range(4000):
        sizes, strides = random_geometry(r, r.choice((None, 4)))
        dense = rules.is_non_overlapping_and_dense(sizes, strides)
        ours = strides if dense else rules.infer_dense_strides(sizes, strides)
        assert ours == torch.empty_like(torch_like(sizes, strides)).stride()


def test_a_view_exists_exactly_when_torch_finds_one():
    r = random.Random(3)
    found = 0
    for _ in range(4000):
        sizes, strides = random_geometry(r)
        theirs = torch_like(sizes, strides)
        shape = r.choice(((-1,), (2, -1), (1, -1, 1), (3, 2, -1), tuple(sizes[::-1]), (4, 6)))
        try:
            expected = theirs.view(shape).stride()
        except RuntimeError:
            expected = None
        try:
            inferred = rules.infer_size(shape, math.prod(sizes))
            ours = rules.compute_view_strides(sizes, strides, inferred)
        except RuntimeError:
            ours = None
        found += ours is not None
        assert ours == expected, (sizes, strides, shape)
    assert found > 500


def test_broadcasting_answers_and_refuses_in_torchs_words():
    r = random.Random(4)
    for _ in range(3000):
        shapes = [tuple(r.choice((0, 1, 1, 2, 3)) for _ in range(r.randrange(4))) for _ in "ab"]
        try:
            expected = str(tuple((torch.empty(shapes[0]) + torch.empty(shapes[1])).shape))
        except RuntimeError as error:
            expected = str(error)
        try:
            ours = str(rules.broadcast_shapes(*shapes))
        except RuntimeError as error:
            ours = str(error)
        assert ours == expected


@pytest.mark.parametrize(
    ("sizes", "strides", "offset", "words"),
    [
        ((3,), (2,), 0, "requiring a storage size of 20 are out of bounds for storage of size 16"),
        ((2,), (-1,), 1, "Negative strides"),
        ((2,), (1,), -1, "invalid storage offset -1"),
        ((-2,), (1,), 0, "must not be negative"),
        ((2,), (1 << 62,), 0, "overflowed"),
    ],
)
def test_what_lies_outside_the_storage_is_refused_with_the_values(sizes, strides, offset, words):
    with pytest.raises(RuntimeError, match=words):
        rules.check_in_bounds(sizes, strides, offset, itemsize=4, nbytes=16)


def test_an_empty_tensor_fits_any_storage():
    rules.check_in_bounds((0, 9), (100, 100), 50, itemsize=4, nbytes=0)


def test_a_format_for_another_rank_is_refused():
    with pytest.raises(RuntimeError, match="rank 4"):
        formats.strides_for((2, 3), MemoryFormat.channels_last)
    with pytest.raises(RuntimeError, match="preserve_format"):
        formats.strides_for((2, 3), MemoryFormat.preserve_format)
