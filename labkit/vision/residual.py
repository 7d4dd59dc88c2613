"""ResNet's basic block, `relu(branch(x) + shortcut(x))`, and its backward by hand.

`block(x)` records a graph, as any module does. By hand the same goes in two calls:

    y, saved = block.forward_by_hand(x)          # under no_grad: no graph
    dx, gradients = block.backward_by_hand(dy, saved)

torchvision has the block as BasicBlock.
"""

from dataclasses import dataclass
from typing import Any

import labkit as lab
from labkit import nn
from labkit.nn import functional as F
from labkit.ops.aten import aten

Gradients = dict[str, Any]
"""Name of a parameter, as in `named_parameters` -> its gradient."""


@dataclass
class SavedConvBn:
    """What backward needs of a convolution and the normalization behind it.

    x             what was convolved
    made          its convolution, which was normalized
    mean, invstd  of each channel of this batch; empty in eval mode
    """

    x: Any
    made: Any
    mean: Any
    invstd: Any


@dataclass
class SavedBlock:
    """What backward needs of a block.

    hidden  the branch between its two halves, after its ReLU
    y       the output: its ReLU let through what is above 0 there
    """

    first: SavedConvBn
    second: SavedConvBn
    shortcut: SavedConvBn | None
    hidden: Any
    y: Any


class ConvBn(nn.Module):
    """A convolution without bias, and batch normalization.

    groups  as many as channels: a filter per channel

    Differs  by hand the running statistics move as in `forward`; their counter of batches does not
    """

    def __init__(self, channels: int, out: int, kernel: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(out)

    def forward(self, x: Any) -> Any:
        """Recorded by autograd."""
        return self.bn(self.conv(x))

    def forward_by_hand(self, x: Any) -> tuple[Any, SavedConvBn]:
        """The same values, and what backward needs."""
        bn: Any = self.bn
        made = self.conv(x)
        y, mean, invstd = aten.native_batch_norm.default(
            made, bn.weight, bn.bias, bn.running_mean, bn.running_var, self.training, bn.momentum,
            bn.eps,
        )  # fmt: skip
        return y, SavedConvBn(x, made, mean, invstd)

    def again(self, saved: SavedConvBn) -> Any:
        """The result, made of the convolution's: element by element, up to rounding."""
        bn: Any = self.bn
        mean, invstd = saved.mean, saved.invstd
        if not self.training:
            mean, invstd = bn.running_mean, (bn.running_var + bn.eps).rsqrt()
        scale = bn.weight * invstd
        shift = bn.bias - mean * scale
        return saved.made * scale[:, None, None] + shift[:, None, None]

    def backward_by_hand(self, dy: Any, saved: SavedConvBn) -> tuple[Any, Gradients]:
        """The gradient of x, and of the three parameters: first the last operator's."""
        conv, bn = self.conv, self.bn
        d_made, d_weight, d_bias = aten.native_batch_norm_backward.default(
            dy, saved.made, bn.weight, bn.running_mean, bn.running_var, saved.mean, saved.invstd,
            self.training, bn.eps, [True, True, True],
        )  # fmt: skip
        dx, d_filter, _ = aten.convolution_backward.default(
            d_made, saved.x, conv.weight, None, conv.stride, conv.padding, conv.dilation, False,
            [0, 0], conv.groups, [True, True, False],
        )  # fmt: skip
        return dx, {"conv.weight": d_filter, "bn.weight": d_weight, "bn.bias": d_bias}


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around which the input is led.

    channels, out  of the input and of the output
    stride         of the first convolution

    The shortcut is the input itself where that has the output's shape, and else a 1x1 convolution.
    """

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.first = ConvBn(channels, out, 3, stride)
        self.second = ConvBn(out, out, 3, 1)
        same = channels == out and stride == 1
        self.shortcut = None if same else ConvBn(channels, out, 1, stride)

    def forward(self, x: Any) -> Any:
        """Recorded by autograd."""
        around = x if self.shortcut is None else self.shortcut(x)
        return F.relu(self.second(F.relu(self.first(x))) + around)

    def forward_by_hand(self, x: Any) -> tuple[Any, SavedBlock]:
        """The same values without a graph, and what backward needs."""
        with lab.no_grad():
            made, first = self.first.forward_by_hand(x)
            hidden = F.relu(made)
            branch, second = self.second.forward_by_hand(hidden)
            around, shortcut = x, None
            if self.shortcut is not None:
                around, shortcut = self.shortcut.forward_by_hand(x)
            y = F.relu(branch + around)
        return y, SavedBlock(first, second, shortcut, hidden, y)

    def backward_by_hand(self, dy: Any, saved: SavedBlock) -> tuple[Any, Gradients]:
        """The gradient of x, and of every parameter.

        The sum hands its gradient to both of its sides, and x collects from both of them.
        """
        with lab.no_grad():
            d_sum = aten.threshold_backward.default(dy, saved.y, 0)
            d_hidden, of_second = self.second.backward_by_hand(d_sum, saved.second)
            d_made = aten.threshold_backward.default(d_hidden, saved.hidden, 0)
            dx_branch, of_first = self.first.backward_by_hand(d_made, saved.first)
            dx_around: Any = d_sum
            of_shortcut: Gradients = {}
            if self.shortcut is not None:
                assert saved.shortcut is not None
                dx_around, of_shortcut = self.shortcut.backward_by_hand(d_sum, saved.shortcut)
            dx = dx_branch + dx_around
        parts = {"first": of_first, "second": of_second, "shortcut": of_shortcut}
        return dx, {f"{part}.{k}": g for part, of in parts.items() for k, g in of.items()}
