"""A twin of a network whose float sums are exact, so their order does not matter."""

import copy

import torch
from torch import Tensor, nn

WEIGHT, NUMBER, LARGEST = 1 / 64, 1 / 256, 8.0
"""Weights are multiples of the first. Numbers between layers: of the second, up to the third."""
EXACT_BELOW = 2**24 * WEIGHT * NUMBER
"""A float32 has 24 bits: below this it holds every multiple of a product."""


class Rounded(nn.Module):  # type: ignore[misc]
    """Numbers to multiples of NUMBER, none beyond LARGEST."""

    def forward(self, numbers: Tensor) -> Tensor:
        """The nearest multiples."""
        return (numbers / NUMBER).round().mul(NUMBER).clamp(-LARGEST, LARGEST)


def exact(model: nn.Sequential) -> nn.Sequential:
    """The convolutions of a network with rounded numbers: every part has the bits of the whole.

    Raises   ValueError   a sum could become too large to be exact
    """
    layers: list[nn.Module] = []
    for layer in copy.deepcopy(model):
        if isinstance(layer, nn.Conv2d):
            layers.append(Rounded())
            with torch.no_grad():
                layer.weight.copy_((layer.weight / WEIGHT).round() * WEIGHT)
                layer.bias.copy_((layer.bias / (WEIGHT * NUMBER)).round() * WEIGHT * NUMBER)
            largest = layer.weight.abs().sum((1, 2, 3)) * LARGEST + layer.bias.abs()
            if largest.max() >= EXACT_BELOW:
                raise ValueError(f"{layer}: a sum may reach {largest.max():.0f} and is not exact")
        layers.append(layer)
    return nn.Sequential(*layers)
