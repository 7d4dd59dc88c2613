"""A model in batches says what it says one item at a time, and is left as it was."""

import pytest
import torch
from torch import nn

from labkit.pipeline.batches import in_batches


class Two(nn.Module):
    """Gives a dict, and notes the sizes it is asked for."""

    def __init__(self):
        super().__init__()
        self.norm, self.sizes = nn.BatchNorm1d(3), []

    def forward(self, x):
        self.sizes.append(len(x))
        return {"twice": 2 * self.norm(x), "sums": [x.sum(1)]}


@pytest.mark.parametrize(("pad", "sizes"), [(False, [4, 4, 2]), (True, [4, 4, 4])])
def test_results_are_those_of_single_items(pad, sizes):
    torch.manual_seed(0)
    model, items = Two(), list(torch.randn(10, 3))
    found = list(in_batches(model, items, 4, pad))
    assert model.sizes == sizes
    model.eval()
    for one, item in zip(found, items, strict=True):
        alone = model(item[None])
        torch.testing.assert_close(one["twice"], alone["twice"][0])
        torch.testing.assert_close(one["sums"][0], alone["sums"][0][0])


def test_the_model_learns_nothing_and_keeps_its_modes():
    model = Two()
    model.norm.eval()  # a part that is frozen
    before = model.norm.running_mean.clone()
    for result in in_batches(model, iter(torch.randn(5, 3)), 2, pad=True):
        assert (model.training, model.norm.training) == (True, False)
        assert not result["twice"].requires_grad
    assert torch.equal(model.norm.running_mean, before)


def test_items_are_taken_batch_by_batch():
    taken = []
    items = (taken.append(n) or torch.randn(3) for n in range(10))
    next(in_batches(Two(), items, 4))
    assert taken == [0, 1, 2, 3]


def test_an_error_leaves_the_model_as_it_was():
    model = nn.Linear(3, 1)
    with pytest.raises(RuntimeError):
        list(in_batches(model, [torch.randn(4)], 2))
    assert model.training
    assert list(in_batches(model, [], 2)) == []
    with pytest.raises(ValueError, match="at least one item, got 0"):
        next(in_batches(model, [], 0))
