"""A data set of frames in .npy files that are mapped, not read: a frame costs its own pages."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset


class MappedFrames(Dataset[torch.Tensor]):  # type: ignore[misc]
    """The frames of several files, one after another; each a new tensor that may be written to.

    A file is opened in the process that asks for one of its frames: what travels to a worker of a
    DataLoader is the names alone.

    Raises   ValueError   a file is no array of frames, or has not the size its header says
    """

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.paths = [str(path) for path in paths]
        self._maps: dict[int, Any] = {}
        self._ends = list(accumulate(len(mapped(path)) for path in self.paths))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> torch.Tensor:
        if not 0 <= index < len(self):
            raise IndexError(f"frame {index} of {len(self)}")
        shard = bisect_right(self._ends, index)
        if shard not in self._maps:
            self._maps[shard] = mapped(self.paths[shard])
        first = self._ends[shard - 1] if shard else 0
        return torch.from_numpy(np.array(self._maps[shard][index - first], order="C"))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maps": {}}


def mapped(path: str | Path) -> Any:
    """The array of a .npy file, read-only, mapped.

    Raises   ValueError   it is none, has no first dimension, or another size than its header says
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(array, np.memmap) or array.ndim == 0:
        raise ValueError(f"{path} holds no frames")
    ends = array.offset + array.nbytes
    if ends != Path(path).stat().st_size:
        raise ValueError(f"{path} has {Path(path).stat().st_size} bytes, its header says {ends}")
    return array
