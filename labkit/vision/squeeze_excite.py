"""A gate per channel, `x * sigmoid(W2 act(W1 mean(x)))`, and its backward by hand.

torchvision has it as SqueezeExcitation.
"""

from dataclasses import dataclass
from typing import Any

import labkit as lab
from labkit import nn
from labkit.nn import functional as F
from labkit.ops.aten import aten
from labkit.ops.cuda.launching import NoKernel
from labkit.ops.cuda.squeeze_excite import gate_backward, gate_forward
from labkit.vision.residual import Gradients

ACTIVATIONS: dict[str, tuple[Any, Any]] = {
    "relu": (F.relu, lambda dy, x: aten.threshold_backward.default(dy, x, 0)),
    "silu": (F.silu, aten.silu_backward.default),
}
"""Name -> an activation, and its backward from the gradient and the activation's input."""


@dataclass
class SavedGate:
    """What backward needs.

    x         [B, C, H, W]
    squeezed  [B, C]: the mean of each channel
    reduced   [B, R]: before the activation
    gate      [B, C]: what each channel was multiplied by, between 0 and 1
    """

    x: Any
    squeezed: Any
    reduced: Any
    gate: Any


class SqueezeExcite(nn.Module):
    """Each channel of an image is weighted by what all channels look like on average.

    channels    of the image
    reduced     how many numbers the channels are squeezed into
    activation  between the two linear layers: "relu", or EfficientNet's "silu"

    Differs  torchvision's two linear layers are 1x1 convolutions, of the same numbers
    """

    def __init__(self, channels: int, reduced: int, activation: str = "relu") -> None:
        super().__init__()
        self.reduce = nn.Linear(channels, reduced)
        self.expand = nn.Linear(reduced, channels)
        self.activate, self.activate_backward = ACTIVATIONS[activation]
        self.silu = activation == "silu"

    def forward(self, x: Any) -> Any:
        """Recorded by autograd; where nothing is recorded, the device's three launches do it."""
        if not lab.is_grad_enabled():
            try:
                return self._launched(x)[0]
            except NoKernel:
                pass
        return self._gated(x).gate[:, :, None, None] * x

    def _launched(self, x: Any) -> Any:
        """The result, the means and the gate, by `kernels/squeeze_excite`.

        Raises   NoKernel   something is no float32 on the device
        """
        reduce, expand = self.reduce, self.expand
        layers = (reduce.weight, reduce.bias), (expand.weight, expand.bias)
        return gate_forward(x, *layers, self.silu)

    def _gated(self, x: Any) -> SavedGate:
        squeezed = x.mean((2, 3))
        reduced = self.reduce(squeezed)
        return SavedGate(x, squeezed, reduced, lab.sigmoid(self.expand(self.activate(reduced))))

    def forward_by_hand(self, x: Any) -> tuple[Any, SavedGate]:
        """The same values without a graph, and what backward needs."""
        with lab.no_grad():
            try:
                y, squeezed, gate = self._launched(x)
            except NoKernel:
                saved = self._gated(x)
                return self.again(saved), saved
            return y, SavedGate(x, squeezed, self.reduce(squeezed), gate)

    def again(self, saved: SavedGate) -> Any:
        """The result, made of what was saved."""
        return saved.gate[:, :, None, None] * saved.x

    def backward_by_hand(self, dy: Any, saved: SavedGate) -> tuple[Any, Gradients]:
        """The gradient of x, and of every parameter.

        x is read twice: it is multiplied, and it is averaged. Both gradients are added. On the
        device the three launches of `kernels/squeeze_excite_backward` do it.
        """
        with lab.no_grad():
            try:
                slope = self.activate_backward(lab.ones_like(saved.reduced), saved.reduced)
                weights = self.reduce.weight, self.expand.weight
                found: Any = gate_backward(dy, saved.x, saved.gate, slope, *weights)
            except NoKernel:
                found = self._by_operators(dy, saved)
            dx, d_expanded, d_reduced = found
            return dx, {
                "reduce.weight": d_reduced.t() @ saved.squeezed,
                "reduce.bias": d_reduced.sum(0),
                "expand.weight": d_expanded.t() @ self.activate(saved.reduced),
                "expand.bias": d_expanded.sum(0),
            }

    def _by_operators(self, dy: Any, saved: SavedGate) -> tuple[Any, Any, Any]:
        """The gradients of x and of what both layers made, step by step."""
        gate = saved.gate
        d_gate = (dy * saved.x).sum((2, 3))
        d_expanded = d_gate * gate * (1 - gate)
        d_hidden = d_expanded @ self.expand.weight
        d_reduced = self.activate_backward(d_hidden, saved.reduced)
        d_squeezed = d_reduced @ self.reduce.weight
        each = d_squeezed / (saved.x.shape[2] * saved.x.shape[3])
        return dy * gate[:, :, None, None] + each[:, :, None, None], d_expanded, d_reduced
