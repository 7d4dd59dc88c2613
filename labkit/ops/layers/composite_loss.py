"""Losses written in other operators: cross entropy, divergence, margins, distances.

The order of the calls is that of PyTorch's recorded graphs, where a right operand often comes
before the left one.

Source   aten/src/ATen/native/Loss.cpp
         aten/src/ATen/native/LossNLL.cpp  cross_entropy_loss
         aten/src/ATen/native/Distance.cpp  cosine_similarity, pairwise_distance
"""

# mypy: disable-error-code="no-any-return"

import math

import numpy as np

from labkit.core import promotion
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, overwrite
from labkit.ops.aten import aten
from labkit.ops.layers.loss import MEAN, NONE, SUM
from labkit.ops.layers.nll_loss import nll_loss_nd
from labkit.ops.registration import composite
from labkit.ops.tensors import copy

Optional = TensorImpl | None


def _reduced(losses: TensorImpl, reduction: int) -> TensorImpl:
    if reduction == MEAN:
        return aten.mean.default(losses)
    return aten.sum.default(losses) if reduction == SUM else losses


def _from_number(number: float, tensor: TensorImpl) -> TensorImpl:
    """`number - tensor`, as C++ writes it: the number fills a tensor first."""
    filled = aten.fill_.Scalar(aten.empty_like.default(tensor), number)
    return aten.sub.Tensor(filled, tensor)


@composite("l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", variants="")
def l1_loss(self: TensorImpl, target: TensorImpl, reduction: int = MEAN) -> TensorImpl:
    """The sizes of the differences."""
    return _reduced(aten.abs.default(aten.sub.Tensor(self, target)), reduction)


@composite(
    "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
    variants="function",
)
def kl_div(
    self: TensorImpl, target: TensorImpl, reduction: int = MEAN, *, log_target: bool = False
) -> TensorImpl:
    """The divergence of log-probabilities from a distribution.

    log_target  the target is given in logarithms, too
    """
    if log_target:
        difference = aten.sub.Tensor(target, self)
        losses = aten.mul.Tensor(aten.exp.default(target), difference)
    else:
        product = aten.mul.Tensor(target, self)
        losses = aten.sub.Tensor(aten.xlogy.Tensor(target, target), product)
    return _reduced(losses, reduction)


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
    loss = nll_loss_nd(scores, target, weight, reduction, ignore_index)
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


@composite(
    "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
    "int reduction=1) -> Tensor",
    variants="function",
)
def margin_ranking_loss(
    input1: TensorImpl,
    input2: TensorImpl,
    target: TensorImpl,
    margin: float = 0.0,
    reduction: int = MEAN,
) -> TensorImpl:
    """How far the first falls short of the second by the margin; target 1 or, for less, -1."""
    difference = aten.sub.Tensor(input1, input2)
    order = aten.mul.Tensor(aten.neg.default(target), difference)
    losses = aten.clamp_min_.default(aten.add.Scalar(order, margin), 0)
    return _reduced(losses, reduction)


@composite(
    "hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor",
    variants="function",
)
def hinge_embedding_loss(
    self: TensorImpl, target: TensorImpl, margin: float = 1.0, reduction: int = MEAN
) -> TensorImpl:
    """The distance itself where the target is 1, what it lacks of the margin where it is -1."""
    zeros = aten.zeros_like.default(self)
    lacking = aten.clamp_min_.default(_from_number(margin, self), 0)
    apart = aten.where.self(aten.ne.Scalar(target, 1), lacking, zeros)
    together = aten.where.self(aten.ne.Scalar(target, -1), self, zeros)
    return _reduced(aten.add.Tensor(apart, together), reduction)


@composite(
    "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., "
    "int reduction=1) -> Tensor",
    variants="function",
)
def cosine_embedding_loss(
    input1: TensorImpl,
    input2: TensorImpl,
    target: TensorImpl,
    margin: float = 0.0,
    reduction: int = MEAN,
) -> TensorImpl:
    """One less the cosine where the target is 1, the cosine beyond the margin where it is -1."""
    axis = target.dim()
    if axis > 1 or input1.dim() != axis + 1 or input2.dim() != axis + 1:
        raise RuntimeError(
            f"{axis}D target tensor expects {axis + 1}D input tensors (target 0D or 1D), but found "
            f"inputs with sizes {list(input1.sizes)} and {list(input2.sizes)}"
        )

    def dot(a: TensorImpl, b: TensorImpl) -> TensorImpl:
        return aten.sum.dim_IntList(aten.mul.Tensor(a, b), (axis,))

    product = dot(input1, input2)
    square1 = aten.add.Scalar(dot(input1, input1), 1e-12)
    square2 = aten.add.Scalar(dot(input2, input2), 1e-12)
    cosine = aten.div.Tensor(product, aten.sqrt.default(aten.mul.Tensor(square1, square2)))
    zeros = aten.zeros_like.default(cosine)
    alike = _from_number(1, cosine)
    different = aten.clamp_min_.default(aten.sub.Scalar(cosine, margin), 0)
    losses = aten.add.Tensor(
        aten.where.self(aten.eq.Scalar(target, 1), alike, zeros),
        aten.where.self(aten.eq.Scalar(target, -1), different, zeros),
    )
    return _reduced(losses, reduction)


@composite(
    "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    variants="function",
)
def cosine_similarity(
    x1: TensorImpl, x2: TensorImpl, dim: int = 1, eps: float = 1e-8
) -> TensorImpl:
    """The cosine of the angle between vectors along the dimension; norms count as `eps` at least.

    Raises   RuntimeError   whole numbers
    """
    dtype = promotion.result_type(x1, x2)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {dtype}"
        )
    shape = broadcast_shapes(x1.sizes, x2.sizes)
    a, b = (aten.to.dtype(x, dtype) if x.dtype is not dtype else x for x in (x1, x2))
    b = aten.expand.default(b, shape) if b.sizes != shape else b
    a = aten.expand.default(a, shape) if a.sizes != shape else a
    norm_a, norm_b = (
        _at_least(aten.clone.default(aten.linalg_vector_norm.default(x, 2, (dim,), True)), eps)
        for x in (a, b)
    )
    second = aten.div.Tensor(b, norm_b)
    return aten.sum.dim_IntList(aten.mul.Tensor(aten.div.Tensor(a, norm_a), second), (dim,))


def _at_least(self: TensorImpl, low: float) -> TensorImpl:
    """The tensor raised to a bound in place, unseen by autograd, for which it stays the norm."""
    raised = np.maximum(copy.values(self), low)
    return overwrite(self, new_tensor(raised, self.dtype, self.strides))


@composite(
    "pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, "
    "bool keepdim=False) -> Tensor",
    variants="function",
)
def pairwise_distance(
    x1: TensorImpl, x2: TensorImpl, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> TensorImpl:
    """The p-norm of the difference along the last dimension, moved away from 0 by `eps`."""
    last = max(x1.dim(), x2.dim()) - 1
    difference = aten.add.Scalar(aten.sub.Tensor(x1, x2), eps)
    return aten.norm.ScalarOpt_dim(difference, p, (last,), keepdim)


@composite(
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., "
    "float p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor",
    variants="function",
)
def triplet_margin_loss(
    anchor: TensorImpl,
    positive: TensorImpl,
    negative: TensorImpl,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = MEAN,
) -> TensorImpl:
    """How far the negative fails to be further away than the positive by the margin."""
    if len({each.dim() for each in (anchor, positive, negative)}) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: {anchor.dim()}D, {positive.dim()}D, {negative.dim()}D"
        )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = aten.minimum.default(far, pairwise_distance(positive, negative, p, eps))
    short = aten.sub.Tensor(aten.add.Scalar(near, margin), far)
    return _reduced(aten.clamp_min.default(short, 0), reduction)


@composite(
    "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, "
    "int reduction) -> Tensor",
    variants="function",
)
def poisson_nll_loss(
    input: TensorImpl,  # noqa: A002  PyTorch's name for it
    target: TensorImpl,
    log_input: bool,
    full: bool,
    eps: float,
    reduction: int,
) -> TensorImpl:
    """The loss of a rate, or of its logarithm, against counts.

    full  with Stirling's approximation of the term that does not depend on the input
    """
    if log_input:
        product = aten.mul.Tensor(target, input)
        losses = aten.sub.Tensor(aten.exp.default(input), product)
    else:
        logarithm = aten.log.default(aten.add.Scalar(input, eps))
        losses = aten.sub.Tensor(input, aten.mul.Tensor(target, logarithm))
    if full:
        spread = aten.log.default(aten.mul.Scalar(target, 2 * math.pi))
        spread = aten.mul.Scalar(spread, 0.5)
        term = aten.sub.Tensor(aten.mul.Tensor(target, aten.log.default(target)), target)
        term = aten.add.Tensor(term, spread)
        small = aten.le.Scalar(target, 1)
        losses = aten.add_.Tensor(losses, aten.masked_fill.Scalar(term, small, 0))
    return _reduced(losses, reduction)
