"""Copies, conversions and fills as operators.

Source   aten/src/ATen/native/Copy.cpp, TensorConversions.cpp, Fill.cpp
"""

from typing import Any

from labkit.core.device import Device
from labkit.core.dtype import DType
from labkit.core.memory_format import MemoryFormat, suggest_memory_format
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy
from labkit.ops.tensors.tensor_factories import EXPLICIT, OPTIONS

_DTYPE = "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"


@kernel("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", EXPLICIT)
def clone(self: TensorImpl, *, memory_format: MemoryFormat | None = None) -> TensorImpl:
    """A copy in a storage of its own."""
    return copy.clone(self, memory_format or copy.preserve_format)


@composite(
    "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
    variants="method",
)
def contiguous(
    self: TensorImpl, *, memory_format: MemoryFormat = MemoryFormat.contiguous_format
) -> TensorImpl:
    """The tensor itself when it has that format already, else a copy that has.

    Raises   RuntimeError   `preserve_format`, or a format for another number of dimensions
    """
    if not isinstance(memory_format, MemoryFormat):
        memory_format = MemoryFormat.contiguous_format
    if self.is_contiguous(memory_format):
        return self
    if memory_format is MemoryFormat.preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    made: TensorImpl = aten.clone.default(self, memory_format=memory_format)
    return made


@kernel(
    f"_to_copy(Tensor self, {OPTIONS}, bool non_blocking=False, MemoryFormat? memory_format=None) "
    "-> Tensor",
    EXPLICIT,
    variants="",
)
def _to_copy(
    self: TensorImpl,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: MemoryFormat | None = None,
) -> TensorImpl:
    """A copy with another element type, device or order of dimensions."""
    memory_format = memory_format or copy.preserve_format
    return copy.to_copy(self, dtype or self.dtype, device or self.device, memory_format)


def to(
    self: TensorImpl,
    dtype: DType,
    device: Device,
    copy: bool = False,
    memory_format: MemoryFormat | None = None,
) -> TensorImpl:
    """The tensor with another element type, device or format; itself when nothing changes.

    Source   aten/src/ATen/native/TensorConversions.cpp  to_will_alias, to_impl
    """
    same_place = device in (self.device, Device(self.device.type))
    suggested = suggest_memory_format(self.sizes, self.strides)
    formatted = memory_format in (None, MemoryFormat.preserve_format, suggested)
    if dtype is self.dtype and same_place and formatted and not copy:
        return self
    made: TensorImpl = aten._to_copy.default(
        self, dtype=dtype, device=device, memory_format=memory_format
    )
    return made


@composite(f"to.dtype(Tensor(a) self, ScalarType dtype, {_DTYPE}", variants="")
def to_dtype(
    self: TensorImpl,
    dtype: DType,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat | None = None,
) -> TensorImpl:
    """The tensor with another element type; itself when nothing changes."""
    return to(self, dtype, self.device, copy, memory_format)


@composite(f"to.device(Tensor(a) self, Device device, ScalarType dtype, {_DTYPE}", variants="")
def to_device(
    self: TensorImpl,
    device: Device,
    dtype: DType,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: MemoryFormat | None = None,
) -> TensorImpl:
    """The tensor on another device; itself when nothing changes."""
    return to(self, dtype, device, copy, memory_format)


@kernel(
    "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
    EXPLICIT,
    variants="method",
)
def copy_(self: TensorImpl, source: TensorImpl, non_blocking: bool = False) -> TensorImpl:
    """Every element becomes the broadcast, converted element of another tensor."""
    return copy.copy_(self, source)


@kernel("fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)", EXPLICIT)
def fill_scalar(self: TensorImpl, value: complex | bool) -> TensorImpl:
    """Every element becomes `value`, converted."""
    return copy.fill_(self, value)


@kernel("fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)", EXPLICIT)
def fill_tensor(self: TensorImpl, value: TensorImpl) -> TensorImpl:
    """Every element becomes the only element of a tensor.

    Raises   RuntimeError   the value has dimensions
    """
    if value.sizes:
        raise RuntimeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{value.dim()} dimensions."
        )
    return copy.copy_(self, value)


@kernel("zero_(Tensor(a!) self) -> Tensor(a!)", EXPLICIT)
def zero_(self: TensorImpl) -> TensorImpl:
    """Every element becomes 0."""
    return copy.fill_(self, 0)


@kernel("_local_scalar_dense(Tensor self) -> Scalar", EXPLICIT, variants="")
def _local_scalar_dense(self: TensorImpl) -> Any:
    """The only element, as a Python number."""
    return copy.item(self)


@kernel("_lazy_clone(Tensor self) -> Tensor", EXPLICIT, variants="method")
def _lazy_clone(self: TensorImpl) -> TensorImpl:
    """A copy whose bytes are copied only when either side writes."""
    return copy.lazy_clone(self)
