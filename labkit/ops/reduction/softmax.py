"""Exponentials that sum to one, their logarithms, and both gradients.

Source   aten/src/ATen/native/SoftMax.cpp
"""

# mypy: disable-error-code="no-any-return"

import numpy as np

from labkit.core.dtype import DType
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, adopted, refuse_mixed, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.registration import composite, kernel


def _prepared(self: TensorImpl, dim: int, half_to_float: bool, name: str) -> tuple[Array, int]:
    """The values less the largest of each row, and the axis of the rows."""
    if half_to_float:
        raise RuntimeError(
            f"{name} with half to float conversion is not supported on CPU, got {self.dtype.name}"
        )
    axis = maybe_wrap_dim(dim, self.dim())
    x = wide(self).reshape(self.sizes or (1,))
    if x.size == 0:
        return x, axis
    refuse_unless(f"{name}_lastdim_kernel_impl", self.dtype, ("floating",))
    with np.errstate(all="ignore"):
        return x - x.max(axis=axis, keepdims=True), axis


@kernel("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", variants="function")
def _softmax(self: TensorImpl, dim: int, half_to_float: bool) -> TensorImpl:
    """Exponentials of the elements, divided by their sum along the dimension.

    Raises   IndexError            no such dimension
             NotImplementedError   not a floating type
    """
    x, axis = _prepared(self, dim, half_to_float, "softmax")
    with np.errstate(all="ignore"):
        powers = np.exp(x)
        result = powers / powers.sum(axis=axis, keepdims=True)
    return adopted(result.reshape(self.sizes) if not self.sizes else result, self.dtype)


@kernel("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", variants="function")
def _log_softmax(self: TensorImpl, dim: int, half_to_float: bool) -> TensorImpl:
    """The logarithm of `_softmax`, without its overflow."""
    x, axis = _prepared(self, dim, half_to_float, "log_softmax")
    with np.errstate(all="ignore"):
        result = x - np.log(np.exp(x).sum(axis=axis, keepdims=True))
    return adopted(result.reshape(self.sizes) if not self.sizes else result, self.dtype)


def _rows(grad: TensorImpl, output: TensorImpl, dim: int) -> tuple[Array, Array, int]:
    refuse_mixed("softmax backward", grad, output)
    if grad.sizes != output.sizes:
        raise RuntimeError(
            f"grad and output need one shape, got {list(grad.sizes)} and {list(output.sizes)}"
        )
    shape = output.sizes or (1,)
    axis = maybe_wrap_dim(dim, output.dim())
    return wide(grad).reshape(shape), wide(output).reshape(shape), axis


@kernel(
    "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) "
    "-> Tensor",
    variants="function",
)
def _softmax_backward_data(
    grad_output: TensorImpl, output: TensorImpl, dim: int, input_dtype: DType
) -> TensorImpl:
    """The gradient of what `_softmax` was given, from its result."""
    g, y, axis = _rows(grad_output, output, dim)
    with np.errstate(all="ignore"):
        result = (g - (g * y).sum(axis=axis, keepdims=True)) * y
    return adopted(result.reshape(output.sizes) if not output.sizes else result, input_dtype)


@kernel(
    "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, "
    "ScalarType input_dtype) -> Tensor",
    variants="function",
)
def _log_softmax_backward_data(
    grad_output: TensorImpl, output: TensorImpl, dim: int, input_dtype: DType
) -> TensorImpl:
    """The gradient of what `_log_softmax` was given, from its result."""
    g, y, axis = _rows(grad_output, output, dim)
    with np.errstate(all="ignore"):
        result = g - np.exp(y) * g.sum(axis=axis, keepdims=True)
    return adopted(result.reshape(output.sizes) if not output.sizes else result, input_dtype)


def _converted(self: TensorImpl, dtype: DType | None) -> TensorImpl:
    return self if dtype is None or dtype is self.dtype else aten.to.dtype(self, dtype)


@composite("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")
def softmax(self: TensorImpl, dim: int, dtype: DType | None = None) -> TensorImpl:
    """Exponentials that sum to one along the dimension; converted first when `dtype` is given."""
    return aten._softmax.default(_converted(self, dtype), dim, False)


@composite("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")
def log_softmax(self: TensorImpl, dim: int, dtype: DType | None = None) -> TensorImpl:
    """The logarithm of `softmax`."""
    return aten._log_softmax.default(_converted(self, dtype), dim, False)
