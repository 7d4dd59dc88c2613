"""The two networks of labkit.vision learn to tell generated pictures apart, on both faces."""

import pytest
import torch
from torch.nn.functional import cross_entropy

import labkit as lab
from labkit.nn import functional as F
from labkit.vision import EfficientNet, ResNet
from tests.torch_device.apart import apart
from tests.vision import peers

NETWORKS = {
    "resnet18": (ResNet, peers.resnet18),
    "efficientnet_b0": (lambda **size: EfficientNet(**size, drop=0.0), peers.efficientnet_b0),
}
STEPS = 3


def pictures():
    """[8, 3, 32, 32]: a bright row or a bright column on noise, and which of the two."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(8, 3, 32, 32, generator=generator) / 2
    target = torch.arange(8) % 2
    for number, picture in enumerate(x):
        bright = slice(3 * number + 2, 3 * number + 6)
        picture[(slice(None), bright) if number % 2 == 0 else (..., bright)] += 2
    return x, target


def losses(network, x, target, optimizer, loss_of):
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(network(x), target)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def of_torch(network, device):
    network = network.to(device)
    x, target = (one.to(device) for one in pictures())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0003)
    return losses(network, x, target, optimizer, cross_entropy)


@pytest.mark.parametrize("name", NETWORKS)
@apart
def test_a_network_learns_the_same_on_both_faces_and_nothing_falls_back(name):
    ours, peer = NETWORKS[name]
    lab.manual_seed(1)
    network = ours(width=1 / 16, classes=2)
    theirs = [peers.copied(peer(1 / 16, 2), network).float() for _ in range(2)]
    x, target = (lab.tensor(one.tolist()).cuda() for one in pictures())
    network = network.to("cuda")
    optimizer = lab.optim.SGD(network.parameters(), lr=0.0003)
    rebuilt = losses(network, x, target, optimizer, F.cross_entropy)
    with torch.lab.no_fallbacks():
        plugged_in = of_torch(theirs[0], "lab")
    assert torch.lab.fallbacks() == {}
    host = of_torch(theirs[1], "cpu")
    assert host[-1] < host[0]
    assert plugged_in == pytest.approx(host, abs=1e-4)
    assert rebuilt == pytest.approx(host, abs=1e-4)
