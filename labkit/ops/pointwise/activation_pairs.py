"""Activation functions with two results.

Source   aten/src/ATen/native/Activation.cpp
"""

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.registration import kernel

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
