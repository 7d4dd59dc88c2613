"""What autograd holds during a training step, by public hooks alone."""

import weakref
from typing import Any

import torch


class _Token:
    """Stands for one saved tensor; it lives as long as the node that saved it needs it."""

    def __init__(self, number: int, tensor: torch.Tensor) -> None:
        self.number, self.tensor = number, tensor


class Saved:
    """Inside the `with`, what autograd saves is counted until it is let go of.

    known   tensors that exist anyway: what shares their memory counts nothing
    held    bytes held now;  peak: the most that were
    events  "save 1", "free 1", ... in order

    Source   torch/autograd/graph.py  saved_tensors_hooks
    """

    def __init__(self, *known: torch.Tensor) -> None:
        self._known = {one.untyped_storage().data_ptr() for one in known}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._hooks: Any = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self.events: list[str] = []
        self.peak = self._count = 0

    @property
    def held(self) -> int:
        """Bytes held now; tensors that share memory count once."""
        return sum(dict(self._sizes.values()).values())

    def _pack(self, tensor: torch.Tensor) -> _Token:
        self._count += 1
        number, storage = self._count, tensor.untyped_storage()
        if storage.data_ptr() not in self._known:
            self._sizes[number] = storage.data_ptr(), storage.nbytes()
        self.events.append(f"save {number}")
        self.peak = max(self.peak, self.held)
        token = _Token(number, tensor)
        weakref.finalize(token, self._free, number)
        return token

    @staticmethod
    def _unpack(token: _Token) -> torch.Tensor:
        return token.tensor

    def _free(self, number: int) -> None:
        self._sizes.pop(number, None)
        self.events.append(f"free {number}")

    def __enter__(self) -> "Saved":
        self._hooks.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._hooks.__exit__(*exception)
