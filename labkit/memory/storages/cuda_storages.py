"""`device="cuda"` served by the caching allocator, on the emulator and on a GPU alike."""

from weakref import WeakKeyDictionary

from labkit.core.allocator import DataPtr
from labkit.cuda import tensor_memory
from labkit.cuda.memory_calls import MemoryCalls
from labkit.cuda.select import current_driver
from labkit.cuda.stream import current_stream
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.settings import AllocatorSettings
from labkit.memory.storages.storage_allocator import StorageAllocator


class CudaStorages:
    """One caching allocator per driver, made when the driver first serves a request."""

    def __init__(self, settings: str | AllocatorSettings = "") -> None:
        self._settings = settings

    @property
    def current(self) -> StorageAllocator:
        """Of the driver that serves now."""
        driver = current_driver()
        # The driver keeps it: an allocator refers to its driver, and must not make it immortal.
        kept: WeakKeyDictionary[CudaStorages, StorageAllocator]
        kept = vars(driver).setdefault("_storages", WeakKeyDictionary())
        found = kept.get(self)
        if found is None:
            found = kept[self] = StorageAllocator(
                CachingAllocator(MemoryCalls(driver), self._settings),
                "cuda",
                lambda: current_stream(driver).handle,
            )
        return found

    @property
    def allocator(self) -> CachingAllocator:
        """The caching allocator itself, for its map, statistics, history and settings."""
        return self.current.allocator

    def allocate(self, nbytes: int) -> DataPtr:
        """Own `nbytes` bytes for work on the current stream."""
        return self.current.allocate(nbytes)


def install(settings: str | AllocatorSettings = "") -> CudaStorages:
    """Storages on "cuda" come from a caching allocator from now on; `uninstall` ends that.

    Source   c10/cuda/CUDACachingAllocator.cpp  REGISTER_ALLOCATOR(kCUDA, ...)
    """
    storages = CudaStorages(settings)
    tensor_memory.install(storages)
    return storages


def uninstall() -> None:
    """Each storage on "cuda" asks the driver again; what was cached stays with its allocator."""
    tensor_memory.install()
