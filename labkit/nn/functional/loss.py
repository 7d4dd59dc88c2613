"""Losses.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

import labkit
from labkit.nn.functional.faces import Tensor, face, reduction_number

Optional = Tensor | None


def mse_loss(
    input: Tensor,  # noqa: A002  PyTorch's name for it
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Optional = None,
) -> Tensor:
    """Squares of the differences."""
    how = reduction_number(reduction, size_average, reduce)
    a, b = labkit.broadcast_tensors(input, target)
    if weight is None:
        return face("mse_loss")(a, b, how)
    losses = face("mse_loss")(a, b, 0)
    if weight.shape != losses.shape:
        raise ValueError(f"Weights and input must have the same size, got {weight.shape}")
    losses = losses * weight
    if reduction == "none":
        return losses
    return losses.sum() / weight.sum() if reduction == "mean" else losses.sum()


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
