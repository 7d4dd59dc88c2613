"""Layers with parameters: linear, convolution, normalisation, embedding.

Source   torch/nn/modules/linear.py, conv.py, batchnorm.py, normalization.py, sparse.py
"""

import math
from collections.abc import Sequence
from typing import Any

import labkit as lab
from labkit._tensor import Tensor
from labkit.nn import functional, init
from labkit.nn.module import Module
from labkit.nn.parameter import Parameter


def _pair(value: int | Sequence[int]) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _first_values(weight: Tensor, bias: Tensor | None) -> None:
    """What Linear and Conv2d start from."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        bound = 1 / math.sqrt(init.fan_in(weight.sizes))
        init.uniform_(bias, -bound, bound)


class Linear(Module):
    """x @ weight.T + bias, weight [out, in]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(lab.empty(out_features, in_features))
        self.register_parameter("bias", Parameter(lab.empty(out_features)) if bias else None)
        _first_values(self.weight, self.bias)

    def forward(self, x: Tensor) -> Any:
        """[..., in] -> [..., out]."""
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """in, out, bias."""
        has_bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={has_bias}"


class Conv2d(Module):
    """A convolution, weight [out, in / groups, height, width]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"in_channels ({in_channels}) and out_channels ({out_channels}) must be divisible "
                f"by groups ({groups})"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(lab.empty(*shape))
        self.register_parameter("bias", Parameter(lab.empty(out_channels)) if bias else None)
        _first_values(self.weight, self.bias)

    def forward(self, x: Tensor) -> Any:
        """[N, in, H, W] -> [N, out, H', W']."""
        return functional.conv2d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        """Channels, kernel, stride, and whatever else is not as by default."""
        said = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        ]
        for name, default in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)):
            if getattr(self, name) != default:
                said.append(f"{name}={getattr(self, name)}")
        return ", ".join(said + ["bias=False"] * (self.bias is None))


class _BatchNorm(Module):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.register_parameter("weight", Parameter(lab.ones(num_features)) if affine else None)
        self.register_parameter("bias", Parameter(lab.zeros(num_features)) if affine else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", lab.zeros(num_features) if tracked else None)
        self.register_buffer("running_var", lab.ones(num_features) if tracked else None)
        counted = lab.tensor(0, dtype=lab.int64) if tracked else None
        self.register_buffer("num_batches_tracked", counted)

    def forward(self, x: Tensor) -> Any:
        """The same shape, each channel with mean 0 and variance 1, scaled and shifted."""
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or self.running_mean is None, self.momentum, self.eps,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Channels and the two constants."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of [N, C] or [N, C, L]."""


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of [N, C, H, W]."""


class LayerNorm(Module):
    """The last dimensions with mean 0 and variance 1, scaled and shifted."""

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape, self.eps = tuple(shape), eps
        self.weight = Parameter(lab.ones(*self.normalized_shape))
        self.bias = Parameter(lab.zeros(*self.normalized_shape))

    def forward(self, x: Tensor) -> Any:
        """The same shape."""
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Shape and constant."""
        return f"{self.normalized_shape}, eps={self.eps}"
