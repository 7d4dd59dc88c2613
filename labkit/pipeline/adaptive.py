"""Batches as large as memory allows at the moment, whatever else is using it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

PATIENCE = 64
"""Batches that succeed at the largest known size before a larger one is tried again."""


class BatchSize:
    """A size that grows while it fits, remembers what did not, and looks again now and then.

    size   to be tried next; smallest that failed lately: `ceiling`, or None
    """

    def __init__(self, first: int = 1, most: int | None = None) -> None:
        if first < 1 or (most is not None and most < first):
            raise ValueError(f"sizes go from 1 on, and up to most: got {first} and {most}")
        self.size, self.most = first, most
        self.ceiling: int | None = None
        self._fits = self._calm = 0

    def succeeded(self) -> None:
        """A batch of this size fitted: below the ceiling, half the way up to it is next."""
        self._fits = self.size
        self._calm += 1
        if self.ceiling is not None and self._calm >= PATIENCE:
            self.ceiling, self._calm = None, 0
            self.size += 1  # one more: a probe that fails costs little
        elif self.ceiling is None:
            self.size *= 2
        elif self.ceiling - self.size > 1:
            self.size = (self.size + self.ceiling) // 2
        if self.most is not None:
            self.size = min(self.size, self.most)

    def failed(self) -> bool:
        """A batch of this size did not fit; False when there is no smaller one."""
        if self.size == 1:
            return False
        self.ceiling, self._calm = self.size, 0
        if self._fits >= self.size:  # there is less room than there was
            self._fits = 0
        self.size = (self._fits + self.ceiling) // 2 or 1
        return True


def adaptive(
    run: Callable[[Any], Sequence[Any]], items: Any, first: int = 1, most: int | None = None
) -> Iterator[Any]:
    """What `run` makes of the items, each once and in order, asked for as many as fit.

    items   a list or a tensor: it has a length and gives slices
    run     a batch -> one result for each of its items

    Raises   torch.OutOfMemoryError   a single item does not fit; what came before it has come out
    """
    batch, done = BatchSize(first, most), 0
    while done < len(items):
        results, error = _tried(run, items[done : done + batch.size])
        if error is None:
            whole = min(batch.size, len(items) - done)
            done += whole
            if whole == batch.size:
                batch.succeeded()
            yield from results
            continue
        batch.size = min(batch.size, len(items) - done)
        if not batch.failed():
            raise error
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _tried(run: Callable[[Any], Any], part: Any) -> tuple[Any, torch.OutOfMemoryError | None]:
    """(results, None) or (None, error); the error holds no frame, so their tensors are gone."""
    try:
        return run(part), None
    except torch.OutOfMemoryError as error:
        return None, error.with_traceback(None)
