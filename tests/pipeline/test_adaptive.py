"""Adaptive batches: every item once and in order, an end always, few attempts that fail."""

import weakref

import pytest
import torch

from labkit.pipeline.adaptive import adaptive


class Device:
    """Room for `room(attempt)` items at once."""

    def __init__(self, room):
        self.room = room if callable(room) else lambda attempt: room
        self.sizes, self.failed = [], 0

    def run(self, batch):
        self.sizes.append(len(batch))
        if len(batch) > self.room(len(self.sizes)):
            self.failed += 1
            raise torch.OutOfMemoryError(f"no room for {len(batch)}")
        return [10 * item for item in batch]


@pytest.mark.parametrize("room", [1, 2, 3, 5, 8, 13, 100, 1000])
@pytest.mark.parametrize("count", [0, 1, 7, 500])
def test_every_item_comes_once_and_in_order(room, count):
    device = Device(room)
    assert list(adaptive(device.run, list(range(count)))) == [10 * n for n in range(count)]
    assert device.failed <= 2 * room.bit_length() + count // 64


@pytest.mark.parametrize("room", [5, 13, 37, 100])
def test_most_items_go_through_in_the_largest_batches(room):
    device = Device(room)
    list(adaptive(device.run, range(500 * room)))
    assert len(device.sizes) <= 500 / 0.95


def test_it_ends_when_a_single_item_does_not_fit():
    device = Device(lambda attempt: 4 if attempt < 5 else 0)
    found = []
    with pytest.raises(torch.OutOfMemoryError, match="no room for 1"):
        for result in adaptive(device.run, range(100)):
            found.append(result)
    assert found == [10 * n for n in range(len(found))]
    assert len(device.sizes) < 20
    with pytest.raises(torch.OutOfMemoryError):
        list(adaptive(Device(0).run, [1]))


def test_it_follows_a_limit_that_moves():
    device = Device(lambda attempt: 8 if attempt < 50 else 3 if attempt < 100 else 40)
    assert list(adaptive(device.run, range(5000))) == [10 * n for n in range(5000)]
    assert max(device.sizes[55:100]) <= 16
    assert device.sizes[-10] > 30


def test_other_errors_are_not_taken_for_a_full_device():
    def buggy(batch):
        raise RuntimeError("CUDA error: out of memory is what this is not")

    with pytest.raises(RuntimeError, match="what this is not"):
        list(adaptive(buggy, range(9)))


def test_what_a_failed_attempt_held_is_gone_before_the_next():
    held = []

    def run(batch):
        assert all(one() is None for one in held)
        scratch = torch.zeros(len(batch))
        held.append(weakref.ref(scratch))
        if len(batch) > 3:
            raise torch.OutOfMemoryError("no room")
        return list(batch)

    assert [int(x) for x in adaptive(run, torch.arange(20), first=16)] == list(range(20))


def test_sizes_keep_to_the_most():
    device = Device(100)
    list(adaptive(device.run, range(200), first=2, most=8))
    assert set(device.sizes) == {2, 4, 8}
    with pytest.raises(ValueError, match="got 5 and 2"):
        next(adaptive(device.run, [1], first=5, most=2))
