"""Second gradients of losses, and the gradients their targets get.

reduction is 0 for the losses themselves, 1 for their mean and 2 for their sum.

Source   torch/csrc/autograd/FunctionsManual.cpp  mse_loss_double_backward,
         binary_cross_entropy_double_backward, smooth_l1_loss_double_backward
"""

from collections.abc import Sequence
from typing import Any

from labkit.ops.aten import aten


def reduced(losses: Any, reduction: int) -> Any:
    """The losses, their mean or their sum."""
    if reduction == 0:
        return losses
    return aten.mean.default(losses) if reduction == 1 else aten.sum.default(losses)


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


def _weighted(grad: Any, weight: Any) -> Any:
    return grad if weight is None else grad * weight


def binary_cross_entropy_target(grad: Any, self: Any, weight: Any, reduction: int) -> Any:
    """The logarithm of the odds against, bounded as the loss is."""
    against = aten.clamp_min.default(aten.log1p.default(-self), -100)
    part = against - aten.clamp_min.default(aten.log.default(self), -100)
    return _shared(_weighted(grad * part, weight), self.numel(), reduction)


def binary_cross_entropy_double(
    grad: Any, self: Any, target: Any, weight: Any, reduction: int
) -> Any:
    """The second derivative by the probability."""
    spread = aten.clamp_min.default(self * (1 - self), 1e-12)
    slope = (1 / spread) - (self - target) * (1 - 2 * self) / (spread * spread)
    return _shared(_weighted(grad * slope, weight), self.numel(), reduction)


def binary_cross_entropy_double_target(grad: Any, self: Any, weight: Any, reduction: int) -> Any:
    """The mixed derivative by probability and target."""
    spread = aten.clamp_min.default(self * (1 - self), 1e-12)
    return _shared(_weighted(-grad / spread, weight), self.numel(), reduction)


def logits_backward(
    grad: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int
) -> Any:
    """The probability less the target, with the weights of both cases.

    Source   aten/src/ATen/native/Loss.cpp  binary_cross_entropy_with_logits_backward
    """
    probability = aten.sigmoid.default(self)
    if pos_weight is None:
        part = probability - target
    else:
        positive = pos_weight * target
        part = (positive + 1 - target) * probability - positive
    return _shared(_weighted(part * grad, weight), self.numel(), reduction)


def logits_target(grad: Any, self: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    """The negative logit, or with the weight of positives the difference of both cases."""
    if pos_weight is None:
        part = -self
    else:
        logarithm = aten.log_sigmoid.default(-self)
        part = logarithm - pos_weight * aten.log_sigmoid.default(self)
    return _shared(_weighted(part * grad, weight), self.numel(), reduction)
