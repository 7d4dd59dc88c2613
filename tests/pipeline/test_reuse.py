"""Parts of a frame equal the whole, and what is reused is what did not change."""

from random import Random

import pytest
import torch
from torch import nn

from labkit.pipeline.enhancer import preprocess, trained
from labkit.pipeline.exact import exact
from labkit.pipeline.region import Box, boxes_of, halo_of, inside, touched
from labkit.pipeline.scene import Scene
from labkit.pipeline.temporal import Reusing


@pytest.fixture(scope="module")
def model():
    enhancer = trained(steps=5)
    enhancer.body = exact(enhancer.body)
    return enhancer.eval().requires_grad_(False)


def film(count, **changes):
    scene = Scene(height=50, width=70, frames=count, **changes)
    return preprocess([scene.recorded(index) for index in range(count)])


def a_box(rng, height, width):
    top, left = rng.randrange(height), rng.randrange(width)
    return Box(top, left, rng.randint(top + 1, height), rng.randint(left + 1, width))


def test_a_part_has_the_bits_of_the_whole(model):
    rng, (frame,) = Random(0), film(1).split(1)
    whole = model(frame)
    for _ in range(60):
        box = a_box(rng, 50, 70)
        part = inside(model, frame, box, halo_of(model))
        assert torch.equal(part, whole[..., box.top : box.bottom, box.left : box.right]), box


def test_one_pixel_less_of_halo_is_wrong(model):
    frame = film(1)
    part = inside(model, frame, Box(20, 20, 40, 40), halo_of(model) - 1)
    assert not torch.equal(part, model(frame)[..., 20:40, 20:40])


def test_a_network_of_floats_differs_from_its_parts_in_the_last_bits_only():
    enhancer = trained(steps=5).requires_grad_(False)
    frame = film(1)
    part = inside(enhancer, frame, Box(20, 20, 40, 40), halo_of(enhancer))
    torch.testing.assert_close(part, enhancer(frame)[..., 20:40, 20:40], rtol=0, atol=2e-6)


@pytest.mark.parametrize("dilations", [(1,), (1, 1, 1), (2, 1, 3)])
def test_the_halo_is_how_far_a_gradient_comes(dilations):
    layers = [nn.Conv2d(1, 1, 3, padding=d, dilation=d) for d in dilations]
    trunk = nn.Sequential(*layers)
    for layer in layers:
        nn.init.constant_(layer.weight, 1.0)
    x = torch.zeros(1, 1, 41, 41, requires_grad=True)
    trunk(x)[0, 0, 20, 20].backward()
    rows = x.grad[0, 0].any(1).nonzero().flatten()
    assert halo_of(trunk) == 20 - int(rows[0]) == int(rows[-1]) - 20


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(1, 1, 3, stride=2, padding=1),
        nn.Conv2d(1, 1, 2),
        nn.Conv2d(1, 1, 3),
        nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(1, 1, (3, 5), padding=(1, 2)),
    ],
    ids=["stride", "even", "no padding", "reflects", "not square"],
)
def test_a_network_without_a_halo_is_refused(conv):
    with pytest.raises(ValueError, match="Conv2d"):
        halo_of(nn.Sequential(conv))


@pytest.mark.parametrize(
    ("at", "blocks"),
    [(6, [0]), (7, [0, 1]), (12, [0, 1]), (13, [1]), (26, [2]), (27, [2, 3]), (49, [4])],
)
def test_blocks_are_touched_from_as_far_as_the_halo(at, blocks):
    changed = torch.zeros(4, 50, dtype=torch.bool)
    changed[0, at] = True
    assert touched(changed, 10, 3)[0].nonzero().flatten().tolist() == blocks


def test_boxes_cover_the_marked_blocks_once():
    generator = torch.Generator().manual_seed(0)
    for share in (0, 0.2, 0.5, 0.9, 1):
        blocks = torch.rand(5, 7, generator=generator) < share
        covered = torch.zeros(5, 7, dtype=torch.int)
        boxes = boxes_of(blocks, 1)
        for top, left, bottom, right in boxes:
            covered[top:bottom, left:right] += 1
        assert torch.equal(covered, blocks.int())
    assert boxes_of(torch.ones(2, 3, dtype=torch.bool), 8) == [Box(0, 0, 16, 24)]


@pytest.mark.parametrize("noise", [0, 8])
def test_reuse_changes_no_bit_when_nothing_is_let_pass(model, noise):
    frames = film(6, noise=noise)
    reusing = Reusing(model, above=0, block=16)
    assert torch.equal(reusing(frames), model(frames))
    assert reusing.computed <= reusing.whole


def test_what_moves_little_costs_little(model):
    frames = film(1).repeat(4, 1, 1, 1)
    frames[2:, :, 20, 20] = 1
    reusing = Reusing(model, above=0, block=16)
    assert torch.equal(reusing(frames), model(frames))
    assert reusing.computed == 50 * 70 + 22 * 22


def test_a_still_film_is_computed_once(model):
    frames = film(1).repeat(5, 1, 1, 1)
    reusing = Reusing(model, above=0)
    assert torch.equal(reusing(frames), model(frames))
    assert reusing.computed * 5 == reusing.whole


def test_a_slow_change_is_seen_when_it_has_grown(model):
    """One step of 255 a frame: compared with the frame before, nothing would ever change."""
    dark = torch.zeros(1, 3, 40, 40)
    frames = torch.cat([dark + step / 255 for step in range(12)])
    results = Reusing(model, above=3)(frames)
    right = model(frames)
    for at in (0, 4, 8):
        assert torch.equal(results[at : at + 4], right[at : at + 1].expand(4, -1, -1, -1))


def test_a_batch_depends_on_no_other(model):
    frames, reusing = film(8), Reusing(model, above=20, block=16)
    reusing(frames[:4])
    assert torch.equal(reusing(frames[4:]), Reusing(model, above=20, block=16)(frames[4:]))


def test_frames_and_results_that_were_given_out_stay_as_they_are(model):
    frames, reusing = film(4), Reusing(model, above=0, block=16)
    before = frames.clone()
    first = reusing(frames)
    kept = first.clone()
    reusing(frames.flip(0))
    assert torch.equal(frames, before)
    assert torch.equal(first, kept)


def test_a_sum_that_could_be_too_large_is_refused():
    conv = nn.Conv2d(200, 1, 1)
    nn.init.constant_(conv.weight, 1.0)
    with pytest.raises(ValueError, match="not exact"):
        exact(nn.Sequential(conv))
