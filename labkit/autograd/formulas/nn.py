"""The second gradient of softmax.

Source   torch/csrc/autograd/FunctionsManual.cpp  softmax_double_backward
"""

from typing import Any

from labkit.ops.aten import aten


def softmax_double_backward(grad: Any, grad_output: Any, dim: int, output: Any) -> Any:
    """The gradient of `output` in the gradient of a softmax."""
    return (
        grad_output * grad
        - aten.sum.dim_IntList(output * grad_output, [dim], True) * grad
        - grad_output * aten.sum.dim_IntList(output * grad, [dim], True)
    )
