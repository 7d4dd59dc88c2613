"""Convolutions with a filter per channel, and their gradients, by their kernels of `kernels/`.

Source   aten/src/ATen/native/cuda/DepthwiseConv2d.cu
"""

from typing import Any

from labkit.core import tensor_impl
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import blocks, read, shelf, written

STRIP = 8
"""Elements of a result that a thread owns, one below the other."""

CHUNK = 4096
"""Positions whose part of a weight's gradient one block adds up."""


def serves(sizes: Any) -> bool:
    """Whether each filter reads one channel: the implicit product would have a row of one."""
    return bool(1 < sizes.groups == sizes.in_channels)


def output(x: TensorImpl, w: TensorImpl, bias: TensorImpl | None, y: TensorImpl, conv: Any) -> None:
    """`y` holds `x` under every filter."""
    into = written(y)
    kernel = shelf("depthwise_conv2d", "3_rows_in_registers")
    kernel((_strips(y),), (256,), (read(x), read(w), read(bias), into, conv))


def input_gradient(dy: TensorImpl, w: TensorImpl, dx: TensorImpl, conv: Any) -> None:
    """`dx` holds the gradient of what was convolved."""
    into = written(dx)
    kernel = shelf("depthwise_conv2d_input_gradient", "2_rows_in_registers")
    kernel((_strips(dx),), (256,), (read(dy), read(w), into, conv))


def weight_gradient(x: TensorImpl, dy: TensorImpl, dw: TensorImpl, conv: Any) -> None:
    """`dw` holds the gradient of the filters: parts of the sums by one kernel, added by another."""
    filters = conv.out_channels
    chunks = blocks(dy.numel() // filters, CHUNK)
    partial = tensor_impl.empty((chunks, *dw.sizes), dw.dtype, dw.device)
    op, rung = "depthwise_conv2d_weight_gradient", "2_taps_in_registers"
    into = written(partial)
    shelf(op, rung)((filters * chunks,), (256,), (read(x), read(dy), into, conv, CHUNK))
    into = written(dw)
    grid = (blocks(dw.numel(), 256),)
    shelf(op, rung, "sum")(grid, (256,), (read(partial), into, dw.numel(), chunks))


def _strips(result: TensorImpl) -> int:
    """Blocks of 256 threads with a strip each. `result` is [N, C, H, W], or [N, C, W]."""
    *_, width = result.sizes
    height = result.sizes[2] if result.dim() == 4 else 1
    return blocks(result.numel() // (height * width) * blocks(height, STRIP) * width, 256)
