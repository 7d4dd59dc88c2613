"""What a tensor is: sizes, strides and an offset over a storage, plus a shared version."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import strides as stride_rules
from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.memory_format import (
    Ints,
    MemoryFormat,
    contiguous_strides,
    is_channels_last_contiguous,
    is_contiguous,
)
from labkit.core.storage import Storage


class VersionCounter:
    """Counts the writes; every view of a tensor shares one.

    Source   c10/core/TensorImpl.h  VariableVersion
    """

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0

    def bump(self) -> None:
        """Note one more in-place write."""
        self.version += 1


class TensorImpl:
    """Sizes, strides and an offset (all in elements) over a storage of bytes.

    base               the tensor that this one is a view of, itself never a view; or None
    version_counter    shared by all views of one tensor
    is_wrapped_number  True for a Python number on its way into an operator

    Source   c10/core/TensorImpl.h  TensorImpl
    """

    __slots__ = (
        "__weakref__", "base", "dtype", "is_wrapped_number", "sizes", "storage", "storage_offset",
        "strides", "version_counter",
    )  # fmt: skip

    def __init__(
        self,
        storage: Storage,
        dtype: DType,
        sizes: Ints,
        strides: Ints,
        storage_offset: int = 0,
        version_counter: VersionCounter | None = None,
        base: "TensorImpl | None" = None,
    ) -> None:
        self.storage = storage
        self.dtype = dtype
        self.sizes = sizes
        self.strides = strides
        self.storage_offset = storage_offset
        self.version_counter = version_counter or VersionCounter()
        self.base = base
        self.is_wrapped_number = False

    @property
    def dim(self) -> int:
        """How many dimensions."""
        return len(self.sizes)

    @property
    def numel(self) -> int:
        """How many elements."""
        return stride_rules.numel(self.sizes)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def device(self) -> Device:
        """Where the storage is."""
        return self.storage.device

    @property
    def version(self) -> int:
        """How many in-place writes this tensor and its views have seen."""
        return self.version_counter.version

    def bump_version(self) -> None:
        """Note an in-place write."""
        self.version_counter.version += 1

    def is_contiguous(self, memory_format: MemoryFormat = MemoryFormat.contiguous_format) -> bool:
        """True when the elements lie in the format's order without gaps."""
        if memory_format is MemoryFormat.channels_last:
            return self.dim == 4 and is_channels_last_contiguous(self.sizes, self.strides)
        if memory_format is MemoryFormat.channels_last_3d:
            return self.dim == 5 and is_channels_last_contiguous(self.sizes, self.strides)
        return is_contiguous(self.sizes, self.strides)

    @property
    def is_non_overlapping_and_dense(self) -> bool:
        """True when every byte between the first and the last element is used exactly once."""
        return stride_rules.is_non_overlapping_and_dense(self.sizes, self.strides)

    def alias(
        self, sizes: Ints, strides: Ints, storage_offset: int, dtype: DType | None = None
    ) -> "TensorImpl":
        """A view: the same storage and version counter, described anew. No byte moves.

        The caller derives the numbers from valid ones; `set_sizes_and_strides` takes any.

        Source   aten/src/ATen/native/TensorShape.cpp  alias_with_sizes_and_strides
        """
        return TensorImpl(
            Storage(self.storage.impl),
            dtype or self.dtype,
            sizes,
            strides,
            storage_offset,
            self.version_counter,
            self.base or self,
        )

    def shallow_copy_and_detach(
        self, version_counter: VersionCounter | None = None
    ) -> "TensorImpl":
        """The same elements in a tensor that is nobody's view.

        version_counter  a new one when None

        Source   c10/core/TensorImpl.h  TensorImpl::shallow_copy_and_detach
        """
        return TensorImpl(
            Storage(self.storage.impl),
            self.dtype,
            self.sizes,
            self.strides,
            self.storage_offset,
            version_counter,
        )

    def set_sizes_and_strides(
        self, sizes: Ints, strides: Ints, storage_offset: int | None = None
    ) -> None:
        """Describe the same storage anew; no byte moves.

        sizes           elements per dimension, each >= 0
        strides         elements (not bytes) between neighbours, per dimension, each >= 0
        storage_offset  elements before the first one; None keeps it

        Raises   RuntimeError   lengths differ, a number is negative, or the last element would
                                lie outside the storage
        Source   aten/src/ATen/native/Resize.h  setStrided
        """
        offset = self.storage_offset if storage_offset is None else storage_offset
        if len(sizes) != len(strides):
            raise RuntimeError(
                f"mismatch in length of strides and shape: {list(strides)} for {list(sizes)}"
            )
        stride_rules.check_in_bounds(sizes, strides, offset, self.itemsize, self.storage.nbytes)
        self.sizes, self.strides, self.storage_offset = sizes, strides, offset

    def is_alias_of(self, other: "TensorImpl") -> bool:
        """True when both are views of one storage."""
        return self.storage.impl is other.storage.impl

    def data_ptr(self) -> int:
        """The address of the first element; 0 when the tensor is empty."""
        if self.numel == 0:
            return 0
        return self.storage.data_ptr() + self.storage_offset * self.itemsize

    def raw(self, writable: bool = False) -> NDArray[Any]:
        """The elements as a NumPy array of `dtype.raw` over the storage itself: a window, no copy.

        Raises   RuntimeError   the elements lie outside the storage, or not on the host
        """
        if 0 in self.sizes:
            return np.empty(self.sizes, self.dtype.raw)
        itemsize = self.dtype.itemsize
        steps = [  # a dimension of size 1 may have any stride, even one NumPy cannot hold
            stride * itemsize if size > 1 else 0
            for size, stride in zip(self.sizes, self.strides, strict=True)
        ]
        memory = self.storage.impl.bytes(writable)
        first_byte = self.storage_offset * itemsize
        try:
            return np.ndarray(self.sizes, self.dtype.raw, memory, first_byte, tuple(steps))
        except (TypeError, ValueError):  # NumPy's bounds check: a storage shrunk under its view
            stride_rules.check_in_bounds(
                self.sizes, self.strides, self.storage_offset, itemsize, self.storage.nbytes
            )
            raise

    def __repr__(self) -> str:
        return (
            f"TensorImpl({self.dtype.name}, {self.device}, sizes={list(self.sizes)}, "
            f"strides={list(self.strides)}, storage_offset={self.storage_offset})"
        )


def empty(sizes: Ints, dtype: DType, device: Device = CPU) -> TensorImpl:
    """A contiguous tensor over a storage of its own, holding whatever the memory held."""
    return empty_strided(sizes, contiguous_strides(sizes), dtype, device)


def empty_strided(sizes: Ints, strides: Ints, dtype: DType, device: Device = CPU) -> TensorImpl:
    """A tensor with these strides over a storage just large enough.

    Raises   RuntimeError   a size or stride is negative, or there is not enough memory

    Source   aten/src/ATen/EmptyTensor.cpp  empty_strided_generic
    """
    for size in sizes:
        if size < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {size}: {list(sizes)}"
            )
    if any(stride < 0 for stride in strides):
        raise RuntimeError(f"strides must not be negative: {list(strides)}")
    if len(sizes) != len(strides):
        raise RuntimeError(
            f"dimensionality of sizes ({len(sizes)}) must match dimensionality of strides "
            f"({len(strides)})"
        )
    nbytes = stride_rules.storage_nbytes(sizes, strides, dtype.itemsize)
    return TensorImpl(Storage.allocate(nbytes, device), dtype, sizes, strides)
