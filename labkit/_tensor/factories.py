"""New tensors, and what `torch` offers as functions on tensors.

Source   torch/csrc/autograd/python_torch_functions_manual.cpp
"""

from typing import Any

import numpy as np

from labkit._tensor import exchange
from labkit._tensor.arguments import integers
from labkit._tensor.devices import ready
from labkit._tensor.tensor import Tensor
from labkit.core import promotion
from labkit.core.dtype import DType
from labkit.core.strides import broadcast_shapes as _broadcast_shapes
from labkit.ops.tensors import copy, tensor_new


def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new leaf holding a copy of numbers, nested lists, an array or a tensor."""
    place = ready(device)
    if isinstance(data, np.ndarray | np.generic):
        data = from_numpy(np.array(data))
    if isinstance(data, Tensor):
        made = Tensor(copy.to_copy(data, dtype or data.dtype, place))
    else:
        made = Tensor(tensor_new.tensor(data, dtype, place))
    return made.requires_grad_(requires_grad) if requires_grad else made


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
    """The memory of anything that speaks DLPack, as a tensor; either sees the other's writes.

    Raises   BufferError   memory of a GPU, and the emulator serves `device="cuda"` here
    """
    return Tensor(exchange.from_dlpack(source))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape all shapes stretch to."""
    return _broadcast_shapes(*[integers((shape,), "broadcast_shapes") for shape in shapes])


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of all tensors in their common shape; those that have it already are themselves."""
    shape = _broadcast_shapes(*[tensor.shape for tensor in tensors])
    return tuple([each if each.shape == shape else each.expand(shape) for each in tensors])


def result_type(*operands: Any) -> DType:
    """The element type an operator on these tensors and numbers would compute in."""
    return promotion.result_type(*operands)


def equal(a: Tensor, b: Tensor) -> bool:
    """True when shapes and all values are equal."""
    return a.equal(b)


def is_tensor(obj: Any) -> bool:
    """True for a tensor of labkit."""
    return isinstance(obj, Tensor)


def numel(tensor: Tensor) -> int:
    """How many elements."""
    return tensor.numel()


def is_floating_point(tensor: Tensor) -> bool:
    """True for the real floating types."""
    return tensor.is_floating_point()


def is_complex(tensor: Tensor) -> bool:
    """True for complex types."""
    return tensor.is_complex()
