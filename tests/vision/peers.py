"""ResNet-18's and EfficientNet-B0's blocks and networks of torch.nn, as their papers have them."""

import torch
from torch import nn


def conv_bn(channels, out, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    )


class Residual(nn.Module):
    def __init__(self, channels, out, stride=1):
        super().__init__()
        self.first, self.second = conv_bn(channels, out, 3, stride), conv_bn(out, out, 3)
        same = channels == out and stride == 1
        self.shortcut = nn.Identity() if same else conv_bn(channels, out, 1, stride)

    def forward(self, x):
        return (self.second(self.first(x).relu()) + self.shortcut(x)).relu()


class Bottleneck(nn.Module):
    """Without stochastic depth."""

    def __init__(self, channels, out, kernel, stride=1, ratio=6):
        super().__init__()
        wide, reduced = channels * ratio, max(1, channels // 4)
        wider = [conv_bn(channels, wide, 1), nn.SiLU()] if ratio > 1 else []
        around = conv_bn(wide, wide, kernel, stride, groups=wide)
        self.wide = nn.Sequential(*wider, around, nn.SiLU())
        self.reduce, self.expand = nn.Conv2d(wide, reduced, 1), nn.Conv2d(reduced, wide, 1)
        self.project = conv_bn(wide, out, 1)
        self.skips = stride == 1 and channels == out

    def forward(self, x):
        wide = self.wide(x)
        reduced = nn.functional.silu(self.reduce(wide.mean((2, 3), keepdim=True)))
        y = self.project(self.expand(reduced).sigmoid() * wide)
        return x + y if self.skips else y


def resnet18(width, classes):
    def scaled(channels):
        return max(1, round(channels * width))

    blocks, channels = [], scaled(64)
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Residual(channels, scaled(out), stride), Residual(scaled(out), scaled(out))]
        channels = scaled(out)
    return nn.Sequential(
        conv_bn(3, scaled(64), 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes),
    )  # fmt: skip


TABLE = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3),
         (6, 5, 2, 192, 4), (6, 3, 1, 320, 1))  # fmt: skip
"""Ratio, kernel, stride of the first, channels, repeats: the paper's rows 2 to 8."""


def efficientnet_b0(width, classes):
    def scaled(channels):
        return max(1, round(channels * width))

    blocks, channels = [], scaled(32)
    for ratio, kernel, stride, out, repeats in TABLE:
        for place in range(repeats):
            step = stride if place == 0 else 1
            blocks.append(Bottleneck(channels, scaled(out), kernel, step, ratio))
            channels = scaled(out)
    return nn.Sequential(
        conv_bn(3, scaled(32), 3, 2), nn.SiLU(), *blocks, conv_bn(channels, scaled(1280), 1),
        nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(scaled(1280), classes),
    )  # fmt: skip


def copied(peer, ours):
    """The peer in float64, its parameters and statistics those of a labkit module, in order."""
    peer = peer.double()
    with torch.no_grad():
        for theirs, mine in zip(peer.parameters(), ours.parameters(), strict=True):
            theirs.copy_(torch.tensor(mine.tolist(), dtype=torch.float64).view(theirs.shape))
    return peer
