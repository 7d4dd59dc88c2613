"""The plan is the cheapest there is, and a model that follows it saves what the plan says."""

import itertools
import random

import pytest
import torch
from torch import nn

from labkit.pipeline.memory.checkpointing import (
    Checkpointed,
    DoesNotFit,
    Layer,
    Part,
    measured,
    plan,
    saved_bytes,
)


def peak(layers, parts):
    """The most bytes at one time, followed step by step through forward and backward."""
    kept, most = [], 0
    for part in parts:
        inside = sum(layer.saved for layer in layers[part.start : part.end])
        kept.append(layers[part.start].entry if part.again else inside)
        most = max(most, sum(kept))
    for part in reversed(parts):
        inside = sum(layer.saved for layer in layers[part.start : part.end])
        most = max(most, sum(kept) + (inside if part.again else 0))
        kept.pop()
    return most


def work(layers, parts):
    return sum(
        sum(layer.work for layer in layers[part.start : part.end]) for part in parts if part.again
    )


def every_plan(count):
    for size in range(1, count + 1):
        for cuts in itertools.combinations(range(1, count), size - 1):
            ends = list(itertools.pairwise((0, *cuts, count)))
            for again in itertools.product((False, True), repeat=size):
                yield [Part(*pair, one) for pair, one in zip(ends, again, strict=True)]


def test_no_plan_is_cheaper():
    for seed in range(40):
        rng = random.Random(seed)
        layers = [
            Layer(rng.randint(1, 30), rng.randint(1, 10), rng.randint(1, 20))
            for _ in range(rng.randint(1, 5))
        ]
        budget = rng.randint(5, 80)
        fitting = [p for p in every_plan(len(layers)) if peak(layers, p) <= budget]
        if not fitting:
            with pytest.raises(DoesNotFit):
                plan(layers, budget)
            continue
        found = plan(layers, budget)
        assert peak(layers, found) <= budget, seed
        assert work(layers, found) == min(work(layers, p) for p in fitting), seed


def test_with_room_for_all_nothing_is_computed_again():
    layers = [Layer(10, 5, 3)] * 40
    assert not any(part.again for part in plan(layers, 400))
    assert any(part.again for part in plan(layers, 399))


def chain(depth=8):
    torch.manual_seed(0)
    parts = [[nn.Conv2d(8, 8, 3, padding=1), nn.Tanh()] for _ in range(depth)]
    return nn.Sequential(*itertools.chain(*parts))


def test_a_model_saves_what_the_plan_says():
    model, x = chain(), torch.randn(2, 8, 12, 12)
    costs = measured(model, x)
    all_of_it = sum(layer.saved for layer in costs)
    parts = plan(costs, all_of_it * 7 // 10)
    assert any(part.again for part in parts) and not all(part.again for part in parts)
    x.requires_grad_()
    said = sum(costs[part.start].entry if part.again else costs[part.start].saved for part in parts)
    found, y = saved_bytes(Checkpointed(model, parts), x)
    assert found == pytest.approx(said, rel=0.05)
    assert saved_bytes(model, x)[0] == pytest.approx(all_of_it, rel=0.05)
    right = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
    mine = torch.autograd.grad(y.square().sum(), [x, *model.parameters()])
    for one, other in zip(mine, right, strict=True):
        torch.testing.assert_close(one, other)
