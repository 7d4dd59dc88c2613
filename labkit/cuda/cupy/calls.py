"""What calls through CuPy and to the CUDA driver share: errors, structures, handles.

Source   CUDA Driver API  CUmemAllocationProp, CUmemAccessDesc
"""

import contextlib
import ctypes
from collections.abc import Iterator

from cupy.cuda import runtime

from labkit.cuda.driver import DeviceProperties
from labkit.cuda.errors import CudaError


@contextlib.contextmanager
def told() -> Iterator[None]:
    """CuPy's errors leave as labkit's, under the same CUDA names."""
    try:
        yield
    except runtime.CUDARuntimeError as error:
        code, _, text = str(error).partition(": ")
        raise CudaError(text, code) from None


class Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of one device."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class Access(ctypes.Structure):
    _fields_ = (("location", Location), ("flags", ctypes.c_int))


def device_properties() -> DeviceProperties:
    """What the GPU is and allows."""
    with told():
        found = runtime.getDeviceProperties(runtime.getDevice())
    x, y, z = found["maxThreadsDim"]
    gx, gy, gz = found["maxGridSize"]
    return DeviceProperties(
        name=found["name"].decode(),
        total_memory=found["totalGlobalMem"],
        multi_processor_count=found["multiProcessorCount"],
        compute_capability=(found["major"], found["minor"]),
        warp_size=found["warpSize"],
        max_threads_per_block=found["maxThreadsPerBlock"],
        max_block_dim=(x, y, z),
        max_grid_dim=(gx, gy, gz),
        shared_memory_per_block=found["sharedMemPerBlock"],
        shared_memory_per_block_optin=found["sharedMemPerBlockOptin"],
        l2_cache_bytes=found["l2CacheSize"],
    )
