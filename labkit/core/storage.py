"""Untyped bytes with one owner, counted: what several tensors can be views of."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core.allocator import Allocator, DataPtr, copy_bytes, get_allocator
from labkit.core.device import CPU, Device


class _HostBytes:
    """The array protocol over an address; every NumPy array made from it keeps the memory."""

    __slots__ = ("__array_interface__", "data_ptr")

    def __init__(self, data_ptr: DataPtr, nbytes: int, readonly: bool) -> None:
        self.data_ptr = data_ptr
        self.__array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (data_ptr.address, readonly), "version": 3
        }  # fmt: skip


class _CowContext:
    """One block of memory that several storages believe to be their own.

    Source   c10/core/impl/COWDeleter.h  COWDeleterContext
    """

    __slots__ = ("data_ptr", "refcount")

    def __init__(self, data_ptr: DataPtr) -> None:
        self.data_ptr = data_ptr
        self.refcount = 0

    def share(self) -> DataPtr:
        """One more owner: an address whose deleter gives up one share."""
        self.refcount += 1
        return DataPtr(self.data_ptr.address, self.data_ptr.device, self, _CowContext.give_up)

    def give_up(self) -> None:
        """One owner less; the last one frees the memory."""
        self.refcount -= 1
        if self.refcount == 0:
            self.data_ptr.clear()


@dataclass(slots=True, eq=False)
class StorageImpl:
    """Bytes, their `DataPtr`, and how many hold on to them.

    nbytes     the size, in bytes: a storage knows no element type
    use_count  tensors and `Storage` handles that refer to it; at 0 the memory is given back
    resizable  False for memory that somebody else owns

    Source   c10/core/StorageImpl.h  StorageImpl
    """

    data_ptr: DataPtr
    nbytes: int
    allocator: Allocator | None
    resizable: bool
    use_count: int = 0
    _bytes: tuple[NDArray[Any] | None, NDArray[Any] | None] = field(
        default=(None, None), repr=False
    )

    def bytes(self, writable: bool) -> NDArray[Any]:
        """All bytes as a uint8 array over the memory itself; writing gives copy-on-write up.

        Raises   RuntimeError   the memory is not the host's
        """
        if writable and self.is_copy_on_write:
            self.materialize()
        array = self._bytes[writable]
        if array is None:
            device = self.data_ptr.device
            if device.type != "cpu":
                raise RuntimeError(f"host code cannot touch memory on {device}; copy it to cpu")
            for each in (False, True):  # one address for both, and none at all for no bytes
                host = _HostBytes(self.data_ptr, self.nbytes, not each)
                made = np.asarray(host) if self.nbytes else np.empty(0, np.uint8)
                self._bytes = (made, self._bytes[1]) if not each else (self._bytes[0], made)
            array = self._bytes[writable]
            assert array is not None
        return array

    def __reduce__(self) -> tuple[Any, ...]:  # a copy or an unpickled one has memory of its own
        data_ptr = self.data_ptr
        held = np.empty(self.nbytes, np.uint8)
        copy_bytes(held.ctypes.data, CPU, data_ptr.address, data_ptr.device, self.nbytes)
        return storage_of, (held.tobytes(), data_ptr.device)

    def resize(self, nbytes: int) -> None:
        """Hold `nbytes` bytes from now on, the old ones first; the address may change.

        Raises   RuntimeError   the memory is not this storage's to replace
        """
        if nbytes < 0:
            raise RuntimeError(f"cannot resize a storage to {nbytes} bytes")
        if not self.resizable or self.allocator is None:
            raise RuntimeError("Trying to resize storage that is not resizable")
        fresh = self.allocator.allocate(nbytes)
        old = self.data_ptr
        kept = min(self.nbytes, nbytes)
        copy_bytes(fresh.address, fresh.device, old.address, old.device, kept)
        self._replace(fresh, nbytes)

    def _replace(self, data_ptr: DataPtr, nbytes: int) -> None:
        # The old DataPtr goes with its last reference: NumPy arrays over it stay readable.
        self.data_ptr, self.nbytes, self._bytes = data_ptr, nbytes, (None, None)

    @property
    def is_copy_on_write(self) -> bool:
        """True while the memory may be shared with a lazy clone."""
        return isinstance(self.data_ptr.context, _CowContext)

    def lazy_clone(self) -> "StorageImpl":
        """A storage of its own, whose bytes are copied only when either side writes.

        Source   c10/core/impl/COW.cpp  lazy_clone_storage
        """
        if not self.is_copy_on_write:
            context = _CowContext(self.data_ptr)
            self._replace(context.share(), self.nbytes)
        shared = self.data_ptr.context.share()
        return StorageImpl(shared, self.nbytes, self.allocator, self.resizable)

    def materialize(self) -> None:
        """Own the memory alone: the last owner keeps the block, any other gets a copy.

        Source   c10/core/impl/COW.cpp  materialize_cow_storage
        """
        context = self.data_ptr.context
        if context.refcount == 1:
            self.data_ptr.release_context()
            self._replace(context.data_ptr, self.nbytes)
            return
        allocator = self.allocator or get_allocator(self.data_ptr.device.type)
        fresh = allocator.allocate(self.nbytes)
        old = self.data_ptr
        copy_bytes(fresh.address, fresh.device, old.address, old.device, self.nbytes)
        self._replace(fresh, self.nbytes)


def storage_of(held: bytes, device: Device) -> StorageImpl:
    """Fresh memory on the device that holds these bytes."""
    allocator = get_allocator(device.type)
    data_ptr = allocator.allocate(len(held))
    source = np.frombuffer(held, np.uint8)
    copy_bytes(data_ptr.address, data_ptr.device, source.ctypes.data, CPU, len(held))
    return StorageImpl(data_ptr, len(held), allocator, resizable=True)


class Storage:
    """One counted reference to a `StorageImpl`.

    Every tensor holds one, and `tensor.storage()` gives out another, so the count is what
    PyTorch's intrusive pointer would say.

    Source   c10/core/Storage.h  Storage
    """

    __slots__ = ("impl",)

    def __init__(self, impl: StorageImpl) -> None:
        self.impl = impl
        impl.use_count += 1

    def __del__(self) -> None:
        impl = self.impl
        impl.use_count -= 1
        if impl.use_count == 0:
            impl._replace(DataPtr(0, impl.data_ptr.device), 0)

    @classmethod
    def allocate(cls, nbytes: int, device: Device = CPU) -> "Storage":
        """`nbytes` fresh bytes of the device, their contents whatever was there.

        Raises   RuntimeError   no allocator serves the device, or it has too little memory
        """
        allocator = get_allocator(device.type)
        data_ptr = allocator.allocate(nbytes)
        if device.index is not None and data_ptr.device.index not in (None, device.index):
            raise RuntimeError(f"asked for memory on {device}, got it on {data_ptr.device}")
        return cls(StorageImpl(data_ptr, nbytes, allocator, resizable=True))

    @classmethod
    def from_data_ptr(cls, data_ptr: DataPtr, nbytes: int) -> "Storage":
        """Memory that somebody else made: the deleter runs when the last user is gone."""
        return cls(StorageImpl(data_ptr, nbytes, None, resizable=False))

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.impl.nbytes

    @property
    def device(self) -> Device:
        """Where the bytes are."""
        return self.impl.data_ptr.device

    @property
    def use_count(self) -> int:
        """How many tensors and handles hold the bytes."""
        return self.impl.use_count

    def data_ptr(self) -> int:
        """The address of the first byte, for writing: gives copy-on-write up."""
        if self.impl.is_copy_on_write:
            self.impl.materialize()
        return self.impl.data_ptr.address

    def const_data_ptr(self) -> int:
        """The address of the first byte, for reading."""
        return self.impl.data_ptr.address

    def resize_(self, nbytes: int) -> "Storage":
        """Hold `nbytes` bytes from now on, the old ones first."""
        self.impl.resize(nbytes)
        return self

    def bytes(self, writable: bool = False) -> NDArray[Any]:
        """All bytes, as a NumPy uint8 array over the memory itself."""
        return self.impl.bytes(writable)

    def is_alias_of(self, other: "Storage") -> bool:
        """True when both refer to the same storage."""
        return self.impl is other.impl

    def __len__(self) -> int:
        return self.impl.nbytes

    def __getitem__(self, index: int) -> int:
        """The byte at a byte address counted from the start."""
        return int(self.impl.bytes(writable=False)[index])

    def __repr__(self) -> str:
        return f"Storage({self.nbytes} bytes, {self.device}, use_count={self.use_count})"
