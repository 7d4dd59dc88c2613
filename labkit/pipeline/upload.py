"""Batches on their way to a device while the batch before them is computed on."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map


class Prefetcher:
    """The batches of a loader on a device, each once and in order; `depth` are copied ahead.

    A batch is any nesting of lists, tuples and dicts; what is no tensor in it stays as it is. An
    error of the loader comes out behind the batches that came before it. Copies overlap only where
    the loader's tensors lie in pinned memory. Without an accelerator the batches come ahead, too,
    and nothing overlaps.

    depth  how many batches behind the one handed out have been asked of the loader

    Source   torch/utils/data/dataloader.py  _MultiProcessingDataLoaderIter, which keeps as many
             batches under way; torch/cuda/streams.py  Stream.wait_event
    """

    def __init__(self, loader: Iterable[Any], device: torch.device | str, depth: int = 1) -> None:
        if depth < 1:
            raise ValueError(f"at least one batch is copied ahead, got {depth}")
        self.loader, self.device, self.depth = loader, torch.device(device), depth

    def __len__(self) -> int:
        """As many batches as the loader has.

        Raises   TypeError   it does not say
        """
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        upload = _Upload(self.device)
        waiting: deque[Any] = deque()
        source, end = iter(self.loader), None
        while waiting or end is None:
            while end is None and len(waiting) <= self.depth:
                try:
                    waiting.append(upload.begun(next(source)))
                except Exception as error:  # StopIteration is the end that is no error
                    end = error
            if waiting:
                yield upload.arrived(*waiting.popleft())
        if end is not None and not isinstance(end, StopIteration):
            raise end


class _Upload:
    """Copies on a stream of their own, where the device has streams."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = None if device.type == "cpu" else torch.Stream(device)

    def begun(self, batch: Any) -> tuple[Any, Any]:
        """(the batch on the device, the event behind its copies)."""
        if self.stream is None:
            return tree_map(self._moved, batch), None
        with self.stream:
            moved = tree_map(self._moved, batch)
            return moved, self.stream.record_event()

    def arrived(self, batch: Any, copied: Any) -> Any:
        """The batch, for the stream that is now current: it waits, and keeps the memory."""
        if self.stream is not None:
            consumer = torch.accelerator.current_stream(self.device)
            consumer.wait_event(copied)
            for leaf in tree_leaves(batch):
                if isinstance(leaf, Tensor):
                    leaf.record_stream(consumer)
        return batch

    def _moved(self, leaf: Any) -> Any:
        return leaf.to(self.device, non_blocking=True) if isinstance(leaf, Tensor) else leaf


class Uploader:
    """Arrays on a device, through page-locked buffers that are filled in turn.

    The host waits when the buffer that it is about to fill is still being copied, and never else.

    slots  how many buffers there are; with two, filling and copying overlap

    Source   aten/src/ATen/core/CachingHostAllocator.h, which gives a freed buffer out again behind
             the same kind of event, and takes a new one instead of waiting
    """

    def __init__(self, device: torch.device | str, slots: int = 2) -> None:
        if slots < 1:
            raise ValueError(f"there is at least one buffer, got {slots}")
        self._upload = _Upload(torch.device(device))
        self._slots: deque[tuple[Tensor | None, Any]] = deque([(None, None)] * slots)

    def put(self, array: NDArray[Any]) -> Tensor:
        """The array on the device, for the stream now current; it may be changed at once."""
        source = torch.from_numpy(array)
        if self._upload.stream is None:
            return source.clone()
        buffer, copied = self._slots.popleft()
        if copied is not None:
            copied.synchronize()
        if buffer is None or (buffer.shape, buffer.dtype) != (source.shape, source.dtype):
            buffer = torch.empty_like(source).pin_memory()
        buffer.copy_(source)
        moved, copied = self._upload.begun(buffer)
        self._slots.append((buffer, copied))
        there: Tensor = self._upload.arrived(moved, copied)
        return there
