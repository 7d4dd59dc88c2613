"""Normalisation of every sample by itself: over its last dimensions, or over groups of channels.

Source   aten/src/ATen/native/layer_norm.cpp
         aten/src/ATen/native/group_norm.cpp
"""

# mypy: disable-error-code="no-any-return"

import math
from collections.abc import Sequence

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.memory_format import MemoryFormat, suggest_memory_format
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.convolution.windows import strides_like
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

Optional = TensorImpl | None
Triple = tuple[TensorImpl, TensorImpl, TensorImpl]


def _statistics_dtype(input_: TensorImpl, *parameters: Optional) -> DType:
    mixed = any(each is not None and each.dtype is not input_.dtype for each in parameters)
    return dtypes.float32 if mixed else input_.dtype


def _standardised(rows: Array, eps: float) -> tuple[Array, Array, Array]:
    """Rows with mean 0 and variance 1; the mean and 1 / deviation of each, [M, 1]."""
    with np.errstate(all="ignore"):
        mean = rows.mean(axis=1, keepdims=True)
        variance = ((rows - mean) ** 2).mean(axis=1, keepdims=True)
        rstd = 1 / np.sqrt(variance + rows.dtype.type(eps))
        return (rows - mean) * rstd, mean, rstd


def _input_gradient(g: Array, normal: Array, rstd: Array) -> Array:
    """The gradient of rows that were standardised, from that of the result."""
    with np.errstate(all="ignore"):
        slope = (g * normal).mean(axis=1, keepdims=True)
        return rstd * (g - g.mean(axis=1, keepdims=True) - normal * slope)


def check_normalized(
    input_: TensorImpl, normalized_shape: Sequence[int], **parameters: Optional
) -> tuple[int, int]:
    """How many rows there are, and how many elements each has.

    Raises   RuntimeError   the input does not end in that shape, or a parameter has another
    """
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    for name, parameter in parameters.items():
        if parameter is not None and parameter.sizes != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(parameter.sizes)} and normalized_shape = {list(shape)}"
            )
    if input_.sizes[-len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, "
            f"{', '.join(map(str, shape))}], but got input of size{list(input_.sizes)}"
        )
    leading = input_.sizes[: input_.dim() - len(shape)]
    return math.prod(leading), math.prod(shape)


@kernel(
    "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, "
    "float eps) -> (Tensor, Tensor, Tensor)",
    variants="function",
)
def native_layer_norm(
    input: TensorImpl,  # noqa: A002  PyTorch's name for it
    normalized_shape: Sequence[int],
    weight: Optional,
    bias: Optional,
    eps: float,
) -> Triple:
    """The last dimensions normalised; the mean and 1 / deviation, size 1 where they were taken."""
    M, N = check_normalized(input, normalized_shape, weight=weight, bias=bias)
    refuse_unless("LayerNormKernelImpl", input.dtype, ("floating",))
    normal, mean, rstd = _standardised(wide(input).reshape(M, N), eps)
    if weight is not None:
        normal = normal * wide(weight).reshape(1, N)
    if bias is not None:
        normal = normal + wide(bias).reshape(1, N)
    axis = input.dim() - len(normalized_shape)
    kept = input.sizes[:axis] + (1,) * len(normalized_shape)
    dtype = _statistics_dtype(input, weight, bias)
    return (
        new_tensor(normal.reshape(input.sizes), input.dtype),
        new_tensor(mean.reshape(kept), dtype),
        new_tensor(rstd.reshape(kept), dtype),
    )


@kernel(
    "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, "
    "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) "
    "-> (Tensor, Tensor, Tensor)",
    variants="",
)
def native_layer_norm_backward(
    grad_out: TensorImpl,
    input: TensorImpl,  # noqa: A002
    normalized_shape: Sequence[int],
    mean: TensorImpl,
    rstd: TensorImpl,
    weight: Optional,
    bias: Optional,
    output_mask: Sequence[bool],
) -> tuple[Optional, Optional, Optional]:
    """Gradients of input, weight and bias; None where `output_mask` wants none."""
    M, N = check_normalized(input, normalized_shape, weight=weight, bias=bias)
    g, rows = wide(grad_out).reshape(M, N), wide(input).reshape(M, N)
    inverse = wide(rstd).reshape(M, 1)
    normal = (rows - wide(mean).reshape(M, 1)) * inverse
    made: list[Optional] = [None, None, None]
    if output_mask[0]:
        scaled = g if weight is None else g * wide(weight).reshape(1, N)
        grad = _input_gradient(scaled, normal, inverse).reshape(input.sizes)
        made[0] = new_tensor(grad, input.dtype)
    shape = tuple(normalized_shape)
    if output_mask[1] and weight is not None:
        made[1] = new_tensor((g * normal).sum(0).reshape(shape), weight.dtype)
    if output_mask[2] and bias is not None:
        made[2] = new_tensor(g.sum(0).reshape(shape), bias.dtype)
    return made[0], made[1], made[2]


@composite(
    "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
    variants="function",
)
def layer_norm(
    input: TensorImpl,  # noqa: A002
    normalized_shape: Sequence[int],
    weight: Optional = None,
    bias: Optional = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> TensorImpl:
    """The last dimensions with mean 0 and variance 1, scaled by `weight` and moved by `bias`."""
    return aten.native_layer_norm.default(input, normalized_shape, weight, bias, eps)[0]


def _check_groups(
    input_: TensorImpl, groups: int, weight: Optional, bias: Optional
) -> tuple[int, int, int]:
    if input_.dim() < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input_.dim()}"
        )
    N, C, *rest = input_.sizes
    if groups <= 0 or C % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(input_.sizes)} and num_groups={groups}"
        )
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.sizes != (C,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(parameter.sizes)} and input of shape "
                f"{list(input_.sizes)}"
            )
    return N, C, math.prod(rest)


@kernel(
    "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, "
    "SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    variants="function",
)
def native_group_norm(
    input: TensorImpl,  # noqa: A002
    weight: Optional,
    bias: Optional,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> Triple:
    """Every group of channels of every sample normalised; mean and 1 / deviation, [N, group]."""
    refuse_unless("GroupNormKernelImpl", input.dtype, ("floating",))
    size = C * HxW // group
    normal, mean, rstd = _standardised(wide(input).reshape(N * group, size), eps)
    result = normal.reshape(N, C, HxW)
    if weight is not None:
        result = result * wide(weight).reshape(1, C, 1)
    if bias is not None:
        result = result + wide(bias).reshape(1, C, 1)
    dtype = _statistics_dtype(input, weight, bias)
    strides = strides_like(input, input.sizes)
    return (
        new_tensor(result.reshape(input.sizes), input.dtype, strides),
        new_tensor(mean.reshape(N, group), dtype),
        new_tensor(rstd.reshape(N, group), dtype),
    )


@kernel(
    "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
    "Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) "
    "-> (Tensor, Tensor, Tensor)",
    variants="",
)
def native_group_norm_backward(
    grad_out: TensorImpl,
    input: TensorImpl,  # noqa: A002
    mean: TensorImpl,
    rstd: TensorImpl,
    weight: Optional,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Optional, Optional, Optional]:
    """Gradients of input, weight and bias; None where `output_mask` wants none."""
    rows = (N * group, C * HxW // group)
    g = wide(grad_out).reshape(N, C, HxW)
    inverse = wide(rstd).reshape(-1, 1)
    normal = (wide(input).reshape(rows) - wide(mean).reshape(-1, 1)) * inverse
    made: list[Optional] = [None, None, None]
    if output_mask[0]:
        scaled = g if weight is None else g * wide(weight).reshape(1, C, 1)
        grad = _input_gradient(scaled.reshape(rows), normal, inverse).reshape(input.sizes)
        made[0] = new_tensor(grad, input.dtype, strides_like(input, input.sizes))
    dtype = weight.dtype if weight is not None else mean.dtype
    if output_mask[1]:
        made[1] = new_tensor((g * normal.reshape(N, C, HxW)).sum((0, 2)), dtype)
    if output_mask[2]:
        made[2] = new_tensor(g.sum((0, 2)), dtype)
    return made[0], made[1], made[2]


@composite(
    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor",
    variants="function",
)
def group_norm(
    input: TensorImpl,  # noqa: A002
    num_groups: int,
    weight: Optional = None,
    bias: Optional = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> TensorImpl:
    """Every group of channels of every sample with mean 0 and variance 1."""
    N, C, HxW = _check_groups(input, num_groups, weight, bias)
    if suggest_memory_format(input.sizes, input.strides) is MemoryFormat.contiguous_format:
        input = aten.contiguous.default(input)  # noqa: A001
    return aten.native_group_norm.default(input, weight, bias, N, C, HxW, num_groups, eps)[0]


@composite(
    "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) "
    "-> Tensor",
    variants="function",
)
def rms_norm(
    input: TensorImpl,  # noqa: A002
    normalized_shape: Sequence[int],
    weight: Optional = None,
    eps: float | None = None,
) -> TensorImpl:
    """The last dimensions divided by their root mean square, scaled by `weight`.

    eps  None: the distance from 1 to the next number of the type the work is done in
    """
    check_normalized(input, normalized_shape, weight=weight)
    narrow = input.dtype.itemsize == 2
    x = aten.to.dtype(input, dtypes.float32) if narrow else input
    if eps is None:
        eps = float(np.finfo(copy.values(x).real.dtype).eps)
    dims = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    mean = aten.mean.dim(aten.pow.Tensor_Scalar(x, 2), dims, True)
    result = aten.mul.Tensor(x, aten.rsqrt.default(aten.add_.Scalar(mean, eps)))
    if weight is not None:
        result = aten.mul.Tensor(result, weight)
    return aten.type_as.default(result, input) if narrow else result
