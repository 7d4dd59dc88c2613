"""A half cannot be counted up in; its float32 twin can."""

import pytest

import labkit as lab
from labkit import amp


def trained(steps, masters):
    """The weight 1.0 after steps of 1e-4 each."""
    weight = lab.ones(1, dtype=lab.float16, requires_grad=True)
    kept = amp.MasterWeights([weight])
    optimizer = lab.optim.SGD(kept.parameters if masters else [weight], lr=1e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        (-weight).sum().backward()
        if masters:
            kept.take_gradients()
        optimizer.step()
        if masters:
            kept.write_back()
    return weight.item()


def test_many_small_steps_arrive():
    assert trained(100, masters=False) == 1.0
    assert trained(100, masters=True) == pytest.approx(1.01, abs=5e-4)


def test_gradients_move_over_and_the_weight_keeps_none():
    weight, frozen = (lab.ones(2, dtype=lab.bfloat16, requires_grad=True) for _ in range(2))
    kept = amp.MasterWeights([weight, frozen])
    (weight * 3).sum().backward()
    kept.take_gradients()
    assert kept.parameters[0].grad.tolist() == [3.0, 3.0]
    assert kept.parameters[0].grad.dtype is lab.float32
    assert kept.parameters[1].grad is None
    assert weight.grad is None


def test_a_twin_is_another_tensor_even_of_a_float32_weight():
    weight = lab.ones(2, requires_grad=True)
    (master,) = amp.MasterWeights([weight]).parameters
    with lab.no_grad():
        master.mul_(2)
    assert weight.tolist() == [1.0, 1.0]
