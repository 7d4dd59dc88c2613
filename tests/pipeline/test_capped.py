"""A device of a stated size: what tensors hold on it, and when it is full."""

import pytest
import torch
from torch import nn

from labkit.pipeline.batch_search import largest_batch
from labkit.pipeline.enhancer import Enhancer
from labkit.pipeline.memory.capped import CappedMemory, peak_of

KIB = 1 << 10


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_tensors_hold_what_they_hold_and_no_longer(device):
    with CappedMemory() as memory:
        x = torch.empty(256, device=device)
        assert memory.bytes_now == KIB
        view, y = x[10:], x + 1
        assert memory.bytes_now == 2 * KIB
        del x
        assert memory.bytes_now == 2 * KIB  # the view keeps its storage
        del view, y
        assert memory.bytes_now == 0
    assert memory.peak_bytes == 2 * KIB
    assert memory.kernels == {"empty": 1, "add": 1}


def test_what_the_graph_keeps_counts():
    x = torch.ones(256, requires_grad=True)
    with CappedMemory() as memory:
        y = x.sin().exp()
        assert memory.bytes_now == KIB  # exp keeps its result, y; sin keeps x, made before
        z = x.sin().sin()
        assert memory.bytes_now == 3 * KIB  # z, and what the outer sin was given
        del z
        assert memory.bytes_now == KIB
        loss = y.sum()
        loss.backward()
        del y, loss
        assert memory.bytes_now == KIB  # the gradient


def test_a_full_device_says_so_and_has_room_again():
    with CappedMemory(64 << 20) as memory:
        first = torch.empty(10 << 20, device="meta")  # 40 MiB
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(10 << 20, device="meta")
        del first
        torch.empty(10 << 20, device="meta")
        assert memory.bytes_now == 0


def test_what_was_there_before_counts_when_it_is_named():
    model = nn.Linear(16, 16, bias=False)
    model(torch.ones(1, 16)).sum().backward()
    with CappedMemory() as memory:
        memory.hold(model, model.weight)
    assert memory.bytes_now == 2 * KIB  # the weight and its gradient, each once


def peak(batch, training):
    model = Enhancer(4).to("meta")

    def work():
        with torch.set_grad_enabled(training):
            out = model(torch.empty(batch, 3, 24, 32, device="meta"))
            if training:
                out.sum().backward()

    return peak_of(work, model)


@pytest.mark.parametrize("training", [False, True])
def test_meta_tensors_need_what_real_ones_need(training):
    model = Enhancer(4)

    def work():
        with torch.set_grad_enabled(training):
            out = model(torch.empty(3, 3, 24, 32))
            if training:
                out.sum().backward()

    assert peak_of(work, model) == peak(3, training)
    assert peak(3, training) < peak(4, training)


def test_training_needs_more_than_inference():
    assert peak(3, training=True) > 1.4 * peak(3, training=False)


@pytest.mark.parametrize("room", [0, 1, 2, 3, 7, 8, 9, 1000])
def test_the_search_finds_the_largest_batch_in_few_trials(room):
    trials = []

    def work(batch):
        trials.append(batch)
        if batch > room:
            raise torch.OutOfMemoryError

    assert largest_batch(work) == (room or None)
    assert len(trials) == len(set(trials)) <= 2 * room.bit_length() + 1
    assert largest_batch(work, most=5) == (min(room, 5) or None)


def test_the_search_agrees_with_trying_them_all():
    capacity = 1 << 21
    model = Enhancer(4).to("meta")

    def work(batch):
        with torch.no_grad():
            peak_of(
                lambda: model(torch.empty(batch, 3, 24, 32, device="meta")),
                model,
                capacity=capacity,
            )

    found = largest_batch(work)
    fits = [batch for batch in range(1, 2 * found) if largest_batch_is_at_least(work, batch)]
    assert fits == list(range(1, found + 1))


def largest_batch_is_at_least(work, batch):
    try:
        work(batch)
    except torch.OutOfMemoryError:
        return False
    return True


def test_another_error_is_the_callers():
    def work(batch):
        torch.ones(2, 3) @ torch.ones(2, 3)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        largest_batch(work)
    with pytest.raises(ValueError, match="most is at least 1, got 0"):
        largest_batch(work, most=0)
