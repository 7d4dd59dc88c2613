"""Losses written in other operators: cross entropy, divergence, margins, distances.

The order of the calls is that of PyTorch's recorded graphs, where a right operand often comes
before the left one.

Source   aten/src/ATen/native/Loss.cpp
         aten/src/ATen/native/LossNLL.cpp  cross_entropy_loss
         aten/src/ATen/native/Distance.cpp  cosine_similarity, pairwise_distance
"""

# mypy: disable-error-code="no-any-return"

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.layers.loss import MEAN, NONE, SUM
from labkit.ops.registration import composite

Optional = TensorImpl | None


def _reduced(losses: TensorImpl, reduction: int) -> TensorImpl:
    if reduction == MEAN:
        return aten.mean.default(losses)
    return aten.sum.default(losses) if reduction == SUM else losses


@composite(
    "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
    "SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor",
    variants="",
)
def cross_entropy_loss(
    self: TensorImpl,
    target: TensorImpl,
    weight: Optional = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> TensorImpl:
    """The loss of scores [N, C, ...] against classes [N, ...], or probabilities [N, C, ...].

    label_smoothing  the part, 0 ... 1, of every target that is spread over all classes

    Raises   RuntimeError   a probability target that is not floating, or with `ignore_index`
    """
    axis = 0 if self.dim() == 1 else 1
    if self.sizes == target.sizes:
        if not target.dtype.is_floating_point:
            raise RuntimeError(
                "Expected floating point type for target with class probabilities, got "
                f"{target.dtype}"
            )
        if ignore_index >= 0:
            raise RuntimeError(
                f"ignore_index is not supported for floating point target, got {ignore_index}"
            )
        return _probability_target(self, target, weight, reduction, label_smoothing, axis)
    if label_smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    scores = aten.log_softmax.int(self, axis, self.dtype)
    loss = aten.nll_loss_nd.default(scores, target, weight, reduction, ignore_index)
    if label_smoothing <= 0:
        return loss
    spread = _spread_loss(scores, target, weight, reduction, ignore_index, axis)
    part = aten.mul.Scalar(spread, label_smoothing / self.sizes[axis])
    return aten.add.Tensor(aten.mul.Scalar(loss, 1 - label_smoothing), part)


def _per_class(weight: TensorImpl, scores: TensorImpl) -> TensorImpl:
    """[C] in a shape that broadcasts against [N, C, ...]."""
    if scores.dim() == 1:
        return weight
    return aten.view.default(weight, (1, -1, *[1] * (scores.dim() - 2)))


def _probability_target(
    self: TensorImpl,
    target: TensorImpl,
    weight: Optional,
    reduction: int,
    label_smoothing: float,
    axis: int,
) -> TensorImpl:
    scores = aten.log_softmax.int(self, axis, self.dtype)
    classes = self.sizes[axis]
    if label_smoothing > 0:
        target = aten.mul.Scalar(target, 1 - label_smoothing)
        target = aten.add.Scalar(target, label_smoothing / classes)
    losses = aten.mul.Tensor(scores, target)
    if weight is not None:
        losses = aten.mul.Tensor(losses, _per_class(weight, scores))
    if reduction == NONE:
        return aten.neg.default(aten.sum.dim_IntList(losses, (axis,)))
    total = aten.neg.default(aten.sum.default(losses))
    if reduction == SUM:
        return total
    samples = self.numel() // classes if classes else 0
    return aten.div.Scalar(total, samples)


def _spread_loss(
    scores: TensorImpl,
    target: TensorImpl,
    weight: Optional,
    reduction: int,
    ignore_index: int,
    axis: int,
) -> TensorImpl:
    """The loss against a target spread over all classes."""
    weighted = scores
    if weight is not None:
        weighted = aten.mul.Tensor(scores, _per_class(weight, scores))
    losses = aten.neg.default(aten.sum.dim_IntList(weighted, (axis,)))
    ignored = aten.eq.Scalar(target, ignore_index)
    losses = aten.masked_fill_.Scalar(losses, ignored, 0.0)
    if reduction == NONE:
        return losses
    total = aten.sum.default(losses)
    if reduction == SUM:
        return total
    counted = aten.bitwise_not.default(ignored)
    if weight is None:
        return aten.div.Tensor(total, aten.sum.default(counted))
    classes = aten.flatten.using_ints(aten.masked_select.default(target, counted))
    return aten.div.Tensor(total, aten.sum.default(aten.gather.default(weight, 0, classes)))
