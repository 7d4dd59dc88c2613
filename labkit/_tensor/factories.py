"""New tensors, and what `torch` offers as functions on tensors.

Source   torch/csrc/autograd/python_torch_functions_manual.cpp
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from labkit._tensor.arguments import impl_of, integer, integers
from labkit._tensor.devices import ready
from labkit._tensor.tensor import Tensor
from labkit.core import promotion, tensor_impl
from labkit.core.dtype import DType
from labkit.core.memory_format import MemoryFormat, strides_for
from labkit.core.strides import broadcast_shapes as _broadcast_shapes
from labkit.ops import copy, tensor_new

Number = complex
Factory = Callable[..., Tensor]


def _leaf(factory: Factory) -> Factory:
    """The factory, also taking `requires_grad`."""

    @functools.wraps(factory)
    def made(*args: Any, requires_grad: bool = False, **options: Any) -> Tensor:
        result = factory(*args, **options)
        return result.requires_grad_() if requires_grad else result

    return made


contiguous_format = MemoryFormat.contiguous_format
preserve_format = MemoryFormat.preserve_format


@_leaf
def tensor(data: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A new tensor holding a copy of numbers, nested lists, an array or a tensor."""
    place = ready(device)
    if isinstance(data, Tensor):
        return Tensor(copy.to_copy(data.impl, dtype or data.dtype, place))
    if isinstance(data, np.ndarray | np.generic):
        impl = tensor_new.from_numpy(np.array(data))
        return Tensor(copy.to_copy(impl, dtype or impl.dtype, place))
    return Tensor(tensor_new.tensor(data, dtype, place))


def as_tensor(data: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The data as a tensor, sharing memory when element type and device allow it."""
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: Any) -> Tensor:
    """The memory of a NumPy array as a tensor: a write through either is seen by both."""
    return Tensor(tensor_new.from_numpy(array))


def from_dlpack(source: Any) -> Tensor:
    """The memory of anything that speaks DLPack on the host, as a tensor."""
    return from_numpy(np.from_dlpack(source))


@_leaf
def empty(
    *size: Any,
    dtype: DType | None = None,
    device: Any = None,
    memory_format: MemoryFormat = contiguous_format,
) -> Tensor:
    """A new tensor, holding whatever the memory held."""
    sizes = integers(size, "empty")
    if any(length < 0 for length in sizes):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(sizes)}")
    chosen = dtype or promotion.get_default_dtype()
    strides = strides_for(sizes, memory_format)
    return Tensor(tensor_impl.empty_strided(sizes, strides, chosen, ready(device)))


@_leaf
def empty_strided(
    size: Any, stride: Any, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """A new tensor with these strides, in elements, over a storage just large enough."""
    sizes, strides = integers((size,), "empty_strided"), integers((stride,), "empty_strided")
    chosen = dtype or promotion.get_default_dtype()
    return Tensor(tensor_impl.empty_strided(sizes, strides, chosen, ready(device)))


@_leaf
def zeros(*size: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A new tensor of zeros."""
    made = empty(*size, dtype=dtype, device=device)
    return Tensor(tensor_new.filled(made.impl, 0))


@_leaf
def ones(*size: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A new tensor of ones."""
    made = empty(*size, dtype=dtype, device=device)
    return Tensor(tensor_new.filled(made.impl, 1))


@_leaf
def full(size: Any, value: Number, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A new tensor of one value, in the element type of the value when none is given."""
    sizes = integers((size,), "full")
    return Tensor(tensor_new.full(sizes, value, dtype, ready(device)))


@_leaf
def arange(*bounds: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The numbers up to an end, from a start to an end, or in steps; the end is left out."""
    if not 1 <= len(bounds) <= 3:
        raise TypeError(f"arange() takes one to three bounds, got {len(bounds)}")
    start, end, step = [(0, *bounds, 1), (*bounds, 1), bounds][len(bounds) - 1]
    made = Tensor(tensor_new.arange(start, end, step, dtype))
    return made.to(ready(device))


@_leaf
def eye(n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones on the diagonal, zeros elsewhere."""
    rows = integer(n, "eye")
    columns = rows if m is None else integer(m, "eye")
    return Tensor(tensor_new.eye(rows, columns, dtype, ready(device)))


@_leaf
def empty_like(
    other: Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    memory_format: MemoryFormat = preserve_format,
) -> Tensor:
    """A new tensor of the same sizes, in the same order of dimensions."""
    place = other.device if device is None else ready(device)
    return Tensor(copy.empty_like(impl_of(other, "empty_like"), memory_format, dtype, place))


@_leaf
def zeros_like(other: Tensor, **options: Any) -> Tensor:
    """Zeros of the same sizes, in the same order of dimensions."""
    return Tensor(tensor_new.filled(empty_like(other, **options).impl, 0))


@_leaf
def ones_like(other: Tensor, **options: Any) -> Tensor:
    """Ones of the same sizes, in the same order of dimensions."""
    return Tensor(tensor_new.filled(empty_like(other, **options).impl, 1))


@_leaf
def full_like(other: Tensor, value: Number, **options: Any) -> Tensor:
    """One value, the same sizes, the same order of dimensions."""
    return Tensor(tensor_new.filled(empty_like(other, **options).impl, value))


def view_as_real(input: Tensor) -> Tensor:  # noqa: A002  PyTorch's name for it
    """Complex numbers as pairs."""
    return input.view_as_real()


def view_as_complex(input: Tensor) -> Tensor:  # noqa: A002
    """Pairs in the last dimension as complex numbers."""
    return input.view_as_complex()


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape all shapes stretch to."""
    return _broadcast_shapes(*[integers((shape,), "broadcast_shapes") for shape in shapes])


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of all tensors in their common shape; those that have it already are themselves."""
    shape = _broadcast_shapes(*[tensor.shape for tensor in tensors])
    return tuple([each if each.shape == shape else each.expand(shape) for each in tensors])


def result_type(*operands: Any) -> DType:
    """The element type an operator on these tensors and numbers would compute in."""
    return promotion.result_type(
        *[each.impl if isinstance(each, Tensor) else each for each in operands]
    )


def equal(a: Tensor, b: Tensor) -> bool:
    """True when shapes and all values are equal."""
    return a.equal(b)
