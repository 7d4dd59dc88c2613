"""The prefetcher: every batch once and in order, right in every order of the queues."""

import numpy as np
import pytest
import torch

from labkit.pipeline.upload import Prefetcher, Uploader
from tests.torch_device.apart import apart


@pytest.mark.parametrize("depth", [1, 2, 5, 50])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_batch_comes_once_and_in_order(depth, count):
    batches = [torch.full((2,), n) for n in range(count)]
    ahead = Prefetcher(batches, "cpu", depth)
    assert len(ahead) == count
    for _ in range(2):  # a second epoch as well
        assert [batch.tolist() for batch in ahead] == [batch.tolist() for batch in batches]


def test_so_many_batches_are_asked_for_ahead():
    asked = []
    ahead = iter(Prefetcher((asked.append(n) or torch.tensor(n) for n in range(9)), "cpu", 3))
    assert next(ahead).item() == 0
    assert asked == [0, 1, 2, 3]
    next(ahead)
    assert asked == [0, 1, 2, 3, 4]


def test_a_batch_keeps_its_structure():
    batch = {"pixels": torch.ones(2), "names": ["a", "b"], "boxes": [(torch.zeros(1), 3)]}
    (found,) = Prefetcher([batch], "cpu")
    assert (found["names"], found["boxes"][0][1]) == (["a", "b"], 3)
    assert torch.equal(found["pixels"], batch["pixels"])


def test_an_error_comes_behind_the_batches_before_it():
    def breaks():
        yield from (torch.tensor(0), torch.tensor(1))
        raise OSError("the disk is gone")

    found = []
    with pytest.raises(OSError, match="the disk is gone"):
        for batch in Prefetcher(breaks(), "cpu", depth=4):
            found.append(batch.item())
    assert found == [0, 1]


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least one batch is copied ahead, got 0"):
        Prefetcher([], "cpu", 0)
    with pytest.raises(TypeError):
        len(Prefetcher(iter([]), "cpu"))


@apart
def test_it_is_right_in_every_order_of_the_queues():
    """Batches are dropped while the kernels that read them are still queued."""
    queue = torch.lab._devices[0].driver.queue
    batches = [torch.full((1_000,), float(n)).pin_memory() for n in range(5)]
    for seed in range(64):
        queue.reseed(seed)
        doubled = []
        for batch in Prefetcher(batches, "lab", depth=1 + seed % 3):
            doubled.append(batch * 2)
            del batch
        assert [one[0].item() for one in doubled] == [0, 2, 4, 6, 8], seed


def test_an_uploaded_array_may_be_changed_at_once():
    uploader, array = Uploader("cpu"), np.ones(3, np.uint8)
    there = uploader.put(array)
    array[:] = 9
    assert there.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="at least one buffer, got 0"):
        Uploader("cpu", 0)


@apart
def test_uploads_are_right_in_every_order_of_the_queues():
    """The same array is refilled for each batch, and its size changes in between."""
    queue = torch.lab._devices[0].driver.queue
    for seed in range(48):
        queue.reseed(seed)
        uploader, doubled = Uploader("lab", slots=1 + seed % 3), []
        for number in range(6):
            array = np.full(1_000 if number < 4 else 500, number, np.float32)
            there = uploader.put(array)
            array[:] = -1
            doubled.append(there * 2)
            del there
        assert [set(one.tolist()) for one in doubled] == [{2.0 * n} for n in range(6)], seed
