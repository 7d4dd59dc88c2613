"""The sizes of a convolution, as a test writes them, and the types it is computed in."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.element_types import types_of
from labkit.cuda.shelf.rung import Problem, Rung, rungs_of
from labkit.cuda.structures import Conv2d


class Conv(NamedTuple):
    """One convolution.

    x, w           shapes of the input and of the weights [K, C / groups, R, S]
    padding        above and left; PyTorch's "same" pads the far edges differently:
    padding_after  below and right, None for the same
    steps          the types it is computed in, as the words that kernels' names end in; "" is
                   float32
    """

    x: tuple[int, int, int, int]
    w: tuple[int, int, int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    padding_after: tuple[int, int] | None = None
    steps: tuple[str, ...] = ("",)

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


def in_its_types(rung: Rung, conv: Conv) -> Conv:
    """The same sizes, computed in every type that the rung has a kernel for."""
    return conv._replace(steps=types_of(rung))


def convolutions_of(
    op: str,
    make: Callable[[Rung, np.random.Generator, Conv], Problem],
    probe: Conv,
    shapes: Sequence[Conv],
) -> tuple[Rung, ...]:
    """The ladder `op`; every case is computed in each type that the rung has a kernel for."""
    return tuple(
        dataclasses.replace(
            rung,
            probe_shape=in_its_types(rung, probe),
            shapes=tuple(in_its_types(rung, conv) for conv in shapes),
        )
        for rung in rungs_of(op, make, probe, shapes)
    )
