"""The sizes of a convolution, as a test writes them."""

from typing import NamedTuple

import torch

from labkit.cuda.structures import Conv2d


class Conv(NamedTuple):
    """One convolution.

    x, w           shapes of the input and of the weights [K, C / groups, R, S]
    padding        above and left; PyTorch's "same" pads the far edges differently:
    padding_after  below and right, None for the same
    """

    x: tuple[int, int, int, int]
    w: tuple[int, int, int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    padding_after: tuple[int, int] | None = None

    @property
    def out_size(self) -> tuple[int, int]:
        """Height and width of y."""
        after = self.padding_after or self.padding
        height, width = (
            (size + before + behind - dilation * (taps - 1) - 1) // stride + 1
            for size, before, behind, dilation, taps, stride in zip(
                self.x[2:], self.padding, after, self.dilation, self.w[2:], self.stride, strict=True
            )
        )
        return height, width

    @property
    def y(self) -> tuple[int, int, int, int]:
        """Shape of the output."""
        return (self.x[0], self.w[0], *self.out_size)

    @property
    def depth(self) -> int:
        """Products behind one output."""
        return self.w[1] * self.w[2] * self.w[3]

    def sizes(self) -> Conv2d:
        """The kernels' argument."""
        return Conv2d(
            *self.x, self.w[0], *self.out_size, *self.w[2:], *self.stride, *self.padding,
            *self.dilation, self.groups,
        )  # fmt: skip

    def apply(self, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """PyTorch's answer; pads first, so that the far edges may have a padding of their own."""
        (top, left), (bottom, right) = self.padding, self.padding_after or self.padding
        padded = torch.nn.functional.pad(x, (left, right, top, bottom))
        return torch.nn.functional.conv2d(
            padded, w, bias, self.stride, 0, self.dilation, self.groups
        )
