"""Blocks by hand beside autograd's and PyTorch's: values, gradients, running statistics."""

import pytest
import torch

import labkit as lab
from labkit import cuda
from labkit.vision import ResidualBlock, SqueezeExcite
from tests.vision import peers

BLOCKS = {
    "identity": lambda: ResidualBlock(3, 3),
    "wider": lambda: ResidualBlock(3, 4),
    "smaller": lambda: ResidualBlock(3, 3, stride=2),
    "gate": lambda: SqueezeExcite(3, 2),
}
each_block = pytest.mark.parametrize("name", BLOCKS)


def made(name):
    """A block in float64 whose parameters are none of the usual ones and zeros."""
    lab.manual_seed(7)
    block = BLOCKS[name]().to(lab.float64)
    with lab.no_grad():
        for parameter in block.parameters():
            parameter.copy_(lab.randn(*parameter.shape, dtype=lab.float64) * 0.5)
    return block


def image(size=(2, 3, 5, 6), dtype=lab.float64):
    return lab.randn(*size, dtype=dtype)


def close(ours, theirs):
    assert ours.shape == theirs.shape
    assert lab.allclose(ours, theirs, rtol=1e-9, atol=1e-11)


def by_autograd(block, x, dy_seed=3):
    x = x.detach().requires_grad_()
    y = block(x)
    lab.manual_seed(dy_seed)
    dy = lab.randn(*y.shape, dtype=y.dtype)
    y.backward(dy)
    gradients = {name: parameter.grad for name, parameter in block.named_parameters()}
    return y.detach(), dy, x.grad, gradients


@each_block
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_by_hand_is_what_autograd_does(name, training):
    block, x = made(name).train(training), image()
    y, dy, dx, gradients = by_autograd(block, x)
    y_hand, saved = block.forward_by_hand(x)
    assert not y_hand.requires_grad
    dx_hand, gradients_hand = block.backward_by_hand(dy, saved)
    close(y_hand, y)
    close(dx_hand, dx)
    assert gradients_hand.keys() == gradients.keys()
    for parameter, gradient in gradients.items():
        close(gradients_hand[parameter], gradient)


class Gate(torch.nn.Module):
    """Squeeze-excite as its paper has it."""

    def __init__(self, channels, reduced):
        super().__init__()
        self.reduce = torch.nn.Linear(channels, reduced)
        self.expand = torch.nn.Linear(reduced, channels)

    def forward(self, x):
        gate = self.expand(self.reduce(x.mean((2, 3))).relu()).sigmoid()
        return x * gate[:, :, None, None]


PEERS = {
    "identity": lambda: peers.Residual(3, 3),
    "wider": lambda: peers.Residual(3, 4),
    "smaller": lambda: peers.Residual(3, 3, 2),
    "gate": lambda: Gate(3, 2),
}


@each_block
def test_values_and_every_gradient_are_pytorch_s(name):
    block, x = made(name), image()
    peer = peers.copied(PEERS[name](), block)
    y, dy, dx, gradients = by_autograd(block, x)
    theirs_x = torch.tensor(x.tolist(), dtype=torch.float64, requires_grad=True)
    theirs = peer(theirs_x)
    theirs.backward(torch.tensor(dy.tolist(), dtype=torch.float64))
    pairs = [(y, theirs), (dx, theirs_x.grad)]
    pairs += zip(gradients.values(), [each.grad for each in peer.parameters()], strict=True)
    for mine, other in pairs:
        close(mine, lab.tensor(other.tolist(), dtype=lab.float64))


def test_running_statistics_move_by_hand_too():
    recorded, by_hand = made("identity"), made("identity")
    x = image()
    recorded(x)
    by_hand.forward_by_hand(x)
    close(by_hand.first.bn.running_mean, recorded.first.bn.running_mean)
    close(by_hand.second.bn.running_var, recorded.second.bn.running_var)
    assert by_hand.first.bn.running_mean.tolist() != [0.0, 0.0, 0.0]


def test_a_branch_of_zeros_hands_the_gradient_through():
    """What the shortcut is for: with gamma 0 the block passes its input and its gradient on."""
    block, x = made("identity"), image().abs() + 0.1
    with lab.no_grad():
        block.second.bn.weight.zero_()
        block.second.bn.bias.zero_()
    y, saved = block.forward_by_hand(x)
    dy = image()
    dx, _ = block.backward_by_hand(dy, saved)
    close(y, x)
    close(dx, dy)


@pytest.mark.parametrize("name", ["wider", "gate"])
def test_a_step_by_hand_lowers_a_loss(name):
    block, x = made(name), image()
    target = lab.zeros(*block.forward_by_hand(x)[0].shape, dtype=lab.float64)
    losses = []
    for _ in range(4):
        y, saved = block.forward_by_hand(x)
        losses.append(((y - target) ** 2).mean().item())
        _, gradients = block.backward_by_hand(2 * (y - target) / y.numel(), saved)
        with lab.no_grad():
            for parameter, tensor in block.named_parameters():
                tensor.sub_(gradients[parameter], alpha=0.1)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_on_the_device_the_numbers_are_the_host_s(activation, monkeypatch):
    lab.manual_seed(6)
    block = SqueezeExcite(3, 2, activation)
    x = image(dtype=lab.float32)
    y, saved = block.forward_by_hand(x)
    dx, gradients = block.backward_by_hand(y, saved)
    block.to("cuda")
    driver, launches = cuda.current_driver(), []
    launch = driver.launch

    def watched(operation, stream):
        launches.append(operation.name)
        launch(operation, stream)

    monkeypatch.setattr(driver, "launch", watched)
    on_device, saved = block.forward_by_hand(x.cuda())
    with lab.no_grad():
        alone = block(x.cuda())
    recorded = block(x.cuda())
    dx_device, gradients_device = block.backward_by_hand(on_device, saved)
    forward = ["squeeze_excite_3_three_launches" + step for step in ("", "_gates", "_scale")]
    assert [name for name in launches if name.startswith("squeeze_excite")] == [
        *forward, *forward,
        *("squeeze_excite_backward_1_three_launches" + step for step in ("", "_gates", "_input")),
    ]  # fmt: skip
    assert recorded.requires_grad
    assert not alone.requires_grad
    for ours, theirs in ((on_device, y), (alone, y), (recorded.detach(), y), (dx_device, dx)):
        assert lab.allclose(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
    for parameter, gradient in gradients.items():
        assert lab.allclose(gradients_device[parameter].cpu(), gradient, rtol=1e-4, atol=1e-5)
