"""Operators that make tensors: empty, of one value, of ranges, and others like a given one.

Source   aten/src/ATen/native/TensorFactories.cpp, RangeFactories.cpp
"""

from typing import Any

from labkit.core import dtype as dtypes
from labkit.core import tensor_impl
from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.memory_format import Ints, MemoryFormat, strides_for
from labkit.core.promotion import get_default_dtype
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy, tensor_new

EXPLICIT = "CompositeExplicitAutograd"
OPTIONS = (
    "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
)
_LIKE = f"{OPTIONS}, MemoryFormat? memory_format=None) -> Tensor"


def refuse_other_memory(layout: Any, pin_memory: bool | None) -> None:
    """Pass for ordinary memory.

    Raises   RuntimeError   pinned memory, or a layout other than strided
    """
    if pin_memory:
        raise RuntimeError("pin_memory: labkit's operators make ordinary host memory only")
    if layout is not None and "strided" not in str(layout):
        raise RuntimeError(f"layout {layout!r}: labkit has strided tensors only")


def scalar_type(dtype: Any, otherwise: DType) -> DType:
    """A `ScalarType` argument: 4, as schemas spell their default of int64, is that type.

    Source   torch/headeronly/core/ScalarType.h  ScalarType
    """
    if dtype is None:
        return otherwise
    found: DType = dtypes.int64 if dtype == 4 else dtype
    return found


def sizes_of(name: str, size: Any) -> Ints:
    """A size list as a tuple.

    Raises   RuntimeError   a negative size
    """
    sizes = tuple([int(each) for each in size])
    for each in sizes:
        if each < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {each}: {name}({list(sizes)})"
            )
    return sizes


# -- empty, and of one value ----------------------------------------------------------------------


@kernel(
    f"empty.memory_format(SymInt[] size, {OPTIONS}, MemoryFormat? memory_format=None) -> Tensor",
    EXPLICIT,
    variants="function",
)
def empty(
    size: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device | None = None,
    pin_memory: bool | None = None,
    memory_format: MemoryFormat | None = None,
) -> TensorImpl:
    """A new tensor, holding whatever the memory held."""
    refuse_other_memory(layout, pin_memory)
    sizes = sizes_of("empty", size)
    strides = strides_for(sizes, memory_format or copy.contiguous_format)
    return tensor_impl.empty_strided(sizes, strides, dtype or get_default_dtype(), device or CPU)


@kernel(
    f"empty_strided(SymInt[] size, SymInt[] stride, {OPTIONS}) -> Tensor",
    EXPLICIT,
    variants="function",
)
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device | None = None,
    pin_memory: bool | None = None,
) -> TensorImpl:
    """A new tensor with these strides, in elements."""
    refuse_other_memory(layout, pin_memory)
    sizes, strides = sizes_of("empty_strided", size), tuple([int(each) for each in stride])
    return tensor_impl.empty_strided(sizes, strides, dtype or get_default_dtype(), device or CPU)


def _of_one_value(name: str, value: int) -> None:
    def made(size: Any, **options: Any) -> TensorImpl:
        return tensor_new.filled(empty(size, **options), value)

    def like(self: TensorImpl, **options: Any) -> TensorImpl:
        return tensor_new.filled(empty_like(self, **options), value)

    def new(self: TensorImpl, size: Any, **options: Any) -> TensorImpl:
        return tensor_new.filled(new_empty(self, size, **options), value)

    kernel(f"{name}(SymInt[] size, {OPTIONS}) -> Tensor", EXPLICIT, variants="function")(made)
    kernel(f"{name}_like(Tensor self, {_LIKE}", EXPLICIT, variants="function")(like)
    kernel(
        f"new_{name}(Tensor self, SymInt[] size, {OPTIONS}) -> Tensor", EXPLICIT, variants="method"
    )(new)


@kernel(f"empty_like(Tensor self, {_LIKE}", EXPLICIT, variants="function")
def empty_like(
    self: TensorImpl,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device | None = None,
    pin_memory: bool | None = None,
    memory_format: MemoryFormat | None = None,
) -> TensorImpl:
    """A new tensor of the same sizes, in the same order of dimensions."""
    refuse_other_memory(layout, pin_memory)
    return copy.empty_like(self, memory_format or copy.preserve_format, dtype, device)


@kernel(f"new_empty(Tensor self, SymInt[] size, {OPTIONS}) -> Tensor", EXPLICIT, variants="method")
def new_empty(
    self: TensorImpl,
    size: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device | None = None,
    pin_memory: bool | None = None,
) -> TensorImpl:
    """A new tensor of the same type, on the same device."""
    return empty(
        size,
        dtype=dtype or self.dtype,
        layout=layout,
        device=device or self.device,
        pin_memory=pin_memory,
    )


_of_one_value("zeros", 0)
_of_one_value("ones", 1)


@kernel(
    f"full(SymInt[] size, Scalar fill_value, {OPTIONS}) -> Tensor", EXPLICIT, variants="function"
)
def full(
    size: Any, fill_value: complex, *, dtype: DType | None = None, **options: Any
) -> TensorImpl:
    """A new tensor of one value, in the type of the value when none is given."""
    chosen = dtype or tensor_new.infer_dtype([fill_value])
    return tensor_new.filled(empty(size, dtype=chosen, **options), fill_value)


@kernel(f"full_like(Tensor self, Scalar fill_value, {_LIKE}", EXPLICIT, variants="function")
def full_like(self: TensorImpl, fill_value: complex, **options: Any) -> TensorImpl:
    """One value, the same sizes, the same order of dimensions."""
    return tensor_new.filled(empty_like(self, **options), fill_value)


@kernel("fill.Scalar(Tensor self, Scalar value) -> Tensor", EXPLICIT, variants="function")
def fill(self: TensorImpl, value: complex) -> TensorImpl:
    """One value in the shape and layout of a tensor."""
    return tensor_new.filled(copy.empty_like(self), value)


# -- ranges ---------------------------------------------------------------------------------------


def _arange(
    start: float,
    end: float,
    step: float = 1,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Device | None = None,
    pin_memory: bool | None = None,
) -> TensorImpl:
    refuse_other_memory(layout, pin_memory)
    made = tensor_new.arange(start, end, step, dtype)
    if device is None or device == CPU:
        return made
    return copy.to_copy(made, made.dtype, device)


@kernel(f"arange(Scalar end, {OPTIONS}) -> Tensor", EXPLICIT, variants="function")
def arange(end: float, **options: Any) -> TensorImpl:
    """The numbers from 0 to before an end."""
    return _arange(0, end, **options)


kernel(
    f"arange.start(Scalar start, Scalar end, {OPTIONS}) -> Tensor", EXPLICIT, variants="function"
)(_arange)
kernel(
    f"arange.start_step(Scalar start, Scalar end, Scalar step=1, {OPTIONS}) -> Tensor",
    EXPLICIT,
    variants="function",
)(_arange)
