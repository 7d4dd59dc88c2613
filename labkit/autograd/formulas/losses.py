"""Second gradients of losses.

reduction is 0 for the losses themselves, 1 for their mean and 2 for their sum.

Source   torch/csrc/autograd/FunctionsManual.cpp  mse_loss_double_backward
"""

from collections.abc import Sequence
from typing import Any

from labkit.ops.aten import aten


def _shared(grad: Any, count: int, reduction: int) -> Any:
    return aten.div.Scalar(grad, count) if reduction == 1 else grad


def summed_like(each: Any, sizes: Sequence[int], reduction: int, count: int) -> Any:
    """What the gradient of the result gets: the parts of all losses, once they were reduced."""
    if reduction == 0:
        return each
    total = _shared(aten.sum.default(each), count, reduction)
    return aten.reshape.default(total, sizes)


def mse_double_backward(grad: Any, like: Any, reduction: int) -> Any:
    """Two for every difference."""
    return _shared(aten.mul.Scalar(grad, 2), like.numel(), reduction)
