"""The way back through copies.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

from typing import Any

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
