"""Accumulated gradients take the steps of large batches."""

import pytest
import torch
from torch import nn

from labkit.pipeline.accumulation import accumulate


def weights_after(train, seed):
    torch.manual_seed(seed)
    model = nn.Linear(3, 2).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x, y = torch.randn(14, 3).double(), torch.randn(14, 2).double()
    train(lambda batch: nn.functional.mse_loss(model(batch[0]), batch[1]), optimizer, x, y)
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("k", [1, 2, 3, 7, 10])
def test_the_weights_are_those_of_large_batches(k):
    def in_small_ones(loss_of, optimizer, x, y):
        small = list(zip(x.split(2), y.split(2), strict=True))
        assert accumulate(loss_of, optimizer, iter(small), k) == -(-len(small) // k)

    def in_large_ones(loss_of, optimizer, x, y):
        for batch in zip(x.split(2 * k), y.split(2 * k), strict=True):
            optimizer.zero_grad()
            loss_of(batch).backward()
            optimizer.step()

    expected = weights_after(in_large_ones, k)
    torch.testing.assert_close(weights_after(in_small_ones, k), expected, rtol=1e-12, atol=1e-12)


def test_no_batches_are_no_steps():
    assert accumulate(lambda batch: batch, None, [], 3) == 0


def test_a_group_of_nothing_is_refused():
    with pytest.raises(ValueError, match="k=0"):
        accumulate(lambda batch: batch, None, [], 0)
