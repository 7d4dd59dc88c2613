"""A model on one item at a time, computed in batches."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map


def in_batches(
    model: nn.Module, items: Iterable[Tensor], size: int, pad: bool = False
) -> Iterator[Any]:
    """What the model makes of each item, in order, asked for `size` of them at once.

    The model is in eval mode while it computes, so no item changes what comes of another one, and
    is as before when a result comes out. A result has the model's structure, without the batch.

    pad  the last batch is filled up with copies of its last item, for a model that takes one size

    Raises   ValueError   a batch has at least one item
    """
    if size < 1:
        raise ValueError(f"a batch has at least one item, got {size}")
    rest = iter(items)
    while batch := list(islice(rest, size)):
        filled = batch + batch[-1:] * (size - len(batch)) if pad else batch
        with _evaluating(model), torch.inference_mode():
            together = model(torch.stack(filled))
        for at in range(len(batch)):
            yield tree_map(lambda tensor, at=at: tensor[at], together)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Every part of the model is in eval mode, and afterwards in the mode that it had."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
