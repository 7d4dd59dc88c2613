"""A part of a frame, computed so that it equals the same part of the whole result."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F


class Box(NamedTuple):
    """A part of a frame; bottom and right are the first pixels behind it."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def pixels(self) -> int:
        """How many there are."""
        return (self.bottom - self.top) * (self.right - self.left)


def halo_of(model: nn.Module) -> int:
    """How far around its own place a pixel of the result reads, in pixels.

    Raises   ValueError   a convolution skips pixels, or has no middle, or pads something else
                          than that it reads: a part then has no result of its own
    """
    reach = 0
    for conv in model.modules():
        if isinstance(conv, nn.Conv2d):
            reads = [
                (size - 1) * step
                for size, step in zip(conv.kernel_size, conv.dilation, strict=True)
            ]
            if reads[0] != reads[1] or reads[0] % 2 or conv.stride != (1, 1):
                raise ValueError(f"{conv}: only square, odd kernels with stride 1 have a halo")
            if conv.padding_mode != "zeros" or conv.padding != (reads[0] // 2, reads[0] // 2):
                raise ValueError(f"{conv}: its result has another size, or pads no zeros")
            reach += reads[0] // 2
    return reach


def inside(model: Callable[[Tensor], Tensor], frames: Tensor, box: Box, halo: int) -> Tensor:
    """The part `box` of `model(frames)`, from that part and the halo around it.

    At the border of the frame the halo ends: there the network pads, as it does for the whole.

    Differs   float sums of another shape may be added in another order: the last bit can differ,
              unless every sum is exact (`labkit.pipeline.exact`)
    """
    read = with_halo(box, halo, frames)
    part: Tensor = model(frames[..., read.top : read.bottom, read.left : read.right])
    top, left = box.top - read.top, box.left - read.left
    return part[..., top : top + box.bottom - box.top, left : left + box.right - box.left]


def with_halo(box: Box, halo: int, frames: Tensor) -> Box:
    """The pixels that `inside` reads."""
    return Box(
        max(0, box.top - halo),
        max(0, box.left - halo),
        min(frames.shape[-2], box.bottom + halo),
        min(frames.shape[-1], box.right + halo),
    )


def touched(changed: Tensor, block: int, halo: int) -> Tensor:
    """Which blocks of a result depend on a changed pixel, [rows, columns] of bools.

    changed  [H, W] of bools
    """
    windows = F.max_pool2d(
        changed[None, None].float(), block + 2 * halo, block, padding=halo, ceil_mode=True
    )
    return windows[0, 0] > 0


def boxes_of(blocks: Tensor, block: int) -> list[Box]:
    """Boxes of whole blocks that cover the marked ones and no others, each once.

    Neighbours in a row are one box, and so are equal stretches of neighbouring rows: the fewer
    boxes, the less halo.
    """
    done: list[Box] = []
    open_boxes: dict[tuple[int, int], Box] = {}
    for row, marked in enumerate(blocks.tolist()):
        stretches = _stretches(marked)
        done += [box for ends, box in open_boxes.items() if ends not in stretches]
        open_boxes = {
            ends: open_boxes.get(ends, Box(row, ends[0], row, ends[1]))._replace(bottom=row + 1)
            for ends in stretches
        }
    return [Box(*(block * edge for edge in box)) for box in [*done, *open_boxes.values()]]


def _stretches(marked: list[bool]) -> list[tuple[int, int]]:
    edges = [
        at for at in range(len(marked) + 1)
        if (at < len(marked) and marked[at]) != (at > 0 and marked[at - 1])
    ]  # fmt: skip
    return list(zip(edges[::2], edges[1::2], strict=True))


class ByParts(nn.Module):  # type: ignore[misc]
    """A network that is given parts of its frames.

    halo      how far around its own place a pixel of the result reads
    computed  pixels the network was given, halos included; whole  the pixels of all frames
    """

    def __init__(self, model: nn.Module, block: int) -> None:
        super().__init__()
        self.model, self.block, self.halo = model, block, halo_of(model)
        self.computed = self.whole = 0

    def _counted(self, frames: Tensor) -> Tensor:
        self.computed += frames.shape[-2] * frames.shape[-1]
        result: Tensor = self.model(frames)
        return result
