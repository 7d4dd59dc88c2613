"""Normalisation of every sample by itself, over its last dimensions.

Source   aten/src/ATen/native/layer_norm.cpp
"""

# mypy: disable-error-code="no-any-return"

import math
from collections.abc import Sequence

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.registration import composite, kernel

Optional = TensorImpl | None
Triple = tuple[TensorImpl, TensorImpl, TensorImpl]


def statistics_dtype(input_: TensorImpl, *parameters: Optional) -> DType:
    """float32 when a half input meets wider parameters, else the input's own type."""
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
    dtype = statistics_dtype(input, weight, bias)
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
