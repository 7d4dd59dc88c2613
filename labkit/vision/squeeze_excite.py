"""A gate per channel, `x * sigmoid(W2 relu(W1 mean(x)))`, and its backward by hand.

torchvision has it as SqueezeExcitation.
"""

from dataclasses import dataclass
from typing import Any

import labkit as lab
from labkit import nn
from labkit.nn import functional as F
from labkit.vision.residual import Gradients


@dataclass
class SavedGate:
    """What backward needs.

    x         [B, C, H, W]
    squeezed  [B, C]: the mean of each channel
    hidden    [B, R]: after the ReLU
    gate      [B, C]: what each channel was multiplied by, between 0 and 1
    """

    x: Any
    squeezed: Any
    hidden: Any
    gate: Any


class SqueezeExcite(nn.Module):
    """Each channel of an image is weighted by what all channels look like on average.

    channels  of the image
    reduced   how many numbers the channels are squeezed into

    Differs  torchvision's two linear layers are 1x1 convolutions, of the same numbers
    """

    def __init__(self, channels: int, reduced: int) -> None:
        super().__init__()
        self.reduce = nn.Linear(channels, reduced)
        self.expand = nn.Linear(reduced, channels)

    def forward(self, x: Any) -> Any:
        """Recorded by autograd."""
        return self._gated(x).gate[:, :, None, None] * x

    def _gated(self, x: Any) -> SavedGate:
        squeezed = x.mean((2, 3))
        hidden = F.relu(self.reduce(squeezed))
        return SavedGate(x, squeezed, hidden, lab.sigmoid(self.expand(hidden)))

    def forward_by_hand(self, x: Any) -> tuple[Any, SavedGate]:
        """The same values without a graph, and what backward needs."""
        with lab.no_grad():
            saved = self._gated(x)
            return saved.gate[:, :, None, None] * x, saved

    def backward_by_hand(self, dy: Any, saved: SavedGate) -> tuple[Any, Gradients]:
        """The gradient of x, and of every parameter.

        x is read twice: it is multiplied, and it is averaged. Both gradients are added.
        """
        with lab.no_grad():
            gate = saved.gate
            d_gate = (dy * saved.x).sum((2, 3))
            d_expanded = d_gate * gate * (1 - gate)
            d_hidden = d_expanded @ self.expand.weight
            d_reduced = d_hidden * (saved.hidden > 0)
            d_squeezed = d_reduced @ self.reduce.weight
            each = d_squeezed / (saved.x.shape[2] * saved.x.shape[3])
            dx = dy * gate[:, :, None, None] + each[:, :, None, None]
            return dx, {
                "reduce.weight": d_reduced.t() @ saved.squeezed,
                "reduce.bias": d_reduced.sum(0),
                "expand.weight": d_expanded.t() @ saved.hidden,
                "expand.bias": d_expanded.sum(0),
            }
