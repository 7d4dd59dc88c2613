"""EfficientNet's inverted bottleneck, and its backward by hand, with two plans for its memory.

A 1x1 convolution makes the image `ratio` times as wide, a filter per channel looks around, a gate
weighs the channels, and a 1x1 convolution makes the image narrow again. The mathematics stand in
`MBConv`; what is kept for backward, and what is made a second time, in `SavedBottleneck`.

torchvision has the block as MBConv.
"""

from dataclasses import dataclass, replace
from typing import Any

import labkit as lab
from labkit import nn
from labkit.nn import functional as F
from labkit.ops.aten import aten
from labkit.vision.residual import ConvBn, Gradients, SavedConvBn
from labkit.vision.squeeze_excite import SavedGate, SqueezeExcite


@dataclass
class SavedWide:
    """What backward needs of a convolution, its normalization and the SiLU behind them.

    normalized  what the SiLU was given; None where backward makes it again
    """

    part: SavedConvBn
    normalized: Any


@dataclass
class SavedBottleneck:
    """What backward needs of a block; a None below is made again.

    kept  [B, 1, 1, 1]: what the branch of each image was multiplied by; None for 1
    """

    expand: SavedWide | None
    depthwise: SavedWide
    gate: SavedGate
    project: SavedConvBn
    kept: Any


class ConvBnSilu(ConvBn):
    """A convolution without bias, batch normalization, and SiLU.

    The SiLU's input can be had again from the convolution's result, by one multiplication and one
    addition per element: `normalized`.
    """

    def forward(self, x: Any) -> Any:
        """Recorded by autograd."""
        return F.silu(super().forward(x))

    def forward_wide(self, x: Any) -> tuple[Any, SavedWide]:
        """The same values without a graph, and what backward needs."""
        normalized, part = self.forward_by_hand(x)
        return F.silu(normalized), SavedWide(part, normalized)

    def normalized(self, saved: SavedWide) -> Any:
        """What the SiLU was given: kept, or made again."""
        return self.again(saved.part) if saved.normalized is None else saved.normalized

    def backward_wide(self, dy: Any, saved: SavedWide) -> tuple[Any, Gradients]:
        """The gradient of x, and of the three parameters."""
        d_normalized = aten.silu_backward.default(dy, self.normalized(saved))
        return self.backward_by_hand(d_normalized, saved.part)


class MBConv(nn.Module):
    """Wide, around, gated, narrow; and the input is added where it has the output's shape.

    channels, out  of the input and of the output
    kernel         of the convolution with a filter per channel, odd
    stride         of the same
    ratio          how many times wider the middle is; with 1 nothing is made wider
    drop           in training, the part of the images whose branch is left out; the others' is
                   divided by the part that stays
    recompute      keep for backward what convolutions made, and make again what norm, SiLU and gate
                   made of it

    The gate squeezes to a quarter of the *input's* channels.
    """

    def __init__(
        self,
        channels: int,
        out: int,
        kernel: int,
        stride: int = 1,
        ratio: int = 6,
        drop: float = 0.0,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        wide = channels * ratio
        self.expand = ConvBnSilu(channels, wide, 1, 1) if ratio > 1 else None
        self.depthwise = ConvBnSilu(wide, wide, kernel, stride, groups=wide)
        self.gate = SqueezeExcite(wide, max(1, channels // 4), "silu")
        self.project = ConvBn(wide, out, 1, 1)
        self.skips = stride == 1 and channels == out
        self.drop, self.recompute = drop, recompute

    def forward(self, x: Any) -> Any:
        """Recorded by autograd."""
        wide = x if self.expand is None else self.expand(x)
        return self._sum(self.project(self.gate(self.depthwise(wide))), x, self._kept(x))

    def _kept(self, x: Any) -> Any:
        if not (self.skips and self.training and self.drop):
            return None
        drawn = lab.rand(x.shape[0], 1, 1, 1, device=x.device, dtype=x.dtype)
        return (drawn >= self.drop).to(x.dtype) / (1 - self.drop)

    def _sum(self, branch: Any, x: Any, kept: Any) -> Any:
        if not self.skips:
            return branch
        return x + (branch if kept is None else branch * kept)

    def forward_by_hand(self, x: Any) -> tuple[Any, SavedBottleneck]:
        """The same values without a graph, and what backward needs."""
        with lab.no_grad():
            wide, expand = x, None
            if self.expand is not None:
                wide, expand = self.expand.forward_wide(x)
            around, depthwise = self.depthwise.forward_wide(wide)
            gated, gate = self.gate.forward_by_hand(around)
            branch, project = self.project.forward_by_hand(gated)
            saved = SavedBottleneck(expand, depthwise, gate, project, self._kept(x))
            y = self._sum(branch, x, saved.kept)
        return y, self._without_cheap(saved) if self.recompute else saved

    def _without_cheap(self, saved: SavedBottleneck) -> SavedBottleneck:
        """What can be made again of a convolution's result, element by element, is let go."""
        depthwise = replace(saved.depthwise, normalized=None)
        if saved.expand is not None:
            depthwise.part = replace(depthwise.part, x=None)
        return SavedBottleneck(
            saved.expand and replace(saved.expand, normalized=None),
            depthwise,
            replace(saved.gate, x=None),
            replace(saved.project, x=None),
            saved.kept,
        )

    def backward_by_hand(self, dy: Any, saved: SavedBottleneck) -> tuple[Any, Gradients]:
        """The gradient of x, and of every parameter."""
        with lab.no_grad():
            d_branch = dy if saved.kept is None else dy * saved.kept
            gate = self._gate_again(saved)
            x = saved.project.x if saved.project.x is not None else self.gate.again(gate)
            d_gated, of_project = self.project.backward_by_hand(
                d_branch, replace(saved.project, x=x)
            )
            d_around, of_gate = self.gate.backward_by_hand(d_gated, gate)
            d_wide, of_depthwise = self.depthwise.backward_wide(d_around, self._wide_again(saved))
            dx, of_expand = d_wide, Gradients()
            if self.expand is not None and saved.expand is not None:
                dx, of_expand = self.expand.backward_wide(d_wide, saved.expand)
            dx = dx + dy if self.skips else dx
        parts = {
            "expand": of_expand, "depthwise": of_depthwise, "gate": of_gate, "project": of_project,
        }  # fmt: skip
        return dx, {f"{part}.{k}": g for part, of in parts.items() for k, g in of.items()}

    def _gate_again(self, saved: SavedBottleneck) -> SavedGate:
        """With its image: kept, or SiLU of the depthwise norm."""
        if saved.gate.x is not None:
            return saved.gate
        return replace(saved.gate, x=F.silu(self.depthwise.normalized(saved.depthwise)))

    def _wide_again(self, saved: SavedBottleneck) -> SavedWide:
        """The depthwise part with what was convolved: kept, or SiLU of the expansion's norm."""
        depthwise = saved.depthwise
        if depthwise.part.x is not None or self.expand is None or saved.expand is None:
            return depthwise
        x = F.silu(self.expand.normalized(saved.expand))
        return replace(depthwise, part=replace(depthwise.part, x=x))
