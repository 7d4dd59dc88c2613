"""MBConv by hand beside autograd's, PyTorch's and finite differences, with both plans."""

from dataclasses import replace

import pytest
import torch

import labkit as lab
from labkit.autograd.gradcheck import gradcheck
from labkit.vision import MBConv, ResidualBlock, SqueezeExcite, saved_bytes
from labkit.vision.saved import tensors
from tests.vision.peers import Bottleneck, copied

BLOCKS = {
    "skips": {"channels": 4, "out": 4, "kernel": 3},
    "steps": {"channels": 4, "out": 4, "kernel": 5, "stride": 2},
    "odd": {"channels": 5, "out": 3, "kernel": 5, "ratio": 3},
    "not wider": {"channels": 4, "out": 4, "kernel": 3, "ratio": 1},
}
each_block = pytest.mark.parametrize("name", BLOCKS)
each_plan = pytest.mark.parametrize("recompute", [False, True], ids=["keeps", "makes again"])


def randn(*size):
    return lab.randn(*size, dtype=lab.float64)


def drawn(block):
    """In float64, with parameters that are none of the usual ones and zeros."""
    lab.manual_seed(5)
    block = block.to(lab.float64)
    with lab.no_grad():
        for parameter in block.parameters():
            parameter.copy_(randn(*parameter.shape) * 0.5)
    return block


def made(name, **more):
    return drawn(MBConv(**BLOCKS[name], **more)), randn(3, BLOCKS[name]["channels"], 7, 6)


def close(ours, theirs, rtol=1e-9):
    theirs = lab.tensor(theirs.tolist(), dtype=ours.dtype)
    assert ours.shape == theirs.shape
    assert lab.allclose(ours, theirs, rtol=rtol, atol=1e-10)


def by_autograd(block, x):
    x = x.detach().requires_grad_()
    y = block(x)
    dy = randn(*y.shape)
    y.backward(dy)
    return y.detach(), dy, x.grad, {name: one.grad for name, one in block.named_parameters()}


@each_plan
@each_block
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_by_hand_is_what_autograd_does(name, training, recompute):
    block, x = made(name, recompute=recompute)
    block.train(training)
    y, dy, dx, gradients = by_autograd(block, x)
    y_hand, saved = block.forward_by_hand(x)
    dx_hand, gradients_hand = block.backward_by_hand(dy, saved)
    close(y_hand, y)
    close(dx_hand, dx)
    assert gradients_hand.keys() == gradients.keys()
    for parameter, gradient in gradients.items():
        close(gradients_hand[parameter], gradient)


@each_block
def test_it_is_pytorch_s(name):
    block, x = made(name)
    options = BLOCKS[name]
    peer = copied(Bottleneck(**options), block)
    y, dy, dx, gradients = by_autograd(block, x)
    theirs_x = torch.tensor(x.tolist(), dtype=torch.float64, requires_grad=True)
    theirs = peer(theirs_x)
    theirs.backward(torch.tensor(dy.tolist(), dtype=torch.float64))
    close(y, theirs)
    close(dx, theirs_x.grad)
    for ours, parameter in zip(gradients.values(), peer.parameters(), strict=True):
        close(ours.view(-1), parameter.grad.view(-1))


@pytest.mark.parametrize("block", [
    lambda: MBConv(2, 2, 3, ratio=2), lambda: MBConv(2, 3, 3, 2, ratio=1),
    lambda: ResidualBlock(2, 2), lambda: ResidualBlock(2, 3), lambda: ResidualBlock(2, 2, 2),
    lambda: SqueezeExcite(2, 2, "silu"), lambda: SqueezeExcite(2, 2),
], ids=["skips", "steps", "residual", "wider", "smaller", "gate", "gate of a ReLU"])  # fmt: skip
def test_finite_differences_agree(block):
    x = randn(2, 2, 3, 4).requires_grad_()
    assert gradcheck(drawn(block()), (x,))


def test_making_again_saves_the_wide_images():
    """The image before the SiLU, the one behind it, and the gated one are not kept."""
    block, x = made("skips")
    _, kept = block.forward_by_hand(x)
    block.recompute = True
    _, less = block.forward_by_hand(x)
    wide = 8 * 3 * 24 * 7 * 6
    assert saved_bytes(kept) - saved_bytes(less) == 5 * wide
    small = {t.data_ptr() for t in tensors(less)}
    assert sum(t.numel() == wide // 8 for t in tensors(less)) == 2
    assert x.data_ptr() in small


def test_memory_that_two_records_share_is_counted_once():
    block, x = made("steps")
    _, saved = block.forward_by_hand(x)
    assert saved_bytes(saved, saved) == saved_bytes(saved)
    again = replace(saved.gate, squeezed=saved.gate.x)
    assert saved_bytes(again) == saved_bytes(saved.gate) - 8 * saved.gate.squeezed.numel()


def test_a_dropped_branch_leaves_the_input_and_the_others_are_scaled():
    block = drawn(MBConv(3, 3, 3, ratio=2, drop=0.5))
    x = randn(16, 3, 4, 4)
    y, saved = block.forward_by_hand(x)
    factors = saved.kept.view(-1).tolist()
    assert set(factors) == {0.0, 2.0}
    for image, factor in enumerate(factors):
        if factor == 0:
            close(y[image], x[image])
    block.drop = 0.0
    plain, _ = block.forward_by_hand(x)
    close(y, x + (plain - x) * saved.kept)
    dy, kept = randn(*y.shape), saved.kept
    dx, _ = block.backward_by_hand(dy, saved)
    twin = x.detach().requires_grad_()
    block.drop = 0.0
    (twin + (block(twin) - twin) * kept).backward(dy)
    close(dx, twin.grad)
    block.drop = 0.5
    assert block.eval().forward_by_hand(x)[1].kept is None
    assert MBConv(3, 4, 3, drop=0.5).forward_by_hand(randn(2, 3, 4, 4).float())[1].kept is None


@each_plan
def test_on_the_device_the_numbers_are_the_host_s(recompute):
    block, x = made("skips", recompute=recompute)
    block, x = block.to(lab.float32), x.float()
    y, saved = block.forward_by_hand(x)
    dx, gradients = block.backward_by_hand(y, saved)
    block.to("cuda")
    on_device, saved = block.forward_by_hand(x.cuda())
    dx_device, gradients_device = block.backward_by_hand(on_device, saved)
    for ours, theirs in [(on_device, y), (dx_device, dx)] + [
        (gradients_device[name], gradients[name]) for name in gradients
    ]:
        assert lab.allclose(ours.cpu(), theirs, rtol=1e-3, atol=1e-3)
