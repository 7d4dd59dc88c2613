"""Makes `device="cuda"` work for labkit's storages: bytes from the driver, copies through it."""

from typing import Any

from labkit.core.allocator import DataPtr, get_allocator, register_copy, set_allocator
from labkit.core.device import Device
from labkit.cuda.driver import Driver
from labkit.cuda.errors import CudaError, KernelFailure
from labkit.cuda.select import current_driver
from labkit.cuda.stream import current_stream

CUDA = Device("cuda", 0)


class DriverAllocator:
    """Each request is one `malloc` of the driver: no caching, as cudaMalloc alone would be.

    Source   aten/src/ATen/cuda/CUDAContextLight.h  getCUDADeviceAllocator
    """

    def allocate(self, nbytes: int) -> DataPtr:
        """Own `nbytes` bytes of whatever the memory held before.

        Raises   OutOfMemoryError   they do not fit
        """
        driver = current_driver()
        if nbytes == 0:
            return DataPtr(0, CUDA)
        address = driver.malloc(nbytes)
        return DataPtr(address, CUDA, (driver, address), _give_back)


def _give_back(context: tuple[Driver, int]) -> None:
    driver, address = context
    try:
        driver.free(address)
    except KernelFailure as failure:  # of work queued before, which freeing waits for
        _unheard[id(driver)] = failure
    except CudaError:
        return  # the device was reset meanwhile: its memory is gone already


_unheard: dict[int, KernelFailure] = {}
"""Driver -> a failure met where nobody could be told: a tensor's end raises nothing, but the next
copy does.
"""


def _copy(destination: int, to: Device, source: int, origin: Device, nbytes: int) -> None:
    """The bytes have arrived, after everything queued on the current stream; within the device they
    will, in the stream's turn.
    """
    driver = current_driver()
    failure = _unheard.pop(id(driver), None)
    if failure is not None:
        raise failure
    stream = current_stream(driver).handle
    if to.type == origin.type == "cuda":
        driver.memcpy_async(destination, source, nbytes, stream)
    else:
        copy_now(driver, destination, source, nbytes, stream)


def copy_now(driver: Driver, destination: int, source: int, nbytes: int, stream: int) -> None:
    """The bytes have arrived, after everything queued on the stream.

    A failure in what was queued is met before the copy is: queued behind it, the copy would still
    be there when the caller has given the host's memory up.

    Raises   KernelFailure   of work queued before
    """
    driver.stream_synchronize(stream)
    driver.memcpy_async(destination, source, nbytes, stream)
    driver.stream_synchronize(stream)


def serving() -> Any:
    """The allocator that storages on "cuda" come from now."""
    return get_allocator("cuda")


def install(allocator: Any = None) -> None:
    """Storages on "cuda" come from `allocator`, by default one `malloc` each."""
    set_allocator("cuda", allocator or DriverAllocator())
    register_copy("cuda", _copy)


install()
