"""Moving elements: fill, copy between layouts, element types and devices, clone, contiguous.

Bytes of equal element types move unread, so NaN payloads survive; other types are converted by
value. From device to device `labkit.ops.cuda.copying` has kernels. Where it has none, and between
devices, a tensor is staged: the span of its storage comes to the host, and goes back when it was
written; what never had to leave the device is counted in `labkit.ops.fallback`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import strides as stride_rules
from labkit.core import tensor_impl
from labkit.core.allocator import copy_bytes
from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.formats import convert, decode, encode, largest_finite
from labkit.core.memory_format import Ints, MemoryFormat, strides_for
from labkit.core.memory_overlap import assert_no_internal_overlap, assert_no_partial_overlap
from labkit.core.storage import Storage
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda import copying

contiguous_format = MemoryFormat.contiguous_format
preserve_format = MemoryFormat.preserve_format


def values(self: TensorImpl) -> NDArray[Any]:
    """The elements as numbers NumPy can hold exactly; a window where no conversion is needed."""
    return decode(on_host(self).raw(), self.dtype)


def values_as(self: TensorImpl, compute: DType) -> NDArray[Any]:
    """The elements in the type of a computation; two-byte floats as float32."""
    raw = on_host(self).raw()
    values = decode(convert(raw, self.dtype, compute), compute)
    return values.astype(np.float32) if values.dtype == np.float16 else values


def item(self: TensorImpl) -> Any:
    """The only element, as a Python number.

    Raises   RuntimeError   not exactly one element
    """
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    return values(self).reshape(()).item()


def on_host(self: TensorImpl) -> TensorImpl:
    """The tensor itself, or one with the same sizes and strides whose bytes are on the host."""
    if self.device.type == "cpu":
        return self
    staged = tensor_impl.empty_strided(self.sizes, self.strides, self.dtype)
    first_byte, nbytes = _span(self)
    source = self.storage().const_data_ptr() + first_byte
    copy_bytes(staged.storage().data_ptr(), CPU, source, self.device, nbytes)
    return staged


def _span(self: TensorImpl) -> tuple[int, int]:
    """The first byte in the storage, and how many bytes to the end of the last element."""
    nbytes = stride_rules.storage_nbytes(self.sizes, self.strides, self.itemsize)
    return self.storage_offset() * self.itemsize, nbytes


def store(self: TensorImpl, raw: NDArray[Any]) -> None:
    """Write raw elements (`dtype.raw`, broadcastable) without checks and without a new version."""
    if self.device.type == "cpu":
        self.raw(writable=True)[...] = raw
        return
    staged = on_host(self)  # the bytes between the elements must go back unchanged
    staged.raw(writable=True)[...] = raw
    first_byte, nbytes = _span(self)
    destination = self.storage().data_ptr() + first_byte
    copy_bytes(destination, self.device, staged.storage().const_data_ptr(), CPU, nbytes)


def write(self: TensorImpl, values: NDArray[Any], rounded_to: DType | None = None) -> None:
    """Write numbers (broadcastable), converted, as `store` writes raw elements.

    rounded_to   the element type of the answer, where the tensor's own is another
    """
    dtype = rounded_to or self.dtype
    store(self, convert(encode(np.asarray(values), dtype), dtype, self.dtype))


def copy_(self: TensorImpl, source: TensorImpl) -> TensorImpl:
    """Every element of `self` becomes the broadcast element of `source`, converted.

    Raises   RuntimeError   shapes that do not broadcast to `self`; `self` shows an element twice;
                            the two share part of their memory

    Source   aten/src/ATen/native/Copy.cpp  copy_
    """
    if _same_data(self, source):
        self.bump_version()
        return self
    assert_no_internal_overlap(self.sizes, self.strides)
    assert_no_partial_overlap(self, source)
    shape = stride_rules.broadcast_shapes(self.sizes, source.sizes)
    if shape != self.sizes:
        raise RuntimeError(
            f"output with shape {list(self.sizes)} doesn't match the broadcast shape {list(shape)}"
        )
    if self.numel():
        if _moved("copy_", self, source):
            self.bump_version()
            return self
        raw = convert(on_host(source).raw(), source.dtype, self.dtype)
        if self.is_alias_of(source):
            raw = raw.copy()  # NumPy and PyTorch may walk overlapping elements in another order
        store(self, raw)
    self.bump_version()
    return self


def _moved(name: str, destination: TensorImpl, source: TensorImpl) -> bool:
    """Whether the elements went from device to device; when they could not, that is counted."""
    if "cpu" in (destination.device.type, source.device.type):
        return False
    if destination.is_alias_of(source):  # elements may be read after they were overwritten
        source = to_copy(source, source.dtype, source.device)
    return copying.copy(name, destination, source)


def _same_data(a: TensorImpl, b: TensorImpl) -> bool:
    return a.is_alias_of(b) and (a.dtype, a.sizes, a.strides, a.storage_offset()) == (
        b.dtype, b.sizes, b.strides, b.storage_offset()
    )  # fmt: skip


def fill_(self: TensorImpl, value: complex | bool, check_small_floats: bool = True) -> TensorImpl:
    """Every element becomes `value`, converted; one that is shown twice is written twice.

    Raises   RuntimeError   the value does not fit the type
    """
    fill(self, value, check_small_floats)
    self.bump_version()
    return self


def fill(self: TensorImpl, value: complex | bool, check_small_floats: bool = True) -> None:
    """Every element is `value`, without a new version; on a device a kernel does it.

    Raises   RuntimeError   the value does not fit the type
    """
    raw = scalar_raw(value, self.dtype, check_small_floats)
    on_device = self.device.type != "cpu"
    if self.numel() and not (on_device and copying.fill(self, value)):
        store(self, raw)


def scalar_raw(
    value: complex | bool, dtype: DType, check_small_floats: bool = True
) -> NDArray[Any]:
    """One raw element for a Python number.

    check_small_floats  False lets a number too large for a float of one or two bytes become
                        infinity, as an assignment does; `fill_` refuses it

    Raises   RuntimeError    the number lies outside the type; or it is complex and the type real
             OverflowError   an integer beyond 64 bits

    Source   c10/core/Scalar.h  Scalar::to
             c10/util/TypeCast.h  overflows
    """
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(f"int too big to convert: {value}")
    if dtype.kind == "bool":
        return np.array(value != 0)
    refusal = f"value cannot be converted to type {dtype.name} without overflow: {value}"
    if isinstance(value, complex) and not dtype.is_complex:
        if value.imag != 0:  # NaN counts as not zero
            raise RuntimeError(refusal)
        value = value.real
    if dtype.is_integral:
        assert not isinstance(value, complex)
        highest = int(np.iinfo(dtype.raw).max)
        # A negative integer wraps into an unsigned type, as far as its two's complement goes.
        wraps = isinstance(value, int) and not dtype.is_signed
        lowest = -highest if wraps else int(np.iinfo(dtype.raw).min)
        if not lowest <= value <= highest:
            raise RuntimeError(refusal)
        return (
            np.array(int(value) & ((1 << 8 * dtype.itemsize) - 1), np.uint64)
            .astype(f"u{dtype.itemsize}")
            .view(dtype.raw)
        )
    if dtype is dtypes.complex32 and check_small_floats:
        _check_float_range(value, dtypes.complex64, refusal)  # fill_ asks about floats, not halves
    elif check_small_floats or dtype.itemsize > 2:
        _check_float_range(value, dtype, refusal)
    return encode(np.array(value), dtype)


def _check_float_range(value: complex | bool, dtype: DType, refusal: str) -> None:
    largest = largest_finite(dtype)
    parts = [value.real, value.imag] if isinstance(value, complex) else [value]
    if any(abs(part) > largest and not math.isinf(part) for part in parts):
        raise RuntimeError(refusal)


def empty_like(
    self: TensorImpl,
    memory_format: MemoryFormat = preserve_format,
    dtype: DType | None = None,
    device: Device | None = None,
) -> TensorImpl:
    """A new tensor of the same sizes; `preserve_format` keeps the order of the dimensions.

    Source   aten/src/ATen/native/TensorFactories.cpp  empty_like
    """
    strides = strides_like(self, memory_format)
    return tensor_impl.empty_strided(
        self.sizes, strides, dtype or self.dtype, device or self.device
    )


def strides_like(self: TensorImpl, memory_format: MemoryFormat = preserve_format) -> Ints:
    """The strides, in elements, of a new tensor made after this one."""
    if memory_format is not preserve_format:
        return strides_for(self.sizes, memory_format)
    if self.is_non_overlapping_and_dense:
        return self.strides
    return stride_rules.infer_dense_strides(self.sizes, self.strides)


def clone(self: TensorImpl, memory_format: MemoryFormat = preserve_format) -> TensorImpl:
    """A copy in a storage of its own."""
    return to_copy(self, self.dtype, self.device, memory_format)


def to_copy(
    self: TensorImpl,
    dtype: DType,
    device: Device,
    memory_format: MemoryFormat = preserve_format,
) -> TensorImpl:
    """A copy with another element type, device or order of dimensions."""
    result = empty_like(self, memory_format, dtype, device)
    if result.numel():
        name = "clone" if dtype is self.dtype else "_to_copy"
        if not _moved(name, result, self):
            store(result, convert(on_host(self).raw(), self.dtype, dtype))
    return result


def contiguous(self: TensorImpl, memory_format: MemoryFormat = contiguous_format) -> TensorImpl:
    """The tensor itself when it has that format already, else a copy that has.

    Raises   RuntimeError   `preserve_format`, or a format for another number of dimensions
    """
    if self.is_contiguous(memory_format):
        return self
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return clone(self, memory_format)


def lazy_clone(self: TensorImpl) -> TensorImpl:
    """A copy whose bytes are copied only when either side writes.

    Source   aten/src/ATen/native/AutogradComposite.cpp  _lazy_clone
    """
    storage = Storage(self.storage().impl.lazy_clone())
    return tensor_impl.make(storage, self.dtype, self.sizes, self.strides, self.storage_offset())
