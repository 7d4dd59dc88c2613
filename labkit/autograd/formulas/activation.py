"""Second derivatives of activation functions, and the first where no operator gives it.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

import math
from typing import Any

from labkit.autograd.formulas.pointwise import gt, power, zero_where
from labkit.autograd.state import STATE
from labkit.ops.aten import aten


def silu_self(grad: Any, self: Any) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  infinitely_differentiable_silu_backward."""
    if not STATE.grad:
        return aten.silu_backward.default(grad, self)
    sigmoid = aten.sigmoid.default(self)
    return grad * sigmoid * (1.0 + self * (1.0 - sigmoid))


def gelu_double_backward(grad: Any, grad_output: Any, self: Any, approximate: str) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  gelu_double_backward."""
    if approximate == "tanh":
        beta, kappa = math.sqrt(2.0) * (2.0 / math.sqrt(math.pi)) * 0.5, 0.044715
        inner = beta * (self + kappa * power(self, 3))
        tanh = aten.tanh.default(inner)
        sech2 = 1 - tanh * tanh
        first = beta * (1 + 3 * kappa * self * self)
        second = beta * 6 * kappa * self
        # (x/2)(1 + tanh u)'' with u' and u'' as above
        slope = sech2 * first + 0.5 * self * (sech2 * second - 2 * tanh * sech2 * first * first)
        return grad_output * grad * slope
    normal = aten.exp.default(-0.5 * self * self) * (
        0.5 * (2.0 / math.sqrt(math.pi)) / math.sqrt(2.0)
    )
    return grad_output * grad * normal * (2 - self * self)


def softplus_double_backward(grad: Any, self: Any, beta: float, threshold: float) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  softplus_double_backward."""
    x = self * beta
    slope = aten.sigmoid_backward.default(grad, aten.sigmoid.default(x)) * beta
    return zero_where(gt(x, threshold), slope)
