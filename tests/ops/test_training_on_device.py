"""Networks train on `device="cuda"` as PyTorch trains them on its CPU, and nothing leaves it."""

import warnings

import numpy as np
import pytest
import torch

import labkit as lab
from labkit import cuda, nn, optim
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.ops import fallback

STEPS = 20
TOLERANCE = 2e-5
"""Relative, of each loss: sums in another order, 20 steps long."""


@pytest.fixture(scope="module", autouse=True)
def device():
    driver = EmulatorDriver(capacity=64 << 20)
    with cuda.use(driver):
        yield driver
    driver.worker.stop()


def mlp(nn):
    return nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 16), nn.ReLU(),
                         nn.LayerNorm(16), nn.Linear(16, 4))  # fmt: skip


def cnn(nn):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 6, 3, stride=2), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 4),
    )  # fmt: skip


NETWORKS = {"mlp": (mlp, (24, 10)), "cnn": (cnn, (8, 3, 12, 12))}
OPTIMIZERS = {
    "SGD": {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3, "nesterov": True},
    "Adam": {"lr": 0.01}, "AdamW": {"lr": 0.01},
}  # fmt: skip


def trained(library, network, optimizer, x, y):
    """The loss of each step."""
    function = (torch.nn if library is torch else nn).functional.cross_entropy
    made = getattr(torch.optim if library is torch else optim, optimizer)(
        network.parameters(), **OPTIMIZERS[optimizer]
    )
    losses = []
    for _ in range(STEPS):
        made.zero_grad()
        loss = function(network(x), y)
        loss.backward()
        made.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("name", "optimizer"), [("mlp", "SGD"), ("mlp", "Adam"), ("cnn", "SGD"), ("cnn", "AdamW")]
)
def test_the_losses_are_those_of_pytorch(name, optimizer):
    build, shape = NETWORKS[name]
    rng = np.random.default_rng(sum(map(ord, name + optimizer)))
    data = rng.standard_normal(shape).astype(np.float32)
    classes = rng.integers(0, 4, shape[0])
    torch.manual_seed(0)
    theirs, ours = build(torch.nn), build(nn)
    state = {key: lab.tensor(value.numpy()) for key, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    expected = trained(torch, theirs, optimizer, torch.from_numpy(data), torch.from_numpy(classes))
    fallback.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fallback.FallbackWarning)
        x, y = lab.tensor(data, device="cuda"), lab.tensor(classes, device="cuda")
        losses = trained(lab, ours.to("cuda"), optimizer, x, y)
    assert fallback.counts() == {}
    assert expected[-1] < 0.8 * expected[0]
    np.testing.assert_allclose(losses, expected, rtol=TOLERANCE)
    for key, value in ours.state_dict().items():
        assert str(value.device) == "cuda:0"
        np.testing.assert_allclose(
            value.cpu().numpy(), theirs.state_dict()[key].numpy(), rtol=1e-3, atol=1e-5, err_msg=key
        )


def test_dropout_draws_on_the_device_and_its_gradient_is_the_mask():
    lab.manual_seed(3)
    x = lab.ones(1000, device="cuda", requires_grad=True)
    fallback.reset()
    y = nn.functional.dropout(x, 0.25)
    y.sum().backward()
    assert set(y.tolist()) == {0.0, float(np.float32(1 / 0.75))}
    assert x.grad.tolist() == y.tolist()
    assert 0.9 < y.mean().item() < 1.1
    assert fallback.counts() == {}
    lab.manual_seed(3)
    assert nn.functional.dropout(x, 0.25).tolist() == y.tolist()
