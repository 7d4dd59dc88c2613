"""ResNet-18 and EfficientNet-B0 of their blocks, in any width.

Width 1 is the published table: 11,689,512 and 5,288,548 parameters. A smaller width has the same
layers with fewer channels, and runs in seconds on the emulator.

torchvision has them as resnet18 and efficientnet_b0.
"""

from typing import Any, NamedTuple

from labkit import nn
from labkit.nn import functional as F
from labkit.vision.mbconv import ConvBnSilu, MBConv
from labkit.vision.receptive_field import Branches, Trunk, Window
from labkit.vision.residual import ConvBn, ResidualBlock


class Stage(NamedTuple):
    """A row of EfficientNet's table: blocks in a row, of which the first may step.

    ratio    how many times wider the middle of a block is
    kernel   of the convolution with a filter per channel
    stride   of the first block
    out      channels
    repeats  blocks
    """

    ratio: int
    kernel: int
    stride: int
    out: int
    repeats: int


RESNET18 = ((64, 1), (128, 2), (256, 2), (512, 2))
"""(channels, stride of the first block) of the four stages of two blocks."""

EFFICIENTNET_B0 = (
    Stage(1, 3, 1, 16, 1),
    Stage(6, 3, 2, 24, 2),
    Stage(6, 5, 2, 40, 2),
    Stage(6, 3, 2, 80, 3),
    Stage(6, 5, 1, 112, 3),
    Stage(6, 5, 2, 192, 4),
    Stage(6, 3, 1, 320, 1),
)


def _scaled(channels: int, width: float) -> int:
    return max(1, round(channels * width))


class ResNet(nn.Module):
    """ResNet-18: a stem, eight residual blocks, a mean over the image, a linear layer."""

    def __init__(self, width: float = 1.0, classes: int = 1000) -> None:
        super().__init__()
        channels = _scaled(64, width)
        self.stem = ConvBn(3, channels, 7, 2)
        blocks = []
        for published, stride in RESNET18:
            out = _scaled(published, width)
            blocks += [ResidualBlock(channels, out, stride), ResidualBlock(out, out)]
            channels = out
        self.blocks = nn.Sequential(*blocks)
        self.classify = nn.Linear(channels, classes)

    def forward(self, x: Any) -> Any:
        """[B, 3, H, W] -> [B, classes]."""
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        return self.classify(self.blocks(x).mean((2, 3)))

    def windows(self) -> Trunk:
        """What moves over the image, for `receptive_field`."""
        return [_window(self.stem), Window(3, 2, 1), *map(_windows, self.blocks)]


class EfficientNet(nn.Module):
    """EfficientNet-B0: stem, sixteen MBConv blocks, head, mean over the image, linear layer.

    drop  part of the images that leave out a block's branch in training: it grows with depth from 0
          towards this
    """

    def __init__(self, width: float = 1.0, classes: int = 1000, drop: float = 0.2) -> None:
        super().__init__()
        channels = _scaled(32, width)
        self.stem = ConvBnSilu(3, channels, 3, 2)
        total = sum(stage.repeats for stage in EFFICIENTNET_B0)
        blocks: list[Any] = []
        for stage in EFFICIENTNET_B0:
            out = _scaled(stage.out, width)
            for place in range(stage.repeats):
                stride = stage.stride if place == 0 else 1
                share = drop * len(blocks) / total
                made = MBConv(channels, out, stage.kernel, stride, stage.ratio, share)
                blocks.append(made)
                channels = out
        self.blocks = nn.Sequential(*blocks)
        self.head = ConvBnSilu(channels, _scaled(1280, width), 1, 1)
        self.classify = nn.Linear(_scaled(1280, width), classes)

    def forward(self, x: Any) -> Any:
        """[B, 3, H, W] -> [B, classes]."""
        return self.classify(self.head(self.blocks(self.stem(x))).mean((2, 3)))

    def windows(self) -> Trunk:
        """What moves over the image. A gate's mean, which sees all of it, is left out."""
        return [_window(self.stem), *map(_windows, self.blocks)]


def _window(part: Any) -> Window:
    conv = part.conv
    return Window(conv.kernel_size[1], conv.stride[1], conv.padding[1], conv.dilation[1])


def _windows(block: Any) -> Branches | Window:
    if isinstance(block, MBConv):
        return _window(block.depthwise)
    around = [] if block.shortcut is None else [_window(block.shortcut)]
    return Branches([_window(block.first), _window(block.second)], around)
