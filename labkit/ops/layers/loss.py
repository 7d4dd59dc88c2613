"""Losses of one tensor against another that are operators of their own, and their gradients.

Source   aten/src/ATen/native/Loss.cpp
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Callable

import numpy as np

from labkit.core import promotion
from labkit.core.dtype import DType
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_unless, wide
from labkit.ops.iterator.iteration_order import output_strides
from labkit.ops.registration import kernel

NONE, MEAN, SUM = 0, 1, 2
"""What becomes of the losses of the elements.

Source   aten/src/ATen/core/Reduction.h
"""


def _operands(name: str, *tensors: TensorImpl) -> tuple[DType, list[Array]]:
    """The common element type, and the values in the type it is computed in."""
    dtype = promotion.result_type(*tensors)
    refuse_unless(name, dtype, ("floating",))
    single = np.float64 if dtype.itemsize == 8 else np.float32
    return dtype, [wide(tensor).astype(single, copy=False) for tensor in tensors]


def _reduced(losses: Array, reduction: int, dtype: DType, *inputs: TensorImpl) -> TensorImpl:
    """The losses themselves in the layout of an element-wise result, or their mean or sum."""
    if reduction == NONE:
        operands = [(each.sizes, each.strides) for each in inputs]
        return new_tensor(losses, dtype, output_strides(losses.shape, operands))
    if reduction not in (MEAN, SUM):
        raise ValueError(f"reduction is 0 (none), 1 (mean) or 2 (sum), got {reduction}")
    with np.errstate(all="ignore"):
        total = losses.sum()
        return new_tensor(total / losses.size if reduction == MEAN else total, dtype)


def _shared(reduction: int, losses: int) -> float:
    """The part of the result's gradient that each loss gets."""
    return 1 / losses if reduction == MEAN and losses else 1.0


def _loss(
    name: str,
    self: TensorImpl,
    target: TensorImpl,
    reduction: int,
    of: Callable[[Array, Array], Array],
) -> TensorImpl:
    dtype, (x, y) = _operands(name, self, target)
    broadcast_shapes(self.sizes, target.sizes)
    with np.errstate(all="ignore"):
        losses = of(x, y)
    return _reduced(losses, reduction, dtype, self, target)


def _gradient(
    name: str,
    grad_output: TensorImpl,
    self: TensorImpl,
    target: TensorImpl,
    reduction: int,
    of: Callable[[Array, Array], Array],
) -> TensorImpl:
    dtype, (g, x, y) = _operands(name, grad_output, self, target)
    with np.errstate(all="ignore"):
        slope = of(x, y)
        result = g * slope * slope.dtype.type(_shared(reduction, slope.size))
    return new_tensor(np.broadcast_to(result, slope.shape), dtype)


@kernel("mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", variants="")
def mse_loss(self: TensorImpl, target: TensorImpl, reduction: int = MEAN) -> TensorImpl:
    """Squares of the differences."""
    return _loss("mse_loss", self, target, reduction, lambda x, y: (x - y) ** 2)


@kernel(
    "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
    variants="",
)
def mse_loss_backward(
    grad_output: TensorImpl, self: TensorImpl, target: TensorImpl, reduction: int
) -> TensorImpl:
    """The gradient of `self`."""
    return _gradient("mse_loss", grad_output, self, target, reduction, lambda x, y: 2 * (x - y))
