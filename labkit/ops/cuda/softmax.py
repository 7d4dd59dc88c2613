"""Softmax and log_softmax of float32, along any dimension, and their gradients.

Source   aten/src/ATen/native/cuda/SoftMax.cu
"""

import math
from typing import Any

from labkit.core import tensor_impl
from labkit.core.dtype import DType
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import NoKernel, check_floats, read, shelf, written
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.tensors import copy

THREADS = 128


def _rows(self: TensorImpl, dim: int) -> tuple[int, int, int]:
    """How many rows there are, how long each is, and how far apart its elements lie."""
    axis = maybe_wrap_dim(dim, self.dim())
    sizes = self.sizes or (1,)
    cols, inner = sizes[axis], math.prod(sizes[axis + 1 :])
    return math.prod(sizes[:axis]) * inner, cols, inner


def _launch(op: str, rung: str, inputs: list[TensorImpl], dim: int, log: bool) -> TensorImpl:
    check_floats(*inputs)
    rows, cols, inner = _rows(inputs[0], dim)
    result = tensor_impl.empty(inputs[0].sizes, inputs[0].dtype, inputs[0].device)
    if result.numel():
        packed = [copy.contiguous(each) for each in inputs]
        arguments = [*[read(each) for each in packed], written(result), rows, cols, inner, log]
        shelf(op, rung)((rows,), (THREADS,), arguments)
    return result


def _forward(log: bool) -> Any:
    def forward(self: TensorImpl, dim: int, half_to_float: bool) -> TensorImpl:
        if half_to_float:
            raise NoKernel("its kernel computes in float32, and got halves to make floats of")
        return _launch("softmax", "3_online", [self], dim, log)

    return forward


def _backward(log: bool) -> Any:
    def backward(
        grad_output: TensorImpl, output: TensorImpl, dim: int, input_dtype: DType
    ) -> TensorImpl:
        if grad_output.sizes != output.sizes or input_dtype is not output.dtype:
            raise NoKernel("its kernel takes a gradient of the result's shape and type")
        return _launch("softmax_backward", "2_block_per_row", [grad_output, output], dim, log)

    return backward


for _log, _name in ((False, "_softmax"), (True, "_log_softmax")):
    device_kernel(_name)(_forward(_log))
    device_kernel(f"{_name}_backward_data")(_backward(_log))
