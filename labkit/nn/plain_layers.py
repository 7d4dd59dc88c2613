"""Layers without parameters: activations, pooling, dropout, losses.

Source   torch/nn/modules/activation.py, pooling.py, dropout.py, loss.py
"""

from collections.abc import Sequence
from typing import Any

from labkit._tensor import Tensor
from labkit.nn import functional
from labkit.nn.module import Module


class Identity(Module):
    """What it is given."""

    def forward(self, x: Tensor) -> Any:
        """The tensor itself."""
        return x


class ReLU(Module):
    """max(x, 0); in place when asked."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, x: Tensor) -> Any:
        """The same shape."""
        return functional.relu(x, inplace=self.inplace)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor) -> Any:
        """The same shape."""
        return x.sigmoid()  # type: ignore[attr-defined]


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor) -> Any:
        """The same shape."""
        return x.tanh()  # type: ignore[attr-defined]


class GELU(Module):
    """x times the normal distribution function, exact or by "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Any:
        """The same shape."""
        return functional.gelu(x, approximate=self.approximate)


class SiLU(Module):
    """x * sigmoid(x)."""

    def forward(self, x: Tensor) -> Any:
        """The same shape."""
        return functional.silu(x)


class Softmax(Module):
    """Positive numbers that add up to 1 along a dimension."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Any:
        """The same shape."""
        return functional.softmax(x, self.dim)


class Dropout(Module):
    """While training, each element is 0 with probability p and else scaled by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Any:
        """The same shape."""
        return functional.dropout(x, self.p, self.training)


class Flatten(Module):
    """Several dimensions as one; the first is the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Any:
        """[N, ...] -> [N, all]."""
        return x.flatten(self.start_dim, self.end_dim)


class MaxPool2d(Module):
    """The greatest element of each window."""

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride

    def forward(self, x: Tensor) -> Any:
        """[N, C, H, W] -> [N, C, H', W']."""
        return functional.max_pool2d(x, self.kernel_size, self.stride, self.padding)


class AvgPool2d(MaxPool2d):
    """The mean of each window."""

    def forward(self, x: Tensor) -> Any:
        """[N, C, H, W] -> [N, C, H', W']."""
        return functional.avg_pool2d(x, self.kernel_size, self.stride, self.padding)


class AdaptiveAvgPool2d(Module):
    """Means of as many windows as the output has elements."""

    def __init__(self, output_size: int | Sequence[int]) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, x: Tensor) -> Any:
        """[N, C, H, W] -> [N, C, *output_size]."""
        return functional.adaptive_avg_pool2d(x, self.output_size)


class MSELoss(Module):
    """The mean of squared differences."""

    def forward(self, x: Tensor, target: Tensor) -> Any:
        """A 0-dim tensor."""
        return functional.mse_loss(x, target)


class CrossEntropyLoss(Module):
    """The mean negative log probability of the right class, from scores."""

    def forward(self, x: Tensor, target: Tensor) -> Any:
        """A 0-dim tensor of [N, C] scores and [N] classes."""
        return functional.cross_entropy(x, target)
