"""Modules keep their parameters by name, and start from the numbers PyTorch draws."""

import numpy as np
import pytest
import torch

import labkit as lab

LAYERS = {
    "Linear": (5, 3),
    "Conv2d": (4, 6, 3),
    "BatchNorm2d": (4,),
    "LayerNorm": ((3, 2),),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_starts_from_pytorchs_numbers(name):
    torch.manual_seed(3)
    theirs = getattr(torch.nn, name)(*LAYERS[name]).state_dict()
    lab.manual_seed(3)
    ours = getattr(lab.nn, name)(*LAYERS[name]).state_dict()
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        np.testing.assert_array_equal(ours[key].numpy(), value.numpy())


def network(m):
    return m.nn.Sequential(
        m.nn.Linear(3, 4), m.nn.ReLU(), m.nn.Sequential(m.nn.BatchNorm1d(4), m.nn.Linear(4, 2))
    )


def test_names_are_pytorchs():
    theirs, ours = network(torch), network(lab)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    assert [n for n, _ in ours.named_buffers()] == [n for n, _ in theirs.named_buffers()]
    assert not any(module.training for module in ours.eval().modules())


def test_a_state_is_loaded_or_refused():
    theirs, ours = network(torch), network(lab)
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(ours(lab.tensor(x)).detach().numpy(), expected, atol=1e-6)
    state = dict(theirs.state_dict())
    del state["0.bias"]
    with pytest.raises(RuntimeError, match=r'Missing key.* "0\.bias"'):
        ours.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"size mismatch for 0\.bias"):
        ours.load_state_dict({**theirs.state_dict(), "0.bias": torch.zeros(9)})


def test_moving_keeps_the_parameter_objects():
    layer = lab.nn.Linear(2, 2)
    weight = layer.weight
    layer(lab.ones(1, 2)).sum().backward()
    layer.double()
    assert layer.weight is weight
    assert weight.dtype is weight.grad.dtype is lab.float64
    layer.to("cuda")
    assert layer.weight is weight
    assert weight.is_cuda and weight.grad.is_cuda and weight.requires_grad


def test_misuse_is_named():
    class Forgetful(lab.nn.Module):
        def __init__(self):
            self.x = lab.nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"super\(\).__init__"):
        Forgetful()
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        lab.nn.Module()(1)
    with pytest.raises(ValueError, match="divisible by groups"):
        lab.nn.Conv2d(3, 4, 1, groups=2)
    with pytest.raises(ValueError, match="empty parameter list"):
        lab.optim.SGD([])
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        lab.optim.Adam([lab.ones(1)], lr=-1)


def test_numpy_needs_a_detached_tensor():
    x = lab.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    with lab.no_grad():
        assert x.numpy().tolist() == [1, 1]


def test_an_optimizer_takes_leaves_and_what_keeps_its_gradient():
    for m in (lab, torch):
        x = m.ones(2, requires_grad=True)
        kept = x * 2
        kept.retain_grad()
        m.optim.SGD([x, kept, (x * 2).detach()], lr=0.1)
        with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
            m.optim.SGD([x * 2], lr=0.1)
