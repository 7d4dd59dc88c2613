"""Frames of a film, computed again only where they changed."""

import torch
from torch import Tensor, nn

from labkit.pipeline.region import Box, ByParts, boxes_of, inside, touched, with_halo


class Reusing(ByParts):
    """A network that keeps its last result, and computes the blocks of the next one that differ.

    In each batch [N, 3, H, W] the first frame is computed whole; so a batch depends on no other.
    A pixel has changed when a channel differs by more than `above` steps of 0..255 from the frame
    its block was last computed from. With 0 the results are those of the network itself; otherwise
    a block may rest on pixels that are off by `above`, and by twice as much in its halo.
    """

    def __init__(self, model: nn.Module, above: int, block: int = 32) -> None:
        super().__init__(model, block)
        self.above = above

    def forward(self, frames: Tensor) -> Tensor:
        """The results for these frames, one after another."""
        seen = frames[:1].clone()
        results = [self._counted(frames[:1])]
        for frame in frames[1:].split(1):
            results.append(self._again(frame, seen, results[-1].clone()))
        self.whole += frames.shape[0] * frames.shape[-2] * frames.shape[-1]
        return torch.cat(results)

    def _again(self, frame: Tensor, seen: Tensor, result: Tensor) -> Tensor:
        for box in self._boxes(frame, seen):
            place = (..., slice(box.top, box.bottom), slice(box.left, box.right))
            seen[place] = frame[place]
            result[place] = inside(self._counted, frame, box, self.halo)
        return result

    def _boxes(self, frame: Tensor, seen: Tensor) -> list[Box]:
        """What to compute: the touched blocks, or all in one where that is less with its halo."""
        steps = (frame - seen).abs().amax(dim=(0, 1)) * 255
        blocks = touched(steps > self.above + 0.5, self.block, self.halo)
        whole = Box(0, 0, *frame.shape[-2:])
        boxes = [with_halo(box, 0, frame) for box in boxes_of(blocks, self.block)]
        read = sum(with_halo(box, self.halo, frame).pixels for box in boxes)
        return boxes if read < whole.pixels else [whole]
