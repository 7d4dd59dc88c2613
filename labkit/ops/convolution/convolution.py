"""Convolution of any rank, and its gradients: four sums over the same windows.

Source   aten/src/ATen/native/Convolution.cpp  convolution, convolution_backward
         aten/src/ATen/native/ConvUtils.h  conv_output_size, conv_input_size
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_mixed, refuse_unless, wide
from labkit.ops.convolution.windows import strides_after
from labkit.ops.registration import kernel


class Geometry(NamedTuple):
    """How a window walks, per spatial dimension, and in how many groups the channels lie."""

    stride: Ints
    padding: Ints
    dilation: Ints
    groups: int

    def reach(self, kernel_size: Ints) -> Ints:
        """How many elements a window spans."""
        return tuple(
            step * (size - 1) + 1 for step, size in zip(self.dilation, kernel_size, strict=True)
        )


def _padded(x: Array, padding: Ints) -> Array:
    if not any(padding):
        return x
    return np.pad(x, [(0, 0), (0, 0), *((each, each) for each in padding)])


def _windows(x: Array, kernel_size: Ints, out: Ints, geometry: Geometry) -> Array:
    """[N, C, *out, *kernel] over the padded input, without a copy."""
    x = _padded(x, geometry.padding)
    strides = x.strides[2:]
    moves = tuple(step * each for step, each in zip(geometry.stride, strides, strict=True))
    taps = tuple(step * each for step, each in zip(geometry.dilation, strides, strict=True))
    return np.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *out, *kernel_size), (*x.strides[:2], *moves, *taps), writeable=False
    )


def correlate(x: Array, weight: Array, out: Ints, geometry: Geometry) -> Array:
    """[N, O, *out]: every window of x times every filter.

    x       [N, C, *spatial]
    weight  [O, C / groups, *kernel]
    """
    groups, rank = geometry.groups, len(out)
    windows = _windows(x, weight.shape[2:], out, geometry)
    result = np.empty((x.shape[0], weight.shape[0], *out), x.dtype)
    inner = [1, *range(2 + rank, 2 + 2 * rank)]
    channels, filters = x.shape[1] // groups, weight.shape[0] // groups
    for group in range(groups):
        own = slice(group * filters, (group + 1) * filters)
        part = windows[:, group * channels : (group + 1) * channels]
        made = np.tensordot(part, weight[own], (inner, list(range(1, 2 + rank))))
        result[:, own] = np.moveaxis(made, -1, 1)
    return result


def spread(g: Array, weight: Array, sizes: Ints, geometry: Geometry) -> Array:
    """[N, C, *sizes]: every element of g laid down through its filter. The transpose of
    `correlate`: the gradient of its input.

    g       [N, O, *out]
    weight  [O, C / groups, *kernel]
    """
    groups, out = geometry.groups, g.shape[2:]
    filters, channels = weight.shape[0] // groups, weight.shape[1]
    full = [size + 2 * pad for size, pad in zip(sizes, geometry.padding, strict=True)]
    result = np.zeros((g.shape[0], channels * groups, *full), g.dtype)
    for group in range(groups):
        own = slice(group * filters, (group + 1) * filters)
        target = result[:, group * channels : (group + 1) * channels]
        for tap in np.ndindex(*weight.shape[2:]):
            made = np.tensordot(g[:, own], weight[(own, slice(None), *tap)], (1, 0))
            places = tuple(
                slice(at * dilation, at * dilation + (count - 1) * stride + 1, stride)
                if count
                else slice(0, 0)
                for at, dilation, stride, count in zip(
                    tap, geometry.dilation, geometry.stride, out, strict=True
                )
            )
            target[(slice(None), slice(None), *places)] += np.moveaxis(made, -1, 1)
    inside = tuple(
        slice(pad, pad + size) for pad, size in zip(geometry.padding, sizes, strict=True)
    )
    return result[(slice(None), slice(None), *inside)]


def weight_gradient(g: Array, x: Array, kernel_size: Ints, geometry: Geometry) -> Array:
    """[O, C / groups, *kernel]: what each tap of each filter saw, weighted by g.

    g  [N, O, *out]
    x  [N, C, *spatial]
    """
    groups, rank = geometry.groups, len(kernel_size)
    windows = _windows(x, kernel_size, g.shape[2:], geometry)
    filters, channels = g.shape[1] // groups, x.shape[1] // groups
    result = np.empty((g.shape[1], channels, *kernel_size), x.dtype)
    summed = [0, *range(2, 2 + rank)]
    for group in range(groups):
        own = slice(group * filters, (group + 1) * filters)
        part = windows[:, group * channels : (group + 1) * channels]
        result[own] = np.tensordot(g[:, own], part, (summed, summed))
    return result


def _spread_out(numbers: Sequence[int], rank: int, name: str) -> Ints:
    if len(numbers) == rank:
        return tuple(numbers)
    if len(numbers) == 1:
        return (numbers[0],) * rank
    raise RuntimeError(
        f"expected {name} to be a single integer value or a list of {rank} values to match the "
        f"convolution dimensions, but got {name}={list(numbers)}"
    )


def _check(
    input_: TensorImpl,
    weight: TensorImpl,
    bias_sizes: Sequence[int] | None,
    geometry: Geometry,
) -> None:
    """Refuse what cannot be convolved.

    Source   aten/src/ATen/native/Convolution.cpp  check_shape_forward
    """
    for name, numbers, least in (
        ("stride", geometry.stride, 1),
        ("padding", geometry.padding, 0),
        ("dilation", geometry.dilation, 1),
    ):
        if any(number < least for number in numbers):
            raise RuntimeError(f"{name} must be at least {least}, got {list(numbers)}")
    if input_.dim() != weight.dim():
        raise RuntimeError(
            f"Expected {weight.dim()}-dimensional input for {weight.dim()}-dimensional weight "
            f"{list(weight.sizes)}, but got {input_.dim()}-dimensional input of size "
            f"{list(input_.sizes)} instead"
        )
    groups, channels = geometry.groups, input_.sizes[1]
    if groups <= 0:
        raise RuntimeError(f"expected groups to be greater than 0, but got groups={groups}")
    wanted = weight.sizes[1] * groups
    if channels != wanted or weight.sizes[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.sizes)}, expected input "
            f"{list(input_.sizes)} to have {wanted} channels, and filters in equal groups, but "
            f"got {channels} channels"
        )
    features = weight.sizes[0]
    if bias_sizes is not None and tuple(bias_sizes) != (features,):
        raise RuntimeError(
            f"Given weight of size {list(weight.sizes)}, expected bias to be 1-dimensional with "
            f"{features} elements, but got bias of size {list(bias_sizes)} instead"
        )
    if 0 in weight.sizes[2:] or (0 in input_.sizes[1:]):
        raise RuntimeError(
            f"sizes of 0 are not supported: input {list(input_.sizes)}, weight {list(weight.sizes)}"
        )
    full = [s + 2 * p for s, p in zip(input_.sizes[2:], geometry.padding, strict=True)]
    reach = geometry.reach(weight.sizes[2:])
    if any(size < span for size, span in zip(full, reach, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: {full}. Kernel size: {list(reach)}. "
            "Kernel size can't be greater than actual input size"
        )


def _sizes_out(spatial: Ints, kernel_size: Ints, geometry: Geometry) -> Ints:
    walks = zip(
        spatial, geometry.reach(kernel_size), geometry.stride, geometry.padding, strict=True
    )
    return tuple((size + 2 * pad - reach) // step + 1 for size, reach, step, pad in walks)


NUMBERS = ("signed", "floating", "complex")


def geometry_of(
    rank: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> Geometry:
    """The walk over so many dimensions; one number alone counts for all.

    Raises   RuntimeError   another count of numbers
    """
    return Geometry(
        _spread_out(stride, rank, "stride"),
        _spread_out(padding, rank, "padding"),
        _spread_out(dilation, rank, "dilation"),
        groups,
    )


def checked(
    input_: TensorImpl,
    weight: TensorImpl,
    bias: TensorImpl | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> tuple[Geometry, Ints]:
    """How the windows of a convolution walk, and the spatial sizes of its result.

    Raises   RuntimeError          sizes that do not fit, negative numbers, several element types
             NotImplementedError   a transposed convolution
    """
    if transposed:
        raise NotImplementedError("transposed convolution: labkit has the plain one")
    rank = weight.dim() - 2
    if rank < 1:
        raise RuntimeError(f"weight should have at least three dimensions, got {weight.dim()}")
    geometry = geometry_of(rank, stride, padding, dilation, groups)
    _check(input_, weight, None if bias is None else bias.sizes, geometry)
    refuse_mixed("convolution", input_, weight, bias)
    refuse_unless("slow_conv2d_cpu", input_.dtype, NUMBERS)
    out = _sizes_out(input_.sizes[2:], weight.sizes[2:], geometry)
    if any(size <= 0 for size in out):
        raise RuntimeError(
            f"Given input size per channel: {list(input_.sizes[2:])}. Calculated output size per "
            f"channel: {list(out)}. Output size is too small"
        )
    return geometry, out


@kernel(
    "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    variants="function",
)
def convolution(
    input: TensorImpl,  # noqa: A002  PyTorch's name for it
    weight: TensorImpl,
    bias: TensorImpl | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> TensorImpl:
    """[N, O, *out]: the input under every filter.

    input   [N, C, *spatial]
    weight  [O, C / groups, *kernel]
    bias    [O] or None

    Raises   as `checked`
    """
    geometry, out = checked(input, weight, bias, stride, padding, dilation, transposed, groups)
    rank = len(out)
    with np.errstate(all="ignore"):
        result = correlate(wide(input), wide(weight), out, geometry)
        if bias is not None:
            result = result + wide(bias).reshape(-1, *[1] * rank)
    return new_tensor(result, input.dtype, strides_after(result.shape, input, weight))


@kernel(
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, "
    "SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    variants="",
)
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
) -> tuple[TensorImpl | None, TensorImpl | None, TensorImpl | None]:
    """Gradients of input, weight and bias; None where `output_mask` wants none."""
    geometry = geometry_of(weight.dim() - 2, stride, padding, dilation, groups)
    refuse_mixed("convolution_backward", grad_output, input, weight)
    g, x, w = wide(grad_output), wide(input), wide(weight)
    if g.dtype.kind == "c":
        x, w = np.conj(x), np.conj(w)
    made: list[Any] = [None, None, None]
    with np.errstate(all="ignore"):
        if output_mask[0]:
            sizes = input.sizes[2:]
            grad = spread(g, w, sizes, geometry)
            made[0] = new_tensor(grad, input.dtype, strides_after(grad.shape, input, weight))
        if output_mask[1]:
            grad = weight_gradient(g, x, weight.sizes[2:], geometry)
            made[1] = new_tensor(grad, weight.dtype, strides_after(grad.shape, input, weight))
        if output_mask[2]:
            over = (0, *range(2, g.ndim))
            made[2] = new_tensor(g.sum(axis=over), grad_output.dtype)
    return made[0], made[1], made[2]
