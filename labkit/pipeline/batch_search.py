"""The largest batch that fits, found in a few trials."""

from collections.abc import Callable

import torch


def largest_batch(work: Callable[[int], object], most: int | None = None) -> int | None:
    """The largest batch for which `work(batch)` does not run out of memory; None: not even 1 does.

    First the batch doubles until it no longer fits, then the gap between the two is halved. Only
    running out of memory counts as too large: every other error is the caller's to see. `work`
    does the whole of what will be done later, a training step where one will train.

    most   no larger batch is tried

    Raises   ValueError   `most` is below 1
    """
    if most is not None and most < 1:
        raise ValueError(f"most is at least 1, got {most}")
    fits, too_large = 0, None
    while too_large is None:
        batch = max(2 * fits, 1) if most is None else min(max(2 * fits, 1), most)
        if _fits(work, batch):
            fits = batch
            if batch == most:
                return fits
        else:
            too_large = batch
    while too_large - fits > 1:
        batch = (fits + too_large) // 2
        if _fits(work, batch):
            fits = batch
        else:
            too_large = batch
    return fits or None


def _fits(work: Callable[[int], object], batch: int) -> bool:
    try:
        work(batch)
    except torch.OutOfMemoryError:
        fits = False  # outside of this block the error and its frames, with their tensors, are gone
    else:
        fits = True
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return fits
