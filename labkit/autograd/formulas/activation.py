"""The derivative of silu, by an operator or, to be differentiated again, by several.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

from typing import Any

from labkit.autograd.state import STATE
from labkit.ops.aten import aten


def silu_self(grad: Any, self: Any) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  infinitely_differentiable_silu_backward."""
    if not STATE.grad:
        return aten.silu_backward.default(grad, self)
    sigmoid = aten.sigmoid.default(self)
    return grad * sigmoid * (1.0 + self * (1.0 - sigmoid))
