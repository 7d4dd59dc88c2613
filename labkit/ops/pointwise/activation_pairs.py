"""Activation functions with two results, or whose operands are parts of one tensor.

Source   aten/src/ATen/native/Activation.cpp, GatedLinearUnit.cpp
"""

from typing import Any

import numpy as np

from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.aten import aten
from labkit.ops.iterator.iteration_order import output_strides
from labkit.ops.registration import composite, kernel

Pair = tuple[TensorImpl, TensorImpl]


def _refuse_unless_floating(name: str, self: TensorImpl) -> None:
    if not self.dtype.is_floating_point or self.dtype.is_float8:
        raise NotImplementedError(f"{name!r} not implemented for {self.dtype.name}")


@kernel("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", variants="")
def log_sigmoid_forward(self: TensorImpl) -> Pair:
    """The logarithm of the sigmoid, and exp(-|x|) for the way back."""
    _refuse_unless_floating("log_sigmoid_cpu", self)
    x = wide(self)
    with np.errstate(all="ignore"):
        buffer = np.exp(-np.abs(x))
        output = np.minimum(x, 0) - np.log1p(buffer)
    return new_tensor(output, self.dtype), new_tensor(buffer, self.dtype)


@kernel(
    "_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
    variants="",
)
def prelu_kernel_backward(grad_output: TensorImpl, self: TensorImpl, weight: TensorImpl) -> Pair:
    """The gradients for the input and, before they are summed, for the weights."""
    _refuse_unless_floating("prelu_backward_cpu", self)
    grad, x, slope = wide(grad_output), wide(self), wide(weight)
    for_input = np.where(x > 0, grad, slope * grad)
    for_weight = np.where(x > 0, grad.dtype.type(0), x * grad)
    operands = [(each.sizes, each.strides) for each in (self, weight, grad_output)]
    strides = output_strides(for_weight.shape, operands)
    return (
        new_tensor(np.broadcast_to(for_input, for_weight.shape), self.dtype, strides),
        new_tensor(for_weight, self.dtype, strides),
    )


@composite("prelu(Tensor self, Tensor weight) -> Tensor")
def prelu(self: TensorImpl, weight: TensorImpl) -> Any:
    """A learned slope below 0, one for all or one per channel."""
    if weight.numel() != 1:
        if not self.sizes:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = self.sizes[1] if self.dim() >= 2 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
    if weight.dim() > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}"
        )
    if weight.dim() != self.dim():
        shape = [1] * self.dim()
        if self.dim() > 1:
            shape[1] = weight.numel()
        elif self.dim() == 1:
            shape[0] = weight.numel()
        weight = aten.view.default(weight, shape)
    return aten._prelu_kernel.default(self, weight)


@kernel("glu(Tensor self, int dim=-1) -> Tensor", variants="")
def glu(self: TensorImpl, dim: int = -1) -> TensorImpl:
    """The first half of a dimension, gated by the sigmoid of the second."""
    first, second, _ = _halves(self, dim)
    _refuse_unless_floating("glu_cpu", self)
    half = (first.shape, self.strides)
    strides = output_strides(first.shape, [half, half])
    with np.errstate(all="ignore"):
        return new_tensor(first / (1 + np.exp(-second)), self.dtype, strides)


def _halves(self: TensorImpl, dim: int) -> tuple[Any, Any, int]:
    if not self.sizes:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    dim = maybe_wrap_dim(dim, self.dim())
    if self.sizes[dim] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {self.sizes[dim]}"
        )
    first, second = np.split(wide(self), 2, axis=dim)
    return first, second, dim


@kernel("glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", variants="")
def glu_backward(grad_output: TensorImpl, self: TensorImpl, dim: int) -> TensorImpl:
    """The gradients for both halves."""
    first, second, dim = _halves(self, dim)
    grad = wide(grad_output)
    with np.errstate(all="ignore"):
        gate = 1 / (1 + np.exp(-second))
        both = np.concatenate([gate * grad, (1 - gate) * gate * grad * first], axis=dim)
    return new_tensor(both, self.dtype)
