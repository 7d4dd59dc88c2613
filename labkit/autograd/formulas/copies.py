"""The way back through copies.

Source   torch/csrc/autograd/FunctionsManual.cpp; torch/csrc/autograd/functions/tensor.cpp
"""

from typing import Any

from labkit.autograd.formulas.basics import zeros_like
from labkit.ops.aten import aten


def to_copy_backward(grad: Any, dtype: Any, device: Any) -> Any:
    """The gradient in the type and on the device of what was copied.

    Source   torch/csrc/autograd/FunctionsManual.cpp  _to_copy_backward
    """
    if grad.dtype.is_complex and not dtype.is_complex:
        grad = aten.real.default(grad)
    if grad.dtype is dtype and grad.device == device:
        return grad
    return aten._to_copy.default(grad, dtype=dtype, device=device)


def to_copy_jvp(tangent: Any, result: Any) -> Any:
    """The tangent, copied likewise."""
    return to_copy_backward(tangent, result.dtype, result.device)


def copy_jvp(self: Any, tangent: Any) -> Any:
    """The tangent of what was copied in, spread as it was."""
    if tangent is None:
        return None
    spread = aten.expand.default(tangent, list(self.sizes))
    return aten.clone.default(to_copy_backward(spread, self.dtype, self.device))


def fill_jvp(self: Any, tangent: Any) -> Any:
    """The tangent of the number that was filled in."""
    if tangent is None:
        return zeros_like(self)
    return aten.clone.default(aten.expand.default(tangent, list(self.sizes)))
