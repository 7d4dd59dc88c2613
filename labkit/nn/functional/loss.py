"""Losses.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

import math
from collections.abc import Callable
from typing import Any

import labkit
from labkit.autograd import no_grad
from labkit.nn.functional.faces import Tensor, face, reduction_number

Optional = Tensor | None
cosine_similarity = face("cosine_similarity")
pairwise_distance = face("pairwise_distance")


def _broadcast(input_: Tensor, target: Tensor) -> tuple[Any, Any]:
    expanded: tuple[Any, Any] = labkit.broadcast_tensors(input_, target)
    return expanded


def _weighted(losses: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if weight.shape != losses.shape:
        raise ValueError(f"Weights and input must have the same size, got {weight.shape}")
    losses = losses * weight
    if reduction == "none":
        return losses
    return losses.sum() / weight.sum() if reduction == "mean" else losses.sum()


def _element_wise(
    name: str,
    input_: Tensor,
    target: Tensor,
    how: tuple[str, bool | None, bool | None],
    *options: Any,
    weight: Optional = None,
) -> Tensor:
    reduction = reduction_number(*how)
    a, b = _broadcast(input_, target)
    if weight is not None:
        return _weighted(face(name)(a, b, 0, *options), weight, how[0])
    return face(name)(a, b, reduction, *options)


def mse_loss(
    input: Tensor,  # noqa: A002  PyTorch's name for it
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Optional = None,
) -> Tensor:
    """Squares of the differences."""
    how = (reduction, size_average, reduce)
    return _element_wise("mse_loss", input, target, how, weight=weight)


def l1_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Optional = None,
) -> Tensor:
    """Sizes of the differences."""
    how = (reduction, size_average, reduce)
    return _element_wise("l1_loss", input, target, how, weight=weight)


def smooth_l1_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """The difference less beta / 2, and below beta a parabola."""
    how = (reduction, size_average, reduce)
    if beta == 0.0:
        return _element_wise("l1_loss", input, target, how)
    return _element_wise("smooth_l1_loss", input, target, how, beta)


def huber_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Optional = None,
) -> Tensor:
    """Half the square of the difference, and beyond delta a straight line."""
    how = (reduction, None, None)
    return _element_wise("huber_loss", input, target, how, delta, weight=weight)


def nll_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    weight: Optional = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The loss of log-probabilities against classes."""
    how = reduction_number(reduction, size_average, reduce)
    return face("nll_loss_nd")(input, target, weight, how, ignore_index)


def cross_entropy(
    input: Tensor,  # noqa: A002
    target: Tensor,
    weight: Optional = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The loss of scores against classes, or against probabilities."""
    how = reduction_number(reduction, size_average, reduce)
    return face("cross_entropy_loss")(input, target, weight, how, ignore_index, label_smoothing)


def kl_div(
    input: Tensor,  # noqa: A002
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """The divergence of log-probabilities from a distribution.

    reduction  also "batchmean": the sum divided by the first size
    """
    word = "sum" if reduction == "batchmean" else reduction
    how = reduction_number(word, size_average, reduce)
    result = face("kl_div")(input, target, how, log_target=log_target)
    if reduction == "batchmean" and input.dim() != 0:
        result = result / input.size(0)
    return result


def poisson_nll_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The loss of a rate, or of its logarithm, against counts."""
    how = reduction_number(reduction, size_average, reduce)
    return face("poisson_nll_loss")(input, target, log_input, full, eps, how)


def gaussian_nll_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The loss of means and variances against what was observed.

    Raises   ValueError   a negative variance, or one of a shape that does not fit
    """
    how = reduction_number(reduction)
    if isinstance(var, float):
        if var < 0:
            raise ValueError(f"var has negative entry/entries: {var}")
        var = var * labkit.ones_like(input)
    elif (var < 0).any().item():
        raise ValueError("var has negative entry/entries")
    if var.shape != input.shape:
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif tuple(input.shape[:-1]) != tuple(var.shape[:-1]) or var.shape[-1] != 1:
            raise ValueError(f"var is of incorrect size {var.shape} for input {input.shape}")
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    losses = (var.log() + (input - target) ** 2 / var) * 0.5
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return losses if how == 0 else losses.mean() if how == 1 else losses.sum()


def binary_cross_entropy(
    input: Tensor,  # noqa: A002
    target: Tensor,
    weight: Optional = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The cross entropy of probabilities.

    Raises   ValueError   a target of another shape
    """
    how = reduction_number(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(labkit.broadcast_shapes(weight.shape, target.shape))
    return face("binary_cross_entropy")(input, target, weight, how)


def binary_cross_entropy_with_logits(
    input: Tensor,  # noqa: A002
    target: Tensor,
    weight: Optional = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Optional = None,
) -> Tensor:
    """The cross entropy of the sigmoid of the input.

    Raises   ValueError   a target of another shape
    """
    how = reduction_number(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    name = "binary_cross_entropy_with_logits"
    return face(name)(input, target, weight, pos_weight, how)


def hinge_embedding_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The distance where the target is 1, what it lacks of the margin where it is -1."""
    how = reduction_number(reduction, size_average, reduce)
    return face("hinge_embedding_loss")(input, target, margin, how)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How far the first falls short of the second by the margin."""
    how = reduction_number(reduction, size_average, reduce)
    if len({input1.dim(), input2.dim(), target.dim()}) > 1:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return face("margin_ranking_loss")(input1, input2, target, margin, how)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """One less the cosine where the target is 1, the cosine beyond the margin where it is -1."""
    how = reduction_number(reduction, size_average, reduce)
    return face("cosine_embedding_loss")(input1, input2, target, margin, how)


def soft_margin_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The logistic loss where the target is 1 or -1."""
    how = reduction_number(reduction, size_average, reduce)
    return face("soft_margin_loss")(input, target, how)


def multilabel_soft_margin_loss(
    input: Tensor,  # noqa: A002
    target: Tensor,
    weight: Optional = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean logistic loss over the classes of every sample."""
    how = reduction_number(reduction, size_average, reduce)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    losses = losses.sum(dim=input.dim() - 1) / input.size(input.dim() - 1)
    return losses if how == 0 else losses.mean() if how == 1 else losses.sum()


logsigmoid = face("log_sigmoid")


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How far the negative fails to be further away than the positive by the margin."""
    how = reduction_number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return face("triplet_margin_loss")(anchor, positive, negative, margin, p, eps, swap, how)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own."""
    how = reduction_number(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance: Any = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = labkit.minimum(far, distance(positive, negative))
    losses = (margin + near - far).clamp_min(0)
    return losses if how == 0 else losses.mean() if how == 1 else losses.sum()
