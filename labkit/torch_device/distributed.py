"""`torch.distributed` over the device: each collective crosses to the host and is gloo's there.

    dist.init_process_group("cpu:gloo,lab:labkit", …)     # which is what no name at all means
    model = DistributedDataParallel(model.to("lab"))

Source   torch/distributed/distributed_c10d.py  Backend.register_backend
Differs  a collective is done when its call returns
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_flatten, tree_map

from labkit.torch_device.twins import NAME

BACKEND = "labkit"
COLLECTIVES = {
    name: name
    for name in (
        "allreduce", "broadcast", "allgather", "_allgather_base", "reduce", "gather", "scatter",
        "reduce_scatter", "_reduce_scatter_base", "alltoall", "alltoall_base",
    )
} | {
    "all_gather_single": "_allgather_base", "reduce_scatter_single": "_reduce_scatter_base",
    "all_to_all_single": "alltoall_base",
}  # fmt: skip
"""A group's collective -> gloo's: PyTorch 2.13 has given three of them new names."""


def register() -> None:
    """The backend is known to PyTorch, as the one for these devices."""
    if dist.is_available() and BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, _begin, devices=[NAME])


def _begin(store: Any, rank: int, size: int, timeout: Any) -> Any:
    return Staged(dist.ProcessGroupGloo(store, rank, size, timeout))


class Staged(dist.ProcessGroup):  # type: ignore[misc]
    """A group whose tensors are on the device; `inner` has the same ranks, and the host's."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner.rank(), inner.size())
        self.inner = inner

    def getBackendName(self) -> str:
        """What it was registered as."""
        return BACKEND

    def barrier(self, opts: Any = None) -> Any:
        """Every rank has come this far, and its device has."""
        torch.lab.synchronize()
        self.inner.barrier(*_given(opts)).wait()
        return _Done([])

    def send(self, tensors: Any, to: int, tag: int = 0) -> Any:
        """The tensors have been sent."""
        self.inner.send(_hosts(tensors), to, tag).wait()
        return _Done(tensors)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Any:
        """The tensors hold what was sent."""
        return self._collect("recv", tensors, source, tag)

    def _collect(self, name: str, *args: Any) -> Any:
        """The inner group has done it on the host, and every tensor that it was given is back."""
        staged = _hosts(args)
        getattr(self.inner, name)(*_given(*staged)).wait()
        for there, here in zip(_tensors(args), _tensors(staged), strict=True):
            there.copy_(here)
        return _Done(args[0])


def _collective(inner: str) -> Callable[..., Any]:
    def run(self: Staged, *args: Any) -> Any:
        return self._collect(inner, *args)

    return run


for _name, _inner in COLLECTIVES.items():
    setattr(Staged, _name, _collective(_inner))


class _Done(dist._Work):  # type: ignore[misc]
    """Work that is over: its future holds the tensors."""

    def __init__(self, results: Any) -> None:
        super().__init__()
        self._future: Any = torch.futures.Future()
        self._future.set_result(results)

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> Any:
        return self._future


def _tensors(value: Any) -> list[torch.Tensor]:
    return [each for each in tree_flatten(value)[0] if isinstance(each, torch.Tensor)]


def _hosts(value: Any) -> Any:
    return tree_map(lambda each: each.cpu() if isinstance(each, torch.Tensor) else each, value)


def _given(*args: Any) -> tuple[Any, ...]:
    """The arguments without an options object that was not given."""
    return args[:-1] if args and args[-1] is None else args
