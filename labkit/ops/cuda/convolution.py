"""Convolutions of float32 and halves in one and two dimensions by the kernels of `kernels/`.

Source   aten/src/ATen/native/cudnn/ConvShared.cpp
         aten/src/ATen/native/cuda/DepthwiseConv2d.cu
"""

import math
from collections.abc import Sequence
from typing import Any

from labkit.core import dtype as dtypes
from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.convolution import convolution as host
from labkit.ops.convolution.windows import strides_after
from labkit.ops.cuda.launching import (
    STEPS,
    NoKernel,
    blocks,
    check_floats_or_halves,
    empty,
    read,
    shelf,
    written,
)
from labkit.ops.cuda.layouts import laid_out, packed
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.tensors import copy

Optional = TensorImpl | None
CHUNK = 4096
"""Positions whose part of a weight's gradient one block adds up; a multiple of 16."""

RUNGS = {
    "conv2d": ("3_implicit_gemm", "3_rows_in_registers"),
    "conv2d_input_gradient": ("3_implicit_gemm", "2_rows_in_registers"),
    "conv2d_weight_gradient": ("3_implicit_gemm", "2_taps_in_registers"),
}
"""Folder of `kernels/` -> its kernel, and that of the folder for filters of one channel each."""


def _two(numbers: Ints, other: int) -> Ints:
    """A pair; one dimension is the second of two."""
    return (other, *numbers) if len(numbers) == 1 else numbers


def _sizes(input_: TensorImpl, weight: TensorImpl, out: Ints, geometry: host.Geometry) -> Any:
    """The kernels' argument.

    Raises   NoKernel   three dimensions, or nothing to compute
    """
    from labkit.cuda.structures import Conv2d  # late: see `launching`

    if len(out) > 2:
        raise NoKernel(f"its kernel has two dimensions, and this convolution {len(out)}")
    if not input_.numel() or not weight.numel() or not math.prod(out):
        raise NoKernel("its kernel takes at least one element")
    return Conv2d(
        *input_.sizes[:2], *_two(input_.sizes[2:], 1), weight.sizes[0], *_two(out, 1),
        *_two(weight.sizes[2:], 1), *_two(geometry.stride, 1), *_two(geometry.padding, 0),
        *_two(geometry.dilation, 1), geometry.groups,
    )  # fmt: skip


def _rung(op: str, conv: Any) -> tuple[str, str]:
    general, depthwise = RUNGS[op]
    return (f"depthwise_{op}", depthwise) if conv.is_depthwise else (op, general)


def _launch(
    ladder: tuple[str, str], out: TensorImpl, inputs: Sequence[Optional], conv: Any
) -> None:
    """Queue the kernel that fills `out`."""
    kernel, into = shelf(*ladder, STEPS[out.dtype]), written(out)
    kernel(*kernel.geometry(**conv.letters), (*map(read, inputs), into, conv))


@device_kernel("convolution")
def convolution(
    input: TensorImpl,  # noqa: A002  PyTorch's name for it
    weight: TensorImpl,
    bias: Optional,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> TensorImpl:
    """[N, O, *out]: the input under every filter."""
    check_floats_or_halves(input, weight, bias)
    if transposed:
        raise NoKernel("its kernel is not for transposed convolutions")
    geometry, out = host.checked(input, weight, bias, stride, padding, dilation, transposed, groups)
    sizes = _sizes(input, weight, out, geometry)
    y = empty((input.sizes[0], weight.sizes[0], *out), input)
    _output(copy.contiguous(input), copy.contiguous(weight), packed(bias), y, sizes)
    return laid_out(y, strides_after(y.sizes, input, weight))


@device_kernel("convolution_backward")
def convolution_backward(
    grad_output: TensorImpl,
    input: TensorImpl,  # noqa: A002
    weight: TensorImpl,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Optional, Optional, Optional]:
    """Gradients of input, weight and bias; None where `output_mask` wants none."""
    check_floats_or_halves(grad_output, input, weight)
    if transposed:
        raise NoKernel("its kernel is not for transposed convolutions")
    rank = weight.dim() - 2
    geometry = host.geometry_of(rank, stride, padding, dilation, groups)
    sizes = _sizes(input, weight, grad_output.sizes[2:], geometry)
    dy, x, w = (copy.contiguous(each) for each in (grad_output, input, weight))
    made: list[Any] = [None, None, None]
    if output_mask[0]:
        made[0] = _input_gradient(dy, w, input, sizes)
    if output_mask[1]:
        made[1] = _weight_gradient(x, dy, weight, sizes)
    if output_mask[2]:
        made[2] = _bias_gradient(dy, sizes)
    for i in (0, 1):
        if made[i] is not None:
            made[i] = laid_out(made[i], strides_after(made[i].sizes, input, weight))
    return made[0], made[1], made[2]


def _output(x: TensorImpl, w: TensorImpl, bias: Optional, y: TensorImpl, conv: Any) -> None:
    """`y` holds `x` under every filter."""
    _launch(_rung("conv2d", conv), y, (x, w, bias), conv)


def _bias_gradient(dy: TensorImpl, conv: Any) -> TensorImpl:
    db = empty((conv.out_channels,), dy)
    _launch(("conv2d_bias_gradient", "2_block_per_channel"), db, (dy,), conv)
    return db


def _input_gradient(dy: TensorImpl, w: TensorImpl, input_: TensorImpl, conv: Any) -> TensorImpl:
    dx = empty(input_.sizes, input_)
    _launch(_rung("conv2d_input_gradient", conv), dx, (dy, w), conv)
    return dx


def _weight_gradient(x: TensorImpl, dy: TensorImpl, weight: TensorImpl, conv: Any) -> TensorImpl:
    """Parts of the sums by one kernel, added up in order by another."""
    dw, ladder = empty(weight.sizes, weight), _rung("conv2d_weight_gradient", conv)
    chunks = blocks(dy.numel() // conv.out_channels, CHUNK)
    partial = empty((chunks, *dw.sizes), dw, dtypes.float32)
    kernel, into = shelf(*ladder, STEPS[dw.dtype]), written(partial)
    geometry = kernel.geometry(chunks=chunks, **conv.letters)
    kernel(*geometry, (read(x), read(dy), into, conv, CHUNK))
    kernel, into = shelf(*ladder, f"{STEPS[dw.dtype]}_sum".lstrip("_")), written(dw)
    kernel(*kernel.geometry(weights=dw.numel()), (read(partial), into, dw.numel(), chunks))
    return dw
