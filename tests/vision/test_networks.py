"""The networks: the published tables counted, PyTorch's results, and a few steps of training."""

import pytest
import torch

import labkit as lab
from labkit.nn import functional as F
from labkit.vision import EfficientNet, ResNet, receptive_field
from tests.vision import peers

NETWORKS = {
    "resnet18": (lambda **size: ResNet(**size), peers.resnet18),
    "efficientnet_b0": (lambda **size: EfficientNet(**size, drop=0.0), peers.efficientnet_b0),
}
each_network = pytest.mark.parametrize("name", NETWORKS)
PUBLISHED = {"resnet18": (11_689_512, 21, 435), "efficientnet_b0": (5_288_548, 82, 851)}
"""Parameters; convolutions and linear layers; receptive field of the trunk."""


def layers(module):
    """Convolutions and linear layers, the two of a gate included."""
    return sum(type(one).__name__ in ("Conv2d", "Linear") for _, one in module.named_modules())


@each_network
def test_width_one_is_the_published_table(name):
    network = NETWORKS[name][0]()
    parameters, count, field = PUBLISHED[name]
    assert sum(one.numel() for one in network.parameters()) == parameters
    assert layers(network) == count
    assert receptive_field(network.windows()).size == field
    peer = NETWORKS[name][1](1, 1000)
    assert sum(one.numel() for one in peer.parameters()) == parameters
    assert layers(peer) == count


def small(name):
    lab.manual_seed(1)
    return NETWORKS[name][0](width=1 / 16, classes=5)


@each_network
def test_a_narrow_one_is_pytorch_s(name):
    network = small(name).to(lab.float64)
    peer = peers.copied(NETWORKS[name][1](1 / 16, 5), network)
    x = lab.randn(2, 3, 40, 33, dtype=lab.float64)
    y = network(x)
    theirs = peer(torch.tensor(x.tolist(), dtype=torch.float64))
    (y * y).sum().backward()
    (theirs * theirs).sum().backward()
    assert lab.allclose(y, lab.tensor(theirs.tolist(), dtype=lab.float64), rtol=1e-8, atol=1e-9)
    for ours, parameter in zip(network.parameters(), peer.parameters(), strict=True):
        expected = lab.tensor(parameter.grad.view(-1).tolist(), dtype=lab.float64)
        assert lab.allclose(ours.grad.view(-1), expected, rtol=1e-6, atol=1e-7)


def trained(network, x, target):
    """The losses before and after a step."""
    optimizer = lab.optim.SGD(network.parameters(), lr=0.003)
    loss = F.cross_entropy(network(x), target)
    loss.backward()
    optimizer.step()
    with lab.no_grad():
        return [loss.item(), F.cross_entropy(network(x), target).item()]


@each_network
def test_a_step_on_the_device_lowers_the_loss_as_it_does_on_the_host(name):
    lab.manual_seed(2)
    x, target = lab.randn(6, 3, 32, 32), lab.tensor([0, 1, 2, 0, 1, 2])
    host = trained(small(name), x, target)
    device = trained(small(name).to("cuda"), x.cuda(), target.cuda())
    assert host[1] < host[0]
    assert device == pytest.approx(host, rel=1e-3)


def test_the_share_of_dropped_branches_grows_with_depth():
    shares = [block.drop for block in EfficientNet(width=1 / 16).blocks]
    assert shares == [0.2 * place / 16 for place in range(16)]
