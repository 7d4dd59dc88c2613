"""A device of a stated size under PyTorch: each storage an operator makes asks for room on it.

    with CappedMemory(64 * MIB) as memory:
        memory.hold(model)
        model(torch.empty(8, 3, 96, 160, device="meta"))
    memory.peak_bytes

The bytes lie in labkit's caching allocator, which has as many as it is given; the tensors are where
they always are. On `device="meta"` they have no bytes at all, so a step on a huge batch costs no
more than a small one.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from labkit.memory.out_of_memory import OutOfMemoryError


class CappedMemory(TorchDispatchMode):  # type: ignore[misc]
    """Inside the block, new tensors need room on a device of `capacity` bytes.

    allocator   labkit's, with its statistics and history: `show.memory(memory.allocator)`
    peak_bytes  the most that was allocated at one time, rounded as the allocator rounds
    kernels     operator name -> calls; views have no kernel and are left out

    Source   torch/distributed/_tools/mem_tracker.py  MemTracker, which follows storages alike
    Differs  what was made before the block is counted only when it is named to `hold`; memory that
             a kernel uses inside of itself is not seen.
    """

    def __init__(self, capacity: int = 1 << 46) -> None:
        super().__init__()
        self.allocator = CachingAllocator(SimulatedDevice(capacity))
        self.allocator.record_memory_history("all", None)
        self.peak_bytes = 0
        self.kernels: Counter[str] = Counter()
        self._held: dict[int, weakref.finalize[Any, Any]] = {}

    @property
    def bytes_now(self) -> int:
        """What is allocated at this moment."""
        return self.allocator.allocated_bytes

    def hold(self, *things: Tensor | nn.Module) -> None:
        """These tensors, or the parameters, gradients and buffers of these modules, have room too.

        Raises   torch.OutOfMemoryError   they do not fit
        """
        for thing in things:
            if isinstance(thing, Tensor):
                self._hold(thing)
                continue
            for tensor in (*thing.parameters(), *thing.buffers()):
                self._hold(tensor)
                if tensor.grad is not None:
                    self._hold(tensor.grad)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The operator's result, when there is room for it."""
        result = func(*args, **(kwargs or {}))
        if not func.is_view and func not in _VIEWS:
            self.kernels[func.overloadpacket.__name__] += 1
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._hold(tensor)
        return result

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata in self._held or not storage.nbytes():
            return
        try:
            address = self.allocator.malloc(storage.nbytes())
        except OutOfMemoryError as error:
            raise torch.OutOfMemoryError(str(error)) from None
        self.peak_bytes = max(self.peak_bytes, self.bytes_now)
        key = storage._cdata
        self._held[key] = weakref.finalize(storage, self._release, key, address)
        self._held[key].atexit = False

    def _release(self, key: int, address: int) -> None:
        del self._held[key]
        self.allocator.free(address)


_VIEWS = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)


def peak_of(work: Callable[[], Any], *held: Tensor | nn.Module, capacity: int = 1 << 46) -> int:
    """The most bytes that this work needs at one time, on top of and including what is held.

    Raises   torch.OutOfMemoryError   it does not fit
    """
    with CappedMemory(capacity) as memory:
        memory.hold(*held)
        work()
    peak: int = memory.peak_bytes
    return peak
