"""Memory that is lent and given back: a tensor is never with two borrowers at once.

PyTorch's caching allocator already keeps freed memory, on a GPU; a pool of one's own helps where it
does not reach (pinned host memory, host memory of large frames), and where a fixed number of bytes
is to be held.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

POISON = 0xA5


class UsedAfterReturn(RuntimeError):
    """Somebody used memory that had been given back."""


@dataclass
class Idle:
    """Memory that nobody has borrowed: its bytes, and when and where its last use ends."""

    memory: Tensor
    stream: Any = None
    used: Any = None


@dataclass
class TensorPool:
    """Tensors to borrow: `with pool.lend((3, 96, 160), torch.uint8) as frame:`

    limit   idle bytes kept at most; what was given back first goes first
    debug   memory that was given back is filled, and looked at when it is lent again
    hits, misses   lent from idle memory, and newly made
    """

    limit: int = 1 << 28
    debug: bool = False
    hits: int = 0
    misses: int = 0
    _idle: list[Idle] = field(default_factory=list)

    @property
    def idle_bytes(self) -> int:
        """What is held and not lent."""
        return sum(one.memory.nbytes for one in self._idle)

    @contextmanager
    def lend(
        self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> Iterator[Tensor]:
        """A tensor of this shape for the block, with any content; behind the block it is returned.

        Its work may be queued on the stream that is current here, and on no other.

        Raises   UsedAfterReturn   in debug mode: an earlier borrower has written since
        """
        nbytes = math.prod(shape) * dtype.itemsize
        one = self._taken(bucket(nbytes), torch.device(device))
        try:
            yield one.memory[:nbytes].view(dtype).view(shape)
        finally:
            self._returned(one)

    def trim(self, limit: int = 0) -> None:
        """Idle memory beyond this many bytes is no longer held."""
        while self.idle_bytes > limit:
            self._idle.pop(0)

    def _taken(self, nbytes: int, device: torch.device) -> Idle:
        fits = [at for at, one in enumerate(self._idle) if _fits(one.memory, nbytes, device)]
        if not fits:
            self.misses += 1
            return Idle(torch.empty(nbytes, dtype=torch.uint8, device=device))
        self.hits += 1
        one = self._idle.pop(fits[-1])
        if one.used is not None and one.stream != (here := _stream(one.memory)):
            here.wait_event(one.used)
            one.memory.record_stream(here)
        if self.debug and not bool((one.memory == POISON).all()):
            raise UsedAfterReturn(f"{one.memory.nbytes} bytes were written after their return")
        return one

    def _returned(self, one: Idle) -> None:
        if self.debug:
            one.memory.fill_(POISON)
        one.stream = _stream(one.memory)
        one.used = one.stream.record_event() if one.stream else None
        self._idle.append(one)
        self.trim(self.limit)


def bucket(nbytes: int) -> int:
    """As many bytes or a few more: a power of two, or 1.25, 1.5 or 1.75 times one; 512 at least."""
    if nbytes <= 512:
        return 512
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


def _fits(memory: Tensor, nbytes: int, device: torch.device) -> bool:
    same = memory.device.type == device.type
    return same and device.index in (None, memory.device.index) and memory.nbytes == nbytes


def _stream(memory: Tensor) -> Any:
    """The stream that work on this memory is queued on now; None on the host."""
    if memory.device.type == "cpu":
        return None
    return torch.accelerator.current_stream(memory.device)
