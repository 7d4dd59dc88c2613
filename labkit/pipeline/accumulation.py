"""One optimizer step for several batches: their gradients add up to those of a large batch."""

import itertools
from collections.abc import Callable, Iterable
from typing import TypeVar

from torch import Tensor
from torch.optim import Optimizer

Batch = TypeVar("Batch")


def accumulate(
    loss_of: Callable[[Batch], Tensor], optimizer: Optimizer, batches: Iterable[Batch], k: int
) -> int:
    """The weights after one step per k batches, the last group may be smaller; returns the steps.

    Each loss is divided by the number of batches in its group. Where every loss is a mean over as
    many samples, the weights are those of a loop over batches k times as large.

    Raises   ValueError   k is below 1
    """
    if k < 1:
        raise ValueError(f"a group has at least one batch, got k={k}")
    left, steps = iter(batches), 0
    while group := list(itertools.islice(left, k)):
        optimizer.zero_grad()
        for batch in group:
            (loss_of(batch) / len(group)).backward()
        optimizer.step()
        steps += 1
    return steps
