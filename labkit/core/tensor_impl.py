"""What a tensor is: sizes, strides and an offset over a storage, plus a shared version."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import allocator
from labkit.core import strides as stride_rules
from labkit.core.allocator import DataPtr
from labkit.core.device import CPU, Device
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.core.dtype import DType
from labkit.core.memory_format import (
    Ints,
    MemoryFormat,
    contiguous_strides,
    is_channels_last_contiguous,
    is_contiguous,
)
from labkit.core.storage import Storage, StorageImpl
from labkit.core.thread_local_state import CarriedLocal


class VersionCounter:
    """Counts the writes; every view of a tensor shares one.

    Source   c10/core/TensorImpl.h  VariableVersion
    """

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0


class _KeySets(dict[str, DispatchKeySet]):
    """Device type -> the key set of a fresh tensor there; made when first asked for."""

    def __init__(self, *autograd: str) -> None:
        self.autograd = autograd

    def __missing__(self, device_type: str) -> DispatchKeySet:
        backend = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}.get(device_type, "PrivateUse1")
        layers = [f"Autograd{backend}", "ADInplaceOrView"] if self.autograd else []
        autocast = [] if backend == "Meta" else [f"Autocast{backend}"]
        made = self[device_type] = DispatchKeySet(backend, *layers, *autocast)
        return made


_ORDINARY, _INFERENCE = _KeySets("Autograd"), _KeySets()


class _Local(CarriedLocal):
    key_sets = _ORDINARY


_LOCAL = _Local()


def make_inference_tensors(enabled: bool) -> bool:
    """Fresh tensors of this thread carry no autograd keys from now on, or carry them again.

    Returns what was so before.

    Source   c10/core/TensorImpl.cpp  TensorImpl::TensorImpl (InferenceMode::is_enabled)
    """
    before = _LOCAL.key_sets is _INFERENCE
    _LOCAL.key_sets = _INFERENCE if enabled else _ORDINARY
    return before


def key_set_on(device: Device) -> DispatchKeySet:
    """The key set of a fresh tensor on a device."""
    return _LOCAL.key_sets[device.type]


class TensorImpl:
    """Sizes, strides and an offset (all in elements) over a storage of bytes.

    device             where the storage is
    base               the tensor that this one is a view of, itself never a view; or None
    version_counter    shared by all views of one tensor
    __dict__           attributes that a caller sets, as on PyTorch's Python objects
    is_wrapped_number  True for a Python number on its way into an operator
    autograd_meta      what `labkit.autograd` keeps of it; None while it keeps nothing

    Source   c10/core/TensorImpl.h  TensorImpl
    Differs  `labkit.Tensor` is a subclass without slots of its own (`set_python_class`), so a
             tensor and its Python face are one object; PyTorch keeps two that hold each other.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_array", "_array_memory", "_key_set", "_storage",
        "_storage_offset", "_version_counter", "autograd_meta", "base", "device", "dtype",
        "is_wrapped_number", "sizes", "strides",
    )  # fmt: skip

    _array: NDArray[Any] | None
    _array_memory: DataPtr | None
    _key_set: DispatchKeySet
    _storage: Storage | None
    _storage_offset: int
    _version_counter: VersionCounter | None
    autograd_meta: Any
    base: "TensorImpl | None"
    device: Device
    dtype: DType
    is_wrapped_number: bool
    sizes: Ints
    strides: Ints

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
        self._storage = storage
        self._storage_offset = storage_offset
        self._version_counter = version_counter
        self._array = self._array_memory = None
        self.device = storage.impl.data_ptr.device
        self._key_set = key_set_on(self.device)
        self.autograd_meta = None
        self.dtype = dtype
        self.sizes = sizes
        self.strides = strides
        self.base = base
        self.is_wrapped_number = False

    def dim(self) -> int:
        """How many dimensions."""
        return len(self.sizes)

    def numel(self) -> int:
        """How many elements."""
        return math.prod(self.sizes)

    def storage_offset(self) -> int:
        """Elements in the storage before the first one."""
        return self._storage_offset

    def storage(self) -> Storage:
        """The bytes: this tensor's own reference to them, counted once."""
        if self._storage is None:
            self._storage = self._adopt_array()
        return self._storage

    @property
    def version_counter(self) -> VersionCounter:
        """What counts the writes to this tensor and to its views."""
        if self._version_counter is None:
            self._version_counter = VersionCounter()
        return self._version_counter

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def version(self) -> int:
        """How many in-place writes this tensor and its views have seen."""
        counter = self._version_counter
        return 0 if counter is None else counter.version

    def bump_version(self) -> None:
        """Note an in-place write."""
        self.version_counter.version += 1

    def is_contiguous(self, memory_format: MemoryFormat = MemoryFormat.contiguous_format) -> bool:
        """True when the elements lie in the format's order without gaps."""
        if memory_format is MemoryFormat.channels_last:
            return self.dim() == 4 and is_channels_last_contiguous(self.sizes, self.strides)
        if memory_format is MemoryFormat.channels_last_3d:
            return self.dim() == 5 and is_channels_last_contiguous(self.sizes, self.strides)
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
        base = self.base
        view = make(
            Storage(self.storage().impl),
            dtype or self.dtype,
            sizes,
            strides,
            storage_offset,
            self.version_counter,
            self if base is None else base,
        )
        view._key_set = self._key_set  # a view made in inference mode is what its base is
        return view

    def shallow_copy_and_detach(
        self, version_counter: VersionCounter | None = None
    ) -> "TensorImpl":
        """The same elements in a tensor that is nobody's view.

        version_counter  a new one when None

        Source   c10/core/TensorImpl.h  TensorImpl::shallow_copy_and_detach
        """
        return make(
            Storage(self.storage().impl),
            self.dtype,
            self.sizes,
            self.strides,
            self._storage_offset,
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
        offset = self._storage_offset if storage_offset is None else storage_offset
        if len(sizes) != len(strides):
            raise RuntimeError(
                f"mismatch in length of strides and shape: {list(strides)} for {list(sizes)}"
            )
        stride_rules.check_in_bounds(sizes, strides, offset, self.itemsize, self.storage().nbytes)
        self.sizes, self.strides, self._storage_offset = sizes, strides, offset
        self._array = None

    def is_alias_of(self, other: "TensorImpl") -> bool:
        """True when both are views of one storage."""
        return self.storage().impl is other.storage().impl

    def data_ptr(self) -> int:
        """The address of the first element, for writing; 0 when the tensor is empty.

        Source   c10/core/TensorImpl.h  TensorImpl::mutable_data
        """
        if 0 in self.sizes:
            return 0
        storage = TensorImpl.storage(self)  # our own reference: a handle would be counted
        return storage.data_ptr() + self._storage_offset * self.dtype.itemsize

    def const_data_ptr(self) -> int:
        """The address of the first element, for reading: a lazy clone stays one.

        Source   c10/core/TensorImpl.h  TensorImpl::data
        """
        if 0 in self.sizes:
            return 0
        memory = TensorImpl.storage(self).impl.data_ptr
        return memory.address + self._storage_offset * self.dtype.itemsize

    def raw(self, writable: bool = False) -> NDArray[Any]:
        """The elements as a NumPy array of `dtype.raw` over the storage itself: a window, no copy.

        Raises   RuntimeError   the elements lie outside the storage, or not on the host; or there
                                are more dimensions than NumPy's 64
        """
        storage = self._storage
        if storage is None:
            assert self._array is not None
            return self._array
        if self._array is not None and self._array_memory is storage.impl.data_ptr:
            return self._array
        if 0 in self.sizes:
            return np.empty(self.sizes, self.dtype.raw)
        itemsize = self.dtype.itemsize
        steps = [  # a dimension of size 1 may have any stride, even one NumPy cannot hold
            stride * itemsize if size > 1 else 0
            for size, stride in zip(self.sizes, self.strides, strict=True)
        ]
        memory = storage.impl.bytes(writable)
        first_byte = self._storage_offset * itemsize
        try:
            array = np.ndarray(self.sizes, self.dtype.raw, memory, first_byte, tuple(steps))
        except (TypeError, ValueError) as refusal:
            if "maximum supported dimension" in str(refusal):
                many = f"as many dimensions as this tensor: {len(self.sizes)}"
                raise RuntimeError(f"a NumPy array of its memory cannot have {many}") from refusal
            # NumPy's bounds check: a storage shrunk under its view
            stride_rules.check_in_bounds(
                self.sizes, self.strides, self._storage_offset, itemsize, storage.nbytes
            )
            raise
        # Kept only where nobody counts host memory, which it holds on to; and a window for reading
        # may be over memory shared with a lazy clone.
        if writable and allocator.serves_host_by_default():
            self._array, self._array_memory = array, storage.impl.data_ptr
        return array

    def _adopt_array(self) -> Storage:
        """The NumPy memory of a fresh result as a storage, made when somebody asks for it."""
        array = self._array
        assert array is not None
        data_ptr = DataPtr(array.ctypes.data, CPU, array)
        self._array_memory = data_ptr
        return Storage(
            StorageImpl(data_ptr, array.nbytes, allocator.get_allocator("cpu"), resizable=True)
        )

    def __repr__(self) -> str:
        return (
            f"TensorImpl({self.dtype.name}, {self.device}, sizes={list(self.sizes)}, "
            f"strides={list(self.strides)}, storage_offset={self._storage_offset})"
        )


_python_class: type[TensorImpl] = TensorImpl


def set_python_class(python_class: type[TensorImpl]) -> None:
    """Every tensor made from now on is of this class, which has no slots of its own.

    Source   torch/csrc/autograd/python_variable.cpp  THPVariableClass
    """
    global _python_class
    _python_class = python_class


def make(
    storage: Storage,
    dtype: DType,
    sizes: Ints,
    strides: Ints,
    storage_offset: int = 0,
    version_counter: VersionCounter | None = None,
    base: TensorImpl | None = None,
) -> TensorImpl:
    """A `TensorImpl` of the registered Python class; the numbers are taken as they are."""
    self: TensorImpl = object.__new__(_python_class)
    TensorImpl.__init__(self, storage, dtype, sizes, strides, storage_offset, version_counter, base)
    return self


def from_array(
    array: NDArray[Any], dtype: DType, sizes: Ints, strides: Ints | None = None
) -> TensorImpl:
    """A host tensor that owns the memory of a fresh, dense NumPy result.

    array    of `dtype.raw`, these sizes and (in elements) these strides, nobody else's
    strides  dense: the storage is exactly the array; None when it is contiguous

    The storage is made when somebody asks for it. Where the host's allocator is not PyTorch's
    default one, the elements move into memory that it gives.
    """
    if strides is None:
        strides = contiguous_strides(sizes)
    if not allocator.serves_host_by_default():
        moved = empty_strided(sizes, strides, dtype)
        moved.raw(writable=True)[...] = array
        return moved
    self: TensorImpl = object.__new__(_python_class)
    self._storage = self._version_counter = self.autograd_meta = self.base = None
    self._array = array
    self._array_memory = None
    self._storage_offset = 0
    self._key_set = _LOCAL.key_sets["cpu"]
    self.device = CPU
    self.dtype = dtype
    self.sizes = sizes
    self.strides = strides
    self.is_wrapped_number = False
    return self


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
    return make(Storage.allocate(nbytes, device), dtype, sizes, strides)
