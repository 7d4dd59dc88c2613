"""Convolutions of float32 in one and two dimensions by the kernels of `kernels/`.

Source   aten/src/ATen/native/cudnn/ConvShared.cpp
"""

import math
from collections.abc import Sequence
from typing import Any

from labkit.core import tensor_impl
from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.convolution import convolution as host
from labkit.ops.cuda import depthwise
from labkit.ops.cuda.launching import NoKernel, check_floats, read, shelf, written
from labkit.ops.cuda.layouts import laid_out, packed
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.tensors import copy

Optional = TensorImpl | None


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


def _empty(sizes: Sequence[int], like: TensorImpl) -> TensorImpl:
    return tensor_impl.empty(tuple(sizes), like.dtype, like.device)


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
    check_floats(input, weight, bias)
    if transposed:
        raise NoKernel("its kernel is not for transposed convolutions")
    geometry, out = host.checked(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    sizes = _sizes(input, weight, out, geometry)
    y = _empty((input.sizes[0], weight.sizes[0], *out), input)
    _output(copy.contiguous(input), copy.contiguous(weight), packed(bias), y, sizes)
    return laid_out(y, host.strides_after(y.sizes, input, weight))


def _output(x: TensorImpl, w: TensorImpl, bias: Optional, y: TensorImpl, sizes: Any) -> None:
    """`y` holds `x` under every filter."""
    if depthwise.serves(sizes):
        depthwise.output(x, w, bias, y, sizes)
        return
    into = written(y)
    kernel = shelf("conv2d", "3_implicit_gemm")
    kernel(*kernel.geometry(**sizes.letters), (read(x), read(w), read(bias), into, sizes))


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
    check_floats(grad_output, input, weight)
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
            made[i] = laid_out(made[i], host.strides_after(made[i].sizes, input, weight))
    return made[0], made[1], made[2]


def _bias_gradient(dy: TensorImpl, sizes: Any) -> TensorImpl:
    db = _empty((sizes.out_channels,), dy)
    into = written(db)
    kernel = shelf("conv2d_bias_gradient", "2_block_per_channel")
    kernel(*kernel.geometry(**sizes.letters), (read(dy), into, sizes))
    return db


def _input_gradient(dy: TensorImpl, w: TensorImpl, input_: TensorImpl, sizes: Any) -> TensorImpl:
    dx = _empty(input_.sizes, input_)
    if depthwise.serves(sizes):
        depthwise.input_gradient(dy, w, dx, sizes)
        return dx
    into = written(dx)
    kernel = shelf("conv2d_input_gradient", "3_implicit_gemm")
    kernel(*kernel.geometry(**sizes.letters), (read(dy), read(w), into, sizes))
    return dx


def _weight_gradient(x: TensorImpl, dy: TensorImpl, weight: TensorImpl, sizes: Any) -> TensorImpl:
    """Parts of the sums by one kernel, added up in order by another."""
    dw = _empty(weight.sizes, weight)
    if depthwise.serves(sizes):
        depthwise.weight_gradient(x, dy, dw, sizes)
        return dw
    depthwise.in_parts("conv2d_weight_gradient", "3_implicit_gemm", x, dy, dw, sizes)
    return dw
