"""Activation functions, and the products of their derivatives with a gradient.

Source   aten/src/ATen/native/Activation.cpp
         aten/src/ATen/native/cpu/Activation.cpp
Differs  the gradients of `threshold` and `leaky_relu` take their layout from the gradient, where
         PyTorch asks the input first
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.pointwise.dtype_rules import (
    FLOATING_ONLY,
    FLOATING_OR_COMPLEX,
    REAL_NUMBERS,
)
from labkit.ops.pointwise.pointwise import Array, Pointwise, Types, pointwise
from labkit.ops.pointwise.special_functions import erf, like, sigmoid

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def _relu_rule(op: Pointwise, operands: Sequence[TensorImpl], _: dict[str, Any]) -> Types:
    if operands[0].dtype.kind == "bool":
        raise RuntimeError("Boolean inputs not supported for relu")
    return REAL_NUMBERS(op, operands, {})


def _relu(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0))


pointwise("relu(Tensor self) -> Tensor", _relu_rule, fast=_relu)(_relu)


@pointwise(
    "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    REAL_NUMBERS, inplace=False, out=None, variants="",
)  # fmt: skip
def threshold_backward(grad: Array, x: Array, threshold: float) -> Array:
    """The gradient where x is above the threshold, or NaN."""
    return np.where(x <= like(x, threshold), like(grad, 0), grad)


@pointwise("threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", REAL_NUMBERS)
def threshold(x: Array, limit: float, value: float) -> Array:
    """`value` in the place of what is not above the limit."""
    return np.where(x <= like(x, limit), like(x, value), x)


@pointwise("leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", FLOATING_ONLY)
def leaky_relu(x: Array, slope: float = 0.01) -> Array:
    """A smaller slope below 0."""
    return np.where(x > 0, x, x * like(x, slope))


def _leaky_rule(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    slope = others["negative_slope"]
    if others["self_is_result"] and slope < 0:
        raise RuntimeError(
            "In-place leakyReLu backward calculation is triggered with a negative slope which is "
            f"not supported: {slope}"
        )
    return FLOATING_ONLY(op, operands, others)


@pointwise(
    "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, "
    "bool self_is_result) -> Tensor",
    _leaky_rule, inplace=False, out=None, variants="",
)  # fmt: skip
def leaky_relu_backward(grad: Array, x: Array, slope: float, self_is_result: bool) -> Array:
    """The gradient, scaled by the slope below 0."""
    return np.where(x > 0, grad, grad * like(grad, slope))


def _gelu_rule(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    if others["approximate"] not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return FLOATING_ONLY(op, operands, others)


@pointwise("gelu(Tensor self, *, str approximate='none') -> Tensor", _gelu_rule, variants="")
def gelu(x: Array, approximate: str = "none") -> Array:
    """The input times its normal distribution function, exactly or with tanh."""
    if approximate == "tanh":
        inner = like(x, _SQRT_2_OVER_PI) * (x + like(x, _CUBIC) * x * x * x)
        return np.asarray(like(x, 0.5) * x * (1 + np.tanh(inner)))
    return np.asarray(x * like(x, 0.5) * (1 + erf(x * like(x, math.sqrt(0.5)))))


@pointwise(
    "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
    _gelu_rule, inplace=False, out=None, variants="",
)  # fmt: skip
def gelu_backward(grad: Array, x: Array, approximate: str = "none") -> Array:
    """The gradient times the derivative of `gelu`."""
    x = x.astype(np.float64)
    if approximate == "tanh":
        tanh = np.tanh(_SQRT_2_OVER_PI * (x + _CUBIC * x**3))
        inner = _SQRT_2_OVER_PI * (1 + 3 * _CUBIC * x * x)
        return np.asarray(grad * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * inner))
    distribution = 0.5 * (1 + erf(x * math.sqrt(0.5)))
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return np.asarray(grad * (distribution + x * density))


@pointwise("silu(Tensor self) -> Tensor", FLOATING_OR_COMPLEX, variants="")
def silu(x: Array) -> Array:
    """The input times its sigmoid."""
    return np.asarray(x / (1 + np.exp(-x)))


@pointwise(
    "silu_backward(Tensor grad_output, Tensor self) -> Tensor",
    FLOATING_OR_COMPLEX, inplace=False, out=None, variants="",
)  # fmt: skip
def silu_backward(grad: Array, x: Array) -> Array:
    """The gradient times the derivative of `silu`."""
    logistic = sigmoid(x)
    return np.asarray(grad * logistic * (1 + x * (1 - logistic)))


@pointwise(
    "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    FLOATING_ONLY, inplace=False, variants="",
)  # fmt: skip
def softplus(x: Array, beta: float = 1, limit: float = 20) -> Array:
    """A smooth relu; the input itself where beta times it is above the limit."""
    scaled = x * like(x, beta)
    return np.where(scaled > like(x, limit), x, np.log1p(np.exp(scaled)) / like(x, beta))


@pointwise(
    "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
    FLOATING_ONLY, inplace=False, out=None, variants="",
)  # fmt: skip
def softplus_backward(grad: Array, x: Array, beta: float, limit: float) -> Array:
    """The gradient times the sigmoid of beta x."""
    z = np.exp(x * like(x, beta))
    return np.where(x * like(x, beta) > like(x, limit), grad, grad * z / (z + 1))


@pointwise(
    "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
    FLOATING_OR_COMPLEX, inplace=False, out=None, variants="",
)  # fmt: skip
def sigmoid_backward(grad: Array, y: Array) -> Array:
    """The gradient times the derivative, from the result."""
    return np.asarray(grad * np.conj((1 - y) * y))


@pointwise(
    "tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
    FLOATING_OR_COMPLEX, inplace=False, out=None, variants="",
)  # fmt: skip
def tanh_backward(grad: Array, y: Array) -> Array:
    """The gradient times the derivative, from the result."""
    return np.asarray(grad * np.conj(1 - y * y))
