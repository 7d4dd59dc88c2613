"""Gradients of convolutions, pooling and softmax, and the gradients of those.

Source   torch/csrc/autograd/FunctionsManual.cpp  max_pool_double_backward, softmax_double_backward
         aten/src/ATen/native/Convolution.cpp  _convolution_double_backward
"""

from collections.abc import Sequence
from typing import Any

from labkit.ops.aten import aten

Ints = Sequence[int]


def softmax_double_backward(grad: Any, grad_output: Any, dim: int, output: Any) -> Any:
    """The gradient of `output` in the gradient of a softmax."""
    return (
        grad_output * grad
        - aten.sum.dim_IntList(output * grad_output, [dim], True) * grad
        - grad_output * aten.sum.dim_IntList(output * grad, [dim], True)
    )
