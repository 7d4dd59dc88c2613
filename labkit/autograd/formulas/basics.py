"""What nearly every formula needs: conjugates, products with a scalar that is mostly one.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

from typing import Any

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten


def conj(value: Any) -> Any:
    """The complex conjugate; what is real is its own."""
    if isinstance(value, TensorImpl):
        return aten.conj.default(value) if value.dtype.is_complex else value
    return value.conjugate() if isinstance(value, complex) else value


def maybe_multiply(tensor: Any, scalar: Any) -> Any:
    """The product, or the tensor itself for a scalar that is one.

    Source   torch/csrc/autograd/FunctionsManual.cpp  maybe_multiply
    """
    return tensor if scalar == 1 else tensor * scalar
