"""The caching allocator serving others: CuPy's arrays, PyTorch's CUDA tensors, labkit's storages.

serving = serve_cupy(allocator)     # on a GPU CuPy's arrays, on both drivers labkit's storages
serving = serve_torch(allocator)    # on a GPU, before PyTorch's first CUDA tensor
show.memory(serving)                # PyTorch's own snapshot and statistics end with the latter
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Self

from labkit.cuda import tensor_memory
from labkit.cuda.memory_calls import MemoryCalls
from labkit.cuda.select import current_driver
from labkit.cuda.stream import current_stream
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.out_of_memory import OutOfMemoryError
from labkit.memory.settings import AllocatorSettings
from labkit.memory.storages.storage_allocator import StorageAllocator

ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
RECORD_STREAM = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
KEPT_ERRORS = 100

_for_ever: list[Any] = []
"""PyTorch frees its last tensors when the process ends: what it calls then must still exist."""


def allocator_on_device(settings: str | AllocatorSettings = "") -> CachingAllocator:
    """A caching allocator over the driver that serves now, emulator or GPU."""
    return CachingAllocator(MemoryCalls(current_driver()), settings)


class Serving:
    """Who is served by `allocator`, until `stop()`; a `with` stops at its end.

    errors  what went wrong where nobody could be told, oldest first, at most 100

    `show.memory` takes it, and `snapshot()` stands in for torch.cuda.memory._snapshot().
    """

    def __init__(self, storages: StorageAllocator) -> None:
        self.storages = storages
        self.allocator = storages.allocator
        self.errors: list[Exception] = []
        self._undo: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """New requests go elsewhere again; what was served stays valid until it is freed."""
        self._undo()
        self._undo = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def snapshot(self) -> dict[str, Any]:
        """Segments, blocks and history in PyTorch's format."""
        return self.allocator.snapshot()

    def check(self) -> None:
        """Raise the first error that a callback could not; nothing when there was none."""
        if self.errors:
            raise self.errors[0]

    def failed(self, error: Exception) -> None:
        """Keep an error that cannot be raised where it happened, and say it once."""
        if not self.errors:
            print(f"labkit's allocator: {type(error).__name__}: {error}", file=sys.stderr)
        if len(self.errors) < KEPT_ERRORS:
            self.errors.append(error)


class TorchCallbacks:
    """The three C functions that PyTorch's pluggable allocator calls, as addresses.

    allocate       void* (ssize_t size, int device, cudaStream_t stream)
    free           void (void* pointer, ssize_t size, int device, cudaStream_t stream)
    record_stream  void (void* pointer, cudaStream_t stream)

    An exception cannot pass through C: `allocate` then returns a null pointer, which means out of
    memory, and the error is in `serving.errors`.

    Source   torch/csrc/cuda/CUDAPluggableAllocator.h  CUDAPluggableAllocator
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._functions = (
            ALLOCATE(self._allocate), FREE(self._free), RECORD_STREAM(self._record_stream),
        )  # fmt: skip
        self.allocate, self.free, self.record_stream = (
            ctypes.cast(function, ctypes.c_void_p).value or 0 for function in self._functions
        )

    def _allocate(self, size: int, device: int, stream: int | None) -> int:
        try:
            self._check_device(device)
            return self._serving.storages.take(size, stream or 0) if size else 0
        except Exception as error:  # it must not reach C
            self._serving.failed(error)
            return 0

    def _free(self, pointer: int | None, size: int, device: int, stream: int | None) -> None:
        if not pointer:
            return
        try:
            self._check_device(device)
            self._serving.storages.free(pointer)
        except Exception as error:  # it must not reach C
            self._serving.failed(error)

    def _record_stream(self, pointer: int | None, stream: int | None) -> None:
        if not pointer:
            return
        try:
            self._serving.storages.record_address(pointer, stream or 0)
        except Exception as error:  # it must not reach C
            self._serving.failed(error)

    def _check_device(self, device: int) -> None:
        own = self._serving.allocator.device
        if device != own:
            raise ValueError(f"a call for device {device}; this allocator serves device {own}")


def serve_cupy(allocator: CachingAllocator) -> Serving:
    """CuPy's arrays, and labkit's storages on "cuda", come from this allocator.

    allocator  over the driver that serves now, as `allocator_on_device()` makes it

    On the emulator there is no CuPy; labkit's storages come from it all the same. On a GPU a
    request is for CuPy's current stream, and one that finds no room raises CuPy's OutOfMemoryError.

    Raises   ValueError   the allocator's memory is not the current driver's
    Source   cupy/cuda/memory.pyx  set_allocator, PythonFunctionAllocator
    """
    driver = _driver_of(allocator)
    serving = Serving(StorageAllocator(allocator, "cuda", lambda: current_stream(driver).handle))

    def malloc(size: int, stream: int) -> int | None:
        try:
            return serving.storages.take(size, stream)
        except OutOfMemoryError as error:
            serving.failed(error)
            return None

    undo_cupy = (
        driver.serve_arrays(malloc, serving.storages.free) if driver.name == "cupy" else None
    )
    before = tensor_memory.serving()
    tensor_memory.install(serving.storages)

    def undo() -> None:
        tensor_memory.install(before)
        if undo_cupy:
            undo_cupy()

    serving._undo = undo
    return serving


def serve_torch(allocator: CachingAllocator) -> Serving:
    """Every CUDA tensor of PyTorch comes from this allocator, for the rest of the process.

    allocator  over a GPU's driver, made before PyTorch's first CUDA tensor

    PyTorch asks for each tensor unrounded, with its stream, and tells us of `record_stream`. Its
    own torch.cuda.memory._snapshot, memory_stats and _record_memory_history raise from then on:
    `serving.snapshot()` and `show.memory(serving)` stand in. PyTorch does not look at a null
    pointer, so after a request that ran out it fails later and elsewhere: ask `serving.check()`.

    Raises   RuntimeError   this PyTorch has no CUDA, or its own allocator has served already
             ValueError     the allocator's memory is the emulator's, or another driver's
    Source   torch/cuda/memory.py  change_current_allocator, CUDAPluggableAllocator
    """
    import torch

    driver = _driver_of(allocator)
    if driver.name != "cupy":
        raise ValueError(
            f"this allocator hands out memory of the {driver.name}, which PyTorch's kernels cannot "
            "reach; serve_cupy(allocator) serves labkit's own storages there"
        )
    if not torch.cuda.is_available() or not hasattr(torch._C, "_cuda_customAllocator"):
        raise RuntimeError(
            f"torch {torch.__version__} has no CUDA device here, so it has no tensors to serve"
        )
    serving = Serving(StorageAllocator(allocator, "cuda"))
    callbacks = TorchCallbacks(serving)
    pluggable = torch._C._cuda_customAllocator(callbacks.allocate, callbacks.free)
    pluggable.set_record_stream_fn(callbacks.record_stream)
    torch._C._cuda_changeCurrentAllocator(pluggable)
    _for_ever.extend((serving, callbacks, pluggable))
    return serving


def _driver_of(allocator: CachingAllocator) -> Any:
    """The driver whose memory the allocator hands out; it must be the one that serves now."""
    driver = getattr(allocator.driver, "driver", None)
    if driver is not current_driver():
        name = type(allocator.driver if driver is None else driver).__name__
        raise ValueError(
            f"the allocator's memory is that of a {name}, while {current_driver()!r} serves; "
            "allocator_on_device() makes one that fits"
        )
    return driver
