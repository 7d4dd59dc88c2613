"""Half the size where nothing is lost, the network's own result where something is."""

import pytest
import torch

from labkit.pipeline.coarse import CoarseFirst, enlarged, halved
from labkit.pipeline.enhancer import Enhancer, postprocess, preprocess, trained
from labkit.pipeline.exact import exact
from labkit.pipeline.scene import Scene, error


@pytest.fixture(scope="module")
def model():
    enhancer = trained(steps=5)
    enhancer.body = exact(enhancer.body)
    return enhancer.eval().requires_grad_(False)


def test_a_flat_frame_leaves_at_the_small_one(model):
    coarse = CoarseFirst(model, detail=4)
    coarse(torch.full((2, 3, 64, 64), 0.25))
    assert coarse.computed * 4 == coarse.whole


def test_the_block_with_detail_has_the_bits_of_the_whole(model):
    frame = torch.full((1, 3, 96, 96), 0.25)
    frame[..., 40:44, 40:44] = 0.75
    coarse = CoarseFirst(model, detail=4)
    result, whole = coarse(frame), model(frame)
    assert torch.equal(result[..., 32:64, 32:64], whole[..., 32:64, 32:64])
    assert coarse.computed == 48 * 48 + 38 * 38
    small = enlarged(model(halved(frame)), frame.shape[-2:])
    assert torch.equal(result[..., :32, :], small[..., :32, :])


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (33, 47)])
def test_frames_of_any_size_keep_it(model, size):
    frames = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(0))
    assert torch.equal(CoarseFirst(model, detail=0)(frames), model(frames))
    assert CoarseFirst(model, detail=255)(frames).shape == frames.shape


def test_stripes_become_grey_not_one_of_the_two():
    stripes = torch.zeros(1, 3, 8, 8)
    stripes[..., ::2] = 1
    assert halved(stripes)[..., 1:-1].sub(0.5).abs().max() < 0.2


def test_a_noisy_film_loses_little_and_costs_less():
    scene, enhancer = Scene(height=96, width=160, discs=2), trained(steps=40).requires_grad_(False)
    frames = preprocess([scene.recorded(index) for index in range(3)])
    coarse = CoarseFirst(enhancer, detail=16)
    better, whole = postprocess(coarse(frames)), postprocess(enhancer(frames))
    errors = [
        sum(error(frame, scene.truth(index)) for index, frame in enumerate(result))
        for result in (better, whole)
    ]
    assert coarse.computed < 0.9 * coarse.whole
    assert errors[0] < 1.1 * errors[1]


def test_a_network_that_skips_pixels_is_refused():
    skipping = Enhancer(2)
    skipping.body[0].stride = (2, 2)
    with pytest.raises(ValueError, match="stride 1"):
        CoarseFirst(skipping, detail=4)
