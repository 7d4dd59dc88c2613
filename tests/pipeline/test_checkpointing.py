"""The plan is the cheapest there is, and a model that follows it saves what the plan says."""

import itertools
import random

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

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


def computed(run, x):
    """How often each layer came to its end in a step, and the gradients."""
    counts = {}
    handles = [
        layer.register_forward_hook(
            lambda *_, name=name: counts.update({name: counts.get(name, 0) + 1})
        )
        for name, layer in run.named_modules()
        if not list(layer.children())
    ]
    gradients = torch.autograd.grad(run(x).square().sum(), [x, *run.parameters()])
    for handle in handles:
        handle.remove()
    return counts, gradients


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.GELU, lambda: nn.ReLU(inplace=True)])
@pytest.mark.parametrize("second", [True, False])
def test_what_only_makes_the_next_parts_input_is_not_computed_again(activation, second):
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), activation()) for _ in range(4)]
    model, x = nn.Sequential(*blocks), torch.randn(1, 4, 9, 9, requires_grad=True)
    _, right = computed(model, x)
    run = Checkpointed(model, [Part(0, 2, True), Part(2, 4, second)])
    counts, gradients = computed(run, x)
    for one, other in zip(gradients, right, strict=True):
        assert torch.equal(one, other)
    first, last = ["layers.0.0", "layers.0.1"], ["layers.2.0", "layers.2.1", "layers.3.0"]
    if isinstance(activation(), nn.GELU):  # it keeps its input
        first += ["layers.1.0"]
    again = [name for name, count in counts.items() if count == 2]
    assert again == first + (last if second else [])


def test_the_same_bytes_are_saved_as_by_torchs_checkpoints():
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()) for _ in range(4)]
    model, x = nn.Sequential(*blocks), torch.randn(1, 4, 9, 9, requires_grad=True)
    for second in (True, False):
        run = Checkpointed(model, [Part(0, 2, True), Part(2, 4, second)])

        def torchs(x, second=second):
            y = checkpoint(model[:2], x, use_reentrant=False)
            return checkpoint(model[2:], y, use_reentrant=False) if second else model[2:](y)

        assert saved_bytes(run, x)[0] == saved_bytes(Run(model, torchs), x)[0]


class Run(nn.Module):
    def __init__(self, model, function):
        super().__init__()
        self.model, self.function = model, function

    def forward(self, x):
        return self.function(x)


def test_a_chain_with_a_hook_is_called_as_it_is():
    model, x = chain(2), torch.randn(1, 8, 4, 4, requires_grad=True)
    calls = []
    inner = nn.Sequential(nn.Conv2d(8, 8, 1), nn.Tanh())
    inner.register_forward_hook(lambda *_: calls.append(1))
    Checkpointed(nn.Sequential(inner, *model), [Part(0, 1, True), Part(1, 5, True)])(x)
    assert calls == [1]
