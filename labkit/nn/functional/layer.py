"""Linear maps, convolutions and norms.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

import math
from collections.abc import Sequence

from labkit.nn.functional.faces import Tensor, face

Optional = Tensor | None

linear = face("linear")
conv2d = face("conv2d")


def batch_norm(
    input: Tensor,  # noqa: A002
    running_mean: Optional,
    running_var: Optional,
    weight: Optional = None,
    bias: Optional = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Every channel normalised over the batch."""
    if training and math.prod(input.shape[2:], start=input.shape[0]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    return face("batch_norm")(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def layer_norm(
    input: Tensor,  # noqa: A002
    normalized_shape: Sequence[int],
    weight: Optional = None,
    bias: Optional = None,
    eps: float = 1e-5,
) -> Tensor:
    """The last dimensions normalised."""
    return face("layer_norm")(input, normalized_shape, weight, bias, eps)
