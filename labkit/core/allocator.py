"""Who hands out bytes, and who gets them back: `DataPtr`, the `Allocator` protocol, the registry.

A device type joins the lab with two calls, which is all that `labkit.cuda` does to make
`device="cuda"` work:

    set_allocator("cuda", allocator)      # anything with `allocate(nbytes) -> DataPtr`
    register_copy("cuda", copy)           # moves bytes when either side is on that device

`copy(destination, destination_device, source, source_device, nbytes)` takes two addresses as the
allocators gave them out, plus offsets, and returns when the bytes have arrived. With two devices
of different types, the one that is not "cpu" is asked; with two others, the destination's.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from labkit.core.device import Device

Deleter = Callable[[Any], None]
CopyFunction = Callable[[int, Device, int, Device, int], None]


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class DataPtr:
    """An address, and the right to hand it back: `deleter(context)` is called exactly once.

    address  what kernels use; 0 for no memory
    context  what the deleter needs, often more than the address (a mapping, a block, an array)
    deleter  None when nobody has to be told

    The call comes with `clear()`, or when the last reference goes.

    Source   c10/core/Allocator.h  DataPtr
    """

    address: int
    device: Device
    context: Any = None
    deleter: Deleter | None = None

    def clear(self) -> None:
        """Give the memory back now; a second call does nothing."""
        deleter, context = self.deleter, self.context
        self.address, self.context, self.deleter = 0, None, None
        if deleter is not None:
            deleter(context)

    def release_context(self) -> Any:
        """Hand the context, and with it the duty to free it, to the caller."""
        context, self.context, self.deleter = self.context, None, None
        return context

    def __del__(self) -> None:
        self.clear()

    def __repr__(self) -> str:
        return f"DataPtr({self.address:#x}, {self.device})"


class Allocator(Protocol):
    """Hands out bytes of one device type.

    Source   c10/core/Allocator.h  Allocator
    """

    def allocate(self, nbytes: int) -> DataPtr:
        """Own `nbytes` fresh bytes; 0 bytes may be answered with address 0.

        Raises   RuntimeError   there is not enough memory
        """
        ...


class CPUAllocator:
    """Host memory on 64-byte boundaries, straight from the C library.

    Source   c10/core/impl/alloc_cpu.cpp  alloc_cpu
    """

    ALIGNMENT = 64  # bytes: one cache line, and the widest vector load

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        self._allocate = libc.posix_memalign
        self._allocate.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
        self._free = libc.free
        self._free.argtypes = [ctypes.c_void_p]
        self._free.restype = None

    def allocate(self, nbytes: int) -> DataPtr:
        """Own `nbytes` bytes of whatever the memory held before."""
        if nbytes < 0:
            raise RuntimeError(f"cannot allocate {nbytes} bytes")
        if nbytes == 0:
            return DataPtr(0, Device("cpu"))
        address = ctypes.c_void_p()
        if nbytes >= 1 << 63 or self._allocate(ctypes.byref(address), self.ALIGNMENT, nbytes):
            raise RuntimeError(
                f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes"
            )
        assert address.value is not None
        return DataPtr(address.value, Device("cpu"), address.value, self._free)


_DEFAULT: Allocator = CPUAllocator()
_allocators: dict[str, tuple[int, Allocator]] = {"cpu": (0, _DEFAULT)}
_copies: dict[str, CopyFunction] = {}


def set_allocator(device_type: str, allocator: Allocator, priority: int = 0) -> None:
    """Serve a device type from now on, unless one of higher priority already does.

    Source   c10/core/Allocator.cpp  SetAllocator
    """
    current = _allocators.get(device_type)
    if current is None or priority >= current[0]:
        _allocators[device_type] = (priority, allocator)


def serves_host_by_default() -> bool:
    """True while host memory comes from the C library: nobody counts or watches it."""
    return _allocators["cpu"][1] is _DEFAULT


def has_allocator(device_type: str) -> bool:
    """True when tensors can be made on that device type."""
    return device_type in _allocators


def get_allocator(device_type: str) -> Allocator:
    """The allocator that serves a device type.

    Raises   RuntimeError   none does
    """
    if device_type not in _allocators:
        raise RuntimeError(
            f"no allocator serves device type {device_type!r}; there are {sorted(_allocators)}. "
            f"labkit.core.allocator.set_allocator({device_type!r}, ...) adds one"
        )
    return _allocators[device_type][1]


def register_copy(device_type: str, copy: CopyFunction) -> None:
    """Let `copy` move every byte to, from and within that device type."""
    _copies[device_type] = copy


def copy_bytes(
    destination: int, destination_device: Device, source: int, source_device: Device, nbytes: int
) -> None:
    """Move bytes between two addresses, on whatever devices they are.

    Raises   RuntimeError   no copy function is registered for the device
    """
    if nbytes == 0:
        return
    types = [destination_device.type, source_device.type]
    device_type = next((name for name in types if name != "cpu"), "cpu")
    if device_type == "cpu":
        ctypes.memmove(destination, source, nbytes)
    elif device_type in _copies:
        _copies[device_type](destination, destination_device, source, source_device, nbytes)
    else:
        raise RuntimeError(
            f"no copy function is registered for device type {device_type!r}: "
            f"labkit.core.allocator.register_copy({device_type!r}, ...) adds one"
        )
