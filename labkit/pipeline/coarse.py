"""Frames computed at half their size, and at their own size only where that loses something."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from labkit.pipeline.region import ByParts, boxes_of, inside, touched, with_halo


def halved(frames: Tensor) -> Tensor:
    """Half as high and wide, each pixel an average: noise gets less, and so does detail."""
    size = [max(1, edge // 2) for edge in frames.shape[-2:]]
    return F.interpolate(frames, size=size, mode="bilinear", antialias=True)


def enlarged(frames: Tensor, size: torch.Size) -> Tensor:
    """At this height and width, smoothly."""
    return F.interpolate(frames, size=size, mode="bilinear")


class CoarseFirst(ByParts):
    """A network that leaves at the small frame where a block loses no more than `detail`.

    What a block loses is known before anything is computed: how far it is from itself, halved and
    enlarged again, in steps of 0..255. Blocks that lose more are computed at full size.
    """

    def __init__(self, model: nn.Module, detail: int, block: int = 32) -> None:
        super().__init__(model, block)
        self.detail = detail

    def forward(self, frames: Tensor) -> Tensor:
        """The results for these frames."""
        self.whole += frames.shape[0] * frames.shape[-2] * frames.shape[-1]
        return torch.cat([self._one(frame) for frame in frames.split(1)])

    def _one(self, frame: Tensor) -> Tensor:
        size, small = frame.shape[-2:], halved(frame)
        lost = (frame - enlarged(small, size)).abs().amax(dim=(0, 1)) * 255
        result = enlarged(self._counted(small), size)
        for box in boxes_of(touched(lost > self.detail, self.block, 0), self.block):
            box = with_halo(box, 0, frame)
            result[..., box.top : box.bottom, box.left : box.right] = inside(
                self._counted, frame, box, self.halo
            )
        return result
