"""Tensors joined on the device: each is copied into its part of the result.

Source   aten/src/ATen/native/cuda/Shape.cu
Differs  a copy per tensor, where PyTorch's kernel takes many at once
"""

from collections.abc import Sequence

from labkit.core import promotion, tensor_impl
from labkit.core.dtype import DType
from labkit.core.memory_format import MemoryFormat, strides_for
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import NoKernel, check_device
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.shape import joining as host
from labkit.ops.shape import view
from labkit.ops.tensors import copy


def _joined(
    tensors: Sequence[TensorImpl], axis: int, dtype: DType, layout: MemoryFormat
) -> TensorImpl:
    device = check_device(*tensors)
    sizes = list(tensors[0].sizes)
    sizes[axis] = sum([each.sizes[axis] for each in tensors])
    strides = strides_for(tuple(sizes), layout)
    result = tensor_impl.empty_strided(tuple(sizes), strides, dtype, device)
    start = 0
    for each in tensors:
        end = start + each.sizes[axis]
        copy.copy_(view.slice_(result, axis, start, end, 1), each)
        start = end
    result.version_counter.version = 0
    return result


@device_kernel("cat")
def cat(tensors: Sequence[TensorImpl], dim: int = 0) -> TensorImpl:
    """The tensors one after the other along a dimension, in the promoted element type."""
    operands, axis, dtype = host.checked(tensors, dim)
    if not operands:
        raise NoKernel("there is nothing to join")
    return _joined(operands, axis, dtype, host.layout(operands))


@device_kernel("stack")
def stack(tensors: Sequence[TensorImpl], dim: int = 0) -> TensorImpl:
    """The tensors side by side along a new dimension."""
    axis = host.checked_stack(tensors, dim)
    rows = [view.unsqueeze(each, axis) for each in tensors]
    dtype = promotion.result_type(*tensors)
    return _joined(rows, axis, dtype, MemoryFormat.contiguous_format)
