"""Convolutions with a filter per channel, and their gradients, by their kernels of `kernels/`.

Source   aten/src/ATen/native/cuda/DepthwiseConv2d.cu
"""

from typing import Any

from labkit.core import tensor_impl
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import blocks, read, shelf, written

CHUNK = 4096
"""Positions whose part of a weight's gradient one block adds up; a multiple of 16."""


def serves(sizes: Any) -> bool:
    """Whether each filter reads one channel: the implicit product would have a row of one."""
    return bool(1 < sizes.groups == sizes.in_channels)


def output(x: TensorImpl, w: TensorImpl, bias: TensorImpl | None, y: TensorImpl, conv: Any) -> None:
    """`y` holds `x` under every filter."""
    into = written(y)
    kernel = shelf("depthwise_conv2d", "3_rows_in_registers")
    kernel(*kernel.geometry(**conv.letters), (read(x), read(w), read(bias), into, conv))


def input_gradient(dy: TensorImpl, w: TensorImpl, dx: TensorImpl, conv: Any) -> None:
    """`dx` holds the gradient of what was convolved."""
    into = written(dx)
    kernel = shelf("depthwise_conv2d_input_gradient", "2_rows_in_registers")
    kernel(*kernel.geometry(**conv.letters), (read(dy), read(w), into, conv))


def weight_gradient(x: TensorImpl, dy: TensorImpl, dw: TensorImpl, conv: Any) -> None:
    """`dw` holds the gradient of the filters."""
    in_parts("depthwise_conv2d_weight_gradient", "2_taps_in_registers", x, dy, dw, conv)


def in_parts(op: str, rung: str, x: TensorImpl, dy: TensorImpl, dw: TensorImpl, conv: Any) -> None:
    """`dw` holds the gradient of the filters: parts of the sums by one kernel, added by another."""
    chunks = blocks(dy.numel() // conv.out_channels, CHUNK)
    partial = tensor_impl.empty((chunks, *dw.sizes), dw.dtype, dw.device)
    kernel, into = shelf(op, rung), written(partial)
    geometry = kernel.geometry(chunks=chunks, **conv.letters)
    kernel(*geometry, (read(x), read(dy), into, conv, CHUNK))
    kernel, into = shelf(op, rung, "sum"), written(dw)
    geometry = kernel.geometry(weights=dw.numel())
    kernel(*geometry, (read(partial), into, dw.numel(), chunks))
