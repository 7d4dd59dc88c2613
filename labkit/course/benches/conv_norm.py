"""`Part`: a convolution with its norm that knows its backward, and autograd to hold it against."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

aten = torch.ops.aten
Saved = tuple[torch.Tensor, ...]


class Part(nn.Module):  # type: ignore[misc]
    """A convolution without bias, and batch normalization."""

    def __init__(
        self, channels: int, out: int, taps: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, taps, stride, taps // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(out)

    def forward(self, x: torch.Tensor) -> Any:
        """Recorded by autograd."""
        return self.bn(self.conv(x))

    def run(self, x: torch.Tensor) -> tuple[torch.Tensor, Saved]:
        """The result, and what backward needs; the running statistics stay."""
        bn = self.bn
        with torch.no_grad():
            made = self.conv(x)
            mean, var = bn.running_mean.clone(), bn.running_var.clone()
            if self.training:
                var, mean = torch.var_mean(made, (0, 2, 3), correction=0)
            invstd = (var + bn.eps).rsqrt()
            scale = bn.weight * invstd
            y = made * scale[:, None, None] + (bn.bias - mean * scale)[:, None, None]
        return y, (x, made, mean, invstd)

    def back(self, dy: torch.Tensor, saved: Saved, constants: bool = False) -> torch.Tensor:
        """The gradient of x; those of the weights go to `.grad`.

        constants  whether mean and variance are constants: otherwise they depend on x
        """
        x, made, mean, invstd = saved
        conv, bn = self.conv, self.bn
        pad, steps, taps = conv.padding, conv.stride, conv.dilation
        with torch.no_grad():
            d_made, bn.weight.grad, bn.bias.grad = aten.native_batch_norm_backward(
                dy, made, bn.weight, mean, invstd**-2 - bn.eps, mean, invstd, not constants,
                bn.eps, [True, True, True],
            )  # fmt: skip
            dx, conv.weight.grad, _ = aten.convolution_backward(
                d_made, x, conv.weight, None, steps, pad, taps, False, [0, 0], conv.groups,
                [True, True, False],
            )  # fmt: skip
        return dx


def autograd(program: Callable[[torch.Tensor], Any], x: torch.Tensor, dy: torch.Tensor) -> Any:
    """The gradient of x, as autograd has it."""
    x = x.detach().requires_grad_()
    return torch.autograd.grad(program(x), x, dy)[0]


def near(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether both are equal up to rounding."""
    return bool(a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-5))


def stays(
    program: Callable[[torch.Tensor], dict[str, torch.Tensor]], x: torch.Tensor
) -> dict[str, int]:
    """Name -> bytes, of the images that autograd keeps for backward.

    program  x -> its images by name
    """
    kept = set()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.add(tensor.data_ptr())
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        named = program(x.detach().requires_grad_())
    return {n: t.numel() * t.element_size() for n, t in named.items() if t.data_ptr() in kept}
