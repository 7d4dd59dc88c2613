"""Layers without parameters: activations, pooling.

Source   torch/nn/modules/activation.py, pooling.py, flatten.py
"""

from collections.abc import Sequence
from typing import Any

from labkit._tensor import Tensor
from labkit.nn import functional
from labkit.nn.module import Module


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
