"""First values of parameters: the numbers PyTorch draws for the same seed.

Source   torch/nn/init.py
"""

import math
from collections.abc import Sequence

from labkit._tensor import Tensor
from labkit.autograd import no_grad


def fan_in(sizes: Sequence[int]) -> int:
    """How many inputs feed one output of a weight of these sizes."""
    receptive = math.prod(sizes[2:])
    return sizes[1] * receptive


def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Numbers drawn evenly from [low, high)."""
    with no_grad():
        return tensor.uniform_(low, high)  # type: ignore[attr-defined]


def kaiming_uniform_(tensor: Tensor, a: float = 0.0) -> Tensor:
    """Numbers drawn evenly, as wide as keeps the variance through a leaky ReLU of slope `a`."""
    gain = math.sqrt(2.0 / (1 + a**2))
    bound = math.sqrt(3.0) * gain / math.sqrt(fan_in(tensor.sizes))
    return uniform_(tensor, -bound, bound)
