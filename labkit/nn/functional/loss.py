"""Losses.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

from typing import Any

import labkit
from labkit.nn.functional.faces import Tensor, face, reduction_number

Optional = Tensor | None


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
