"""Large frames computed in bands of rows: what lies between two layers is small, and used again.

A large block of memory goes back to the system when it is freed, and the next one comes as fresh
pages, each filled with zeros by the kernel when it is first touched. For a 4K frame this takes
longer than the convolutions. What a band needs stays with the process.

The thresholds are M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of the GNU C library (malloc/malloc.c).
"""

import torch
from torch import Tensor, nn

from labkit.pipeline.region import Box, halo_of, inside

BAND_PIXELS = 1 << 17
"""With 8 channels of float32, 4 MiB between two layers."""


class InBands(nn.Module):  # type: ignore[misc]
    """A network that is given bands of frames [N, C, H, W]; its results have the frames' shape.

    A frame larger than a band is computed alone; others as they come, whole.

    pixels   of a band without its halo; more where the halo would be over half of that

    Differs  as `inside`: only exact sums are sure to have the same last bit as in the whole frame
    """

    def __init__(self, model: nn.Module, pixels: int = BAND_PIXELS) -> None:
        super().__init__()
        self.model, self.pixels, self.halo = model, pixels, halo_of(model)

    def forward(self, frames: Tensor) -> Tensor:
        """The results for these frames."""
        height, width = frames.shape[-2:]
        if height * width <= self.pixels:
            whole: Tensor = self.model(frames)
            return whole
        rows = max(1, 4 * self.halo, self.pixels // width)
        result = torch.empty_like(frames)
        for at, frame in enumerate(frames.split(1)):
            for top in range(0, height, rows):
                box = Box(top, 0, min(top + rows, height), width)
                result[at, :, top : box.bottom] = inside(self.model, frame, box, self.halo)[0]
        return result
