"""The two networks of labkit.vision learn to tell generated pictures apart, on both faces."""

import math

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


ROUNDING = {torch.float16: 2**-11, torch.bfloat16: 2**-8}
LAYERS = 20
"""Convolutions of a ResNet-18; each rounds its results once."""
halves = pytest.mark.parametrize("dtype", ROUNDING, ids=str)


def autocast_step(network, device, dtype):
    """The loss in a region, its gradients waiting in the parameters, 256 times as large."""
    x, target = (one.to(device) for one in pictures())
    with torch.autocast(device, dtype=dtype):
        loss = cross_entropy(network(x), target)
    (256 * loss).backward()
    return loss.item()


def gradients(network):
    return torch.cat([each.grad.cpu().double().flatten() for each in network.parameters()])


@halves
@apart
def test_a_resnet_trains_in_halves_and_nothing_falls_back(dtype):
    """Roundings of so many layers, each of its own sign, add up like the sides of right angles."""
    losses = []
    for device in ("lab", "cpu"):
        torch.manual_seed(1)
        network = peers.resnet18(1 / 16, 2).to(device)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.0003 / 256)
        for _ in range(STEPS):
            optimizer.zero_grad()
            losses.append(autocast_step(network, device, dtype))
            optimizer.step()
    ours, theirs = losses[:STEPS], losses[STEPS:]
    assert ours[-1] < ours[0]
    assert ours == pytest.approx(theirs, abs=3 * math.sqrt(LAYERS) * ROUNDING[dtype])
    assert torch.lab.fallbacks() == {}


@halves
@pytest.mark.parametrize("name", NETWORKS)
@apart
def test_gradients_in_halves_stray_no_further_than_the_cpus(name, dtype):
    def network():
        torch.manual_seed(1)
        return NETWORKS[name][1](1 / 16, 2)

    exact, theirs, ours = network().double(), network(), network().to("lab")
    x, target = pictures()
    (256 * cross_entropy(exact(x.double()), target)).backward()
    autocast_step(theirs, "cpu", dtype)
    autocast_step(ours, "lab", dtype)
    assert torch.lab.fallbacks() == {}
    truth = gradients(exact)
    off, cpus = ((gradients(each) - truth).norm() for each in (ours, theirs))
    assert off < 2 * cpus  # a rounding that moves a number over a ReLU's 0 is seen in all before it
