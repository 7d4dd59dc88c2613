"""The caching allocator serving others: labkit's storages, and CuPy's arrays.

serving = serve_cupy(allocator)     # on a GPU CuPy's arrays, on both drivers labkit's storages
show.memory(serving)
"""

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

KEPT_ERRORS = 100


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
