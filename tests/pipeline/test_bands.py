"""Bands of a frame give the frame's own result, and no layer sees more than a band."""

import pytest
import torch
from torch import nn

from labkit.pipeline.bands import InBands
from labkit.pipeline.enhancer import Enhancer, as_numbers, trained
from labkit.pipeline.exact import exact


class Seeing(nn.Module):
    """A network that notes the heights it is given."""

    def __init__(self, model):
        super().__init__()
        self.model, self.heights = model, []

    def forward(self, frames):
        self.heights.append(frames.shape[-2])
        return self.model(frames)


def frames_of(count, height, width):
    generator = torch.Generator().manual_seed(height * width)
    shape = count, height, width, 3
    return as_numbers(torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator))


@pytest.mark.parametrize("size", [(1, 40), (13, 40), (30, 17), (61, 33), (50, 2000)])
@pytest.mark.parametrize("pixels", [1, 400, 999])
def test_bands_have_the_bits_of_the_whole_where_sums_are_exact(size, pixels):
    model = trained(steps=3).requires_grad_(False)
    model.body = exact(model.body)
    frames = frames_of(2, *size)
    assert torch.equal(InBands(model, pixels)(frames), model(frames))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bands_of_a_network_of_floats_agree_to_the_last_bits(dtype):
    model, frames = Enhancer(), frames_of(1, 450, 500)
    with torch.inference_mode(), torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        better, whole = InBands(model)(frames), model(frames)
    atol = 2e-6 if dtype == torch.float32 else 2**-7
    torch.testing.assert_close(better, whole, rtol=0, atol=atol)


def test_no_band_is_larger_than_asked_and_all_rows_are_computed():
    seeing = Seeing(Enhancer(2))
    InBands(seeing, pixels=40 * 20)(frames_of(2, 100, 40))
    assert seeing.heights == [23, 26, 26, 26, 23] * 2


def test_small_frames_are_computed_whole_and_together():
    seeing = Seeing(Enhancer(2))
    InBands(seeing, pixels=40 * 20)(frames_of(3, 20, 40))
    assert seeing.heights == [20]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_however_wide_a_frame_is_its_halos_are_at_most_half_more(layers):
    convs = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(layers))
    seeing = Seeing(nn.Sequential(*convs))
    InBands(seeing, pixels=1)(frames_of(1, 96, 500))
    assert len(seeing.heights) == 96 // (4 * layers)
    assert sum(seeing.heights) <= 1.5 * 96
