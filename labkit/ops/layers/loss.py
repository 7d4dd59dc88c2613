"""The mean squared error, an operator of its own, and its gradient.

Source   aten/src/ATen/native/Loss.cpp
"""

# mypy: disable-error-code="no-any-return"

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


def _operands(*tensors: TensorImpl) -> tuple[DType, list[Array]]:
    """The common element type, and the values in the type it is computed in."""
    dtype = promotion.result_type(*tensors)
    refuse_unless("mse_loss", dtype, ("floating",))
    single = np.float64 if dtype.itemsize == 8 else np.float32
    return dtype, [wide(tensor).astype(single, copy=False) for tensor in tensors]


@kernel("mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", variants="")
def mse_loss(self: TensorImpl, target: TensorImpl, reduction: int = MEAN) -> TensorImpl:
    """Squares of the differences, in the layout of an element-wise result; their mean or sum."""
    dtype, (x, y) = _operands(self, target)
    shape = broadcast_shapes(self.sizes, target.sizes)
    with np.errstate(all="ignore"):
        losses = (x - y) ** 2
        if reduction == NONE:
            operands = [(each.sizes, each.strides) for each in (self, target)]
            return new_tensor(losses, dtype, output_strides(shape, operands))
        if reduction not in (MEAN, SUM):
            raise ValueError(f"reduction is 0 (none), 1 (mean) or 2 (sum), got {reduction}")
        total = losses.sum()
        return new_tensor(total / losses.size if reduction == MEAN else total, dtype)


@kernel(
    "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
    variants="",
)
def mse_loss_backward(
    grad_output: TensorImpl, self: TensorImpl, target: TensorImpl, reduction: int
) -> TensorImpl:
    """The gradient of `self`."""
    dtype, (g, x, y) = _operands(grad_output, self, target)
    with np.errstate(all="ignore"):
        slope = 2 * (x - y)
        share = 1 / slope.size if reduction == MEAN and slope.size else 1.0
        result = g * slope * slope.dtype.type(share)
    return new_tensor(np.broadcast_to(result, slope.shape), dtype)
