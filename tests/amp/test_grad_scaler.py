"""A scaler's scale, skips and refusals, beside torch.amp.GradScaler."""

import math

import pytest
import torch

import labkit as lab
from labkit import amp
from labkit.conformance.amp import run_scaler

BOTH = pytest.mark.parametrize(
    ("m", "GradScaler"),
    [(torch, torch.amp.GradScaler), (lab, amp.GradScaler)],
    ids=["torch", "labkit"],
)
INF, NAN = math.inf, math.nan


def one_step(m, scaler, slope, weight=None):
    """The weight after a step along a slope."""
    weight = m.ones(1, requires_grad=True) if weight is None else weight
    optimizer = m.optim.SGD([weight], lr=0.5)
    scaler.scale((weight * slope).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return weight


@BOTH
def test_the_scale_grows_backs_off_and_counts(m, GradScaler):
    scaler = GradScaler("cpu", init_scale=8.0, growth_interval=2)
    scales = []
    for slope in (1.0, 1.0, INF, 1.0, NAN, 1.0, 1.0):
        one_step(m, scaler, slope)
        scales.append(scaler.get_scale())
    assert scales == [8, 16, 8, 8, 4, 4, 8]


@BOTH
def test_a_step_with_an_infinity_changes_nothing_but_the_scale(m, GradScaler):
    scaler = GradScaler("cpu", init_scale=8.0)
    assert one_step(m, scaler, INF).tolist() == [1.0]
    assert scaler.get_scale() == 4.0
    assert one_step(m, scaler, 1.0).tolist() == [0.5]


@BOTH
def test_the_last_parameter_decides_for_all(m, GradScaler):
    scaler = GradScaler("cpu", init_scale=2.0)
    good, bad = (m.ones(1, requires_grad=True) for _ in range(2))
    optimizer = m.optim.SGD([good, bad], lr=0.5)
    scaler.scale((good + bad * NAN).sum()).backward()
    scaler.step(optimizer)
    assert good.tolist() == bad.tolist() == [1.0]


@BOTH
def test_the_scale_does_not_grow_beyond_float32(m, GradScaler):
    scaler = GradScaler("cpu", init_scale=3e38, growth_interval=1)
    one_step(m, scaler, 1e-30)
    assert scaler.get_scale() == pytest.approx(3e38)


@BOTH
def test_gradients_are_unscaled_once(m, GradScaler):
    scaler = GradScaler("cpu", init_scale=8.0)
    weight = m.ones(1, requires_grad=True)
    optimizer = m.optim.SGD([weight], lr=0.5)
    scaler.scale(weight.sum()).backward()
    assert weight.grad.tolist() == [8.0]
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [1.0]
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert weight.tolist() == [0.5]
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)


@BOTH
def test_half_gradients_are_refused(m, GradScaler):
    scaler = GradScaler("cpu")
    weight = m.ones(1, dtype=m.float16, requires_grad=True)
    scaler.scale(weight.float().sum()).backward()
    with pytest.raises(ValueError, match="FP16"):
        scaler.step(m.optim.SGD([weight], lr=0.5))


@BOTH
def test_what_was_never_scaled_is_refused(m, GradScaler):
    scaler = GradScaler("cpu")
    weight = m.ones(1, requires_grad=True)
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(m.optim.SGD([weight], lr=0.5))
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.update()
    scaler.scale(weight.sum())
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()


@BOTH
def test_a_state_goes_into_a_new_scaler(m, GradScaler):
    first = GradScaler("cpu", init_scale=8.0, growth_interval=3)
    for _ in range(2):
        one_step(m, first, 1.0)
    state = first.state_dict()
    assert state["_growth_tracker"] == 2
    second = GradScaler("cpu")
    second.load_state_dict(state)
    assert second.state_dict() == state
    one_step(m, second, 1.0)
    assert second.get_scale() == 16.0
    with pytest.raises(RuntimeError, match="empty"):
        second.load_state_dict({})


@BOTH
def test_a_disabled_scaler_is_a_plain_loop(m, GradScaler):
    scaler = GradScaler("cpu", enabled=False)
    assert one_step(m, scaler, 1.0).tolist() == [0.5]
    assert (scaler.get_scale(), scaler.state_dict()) == (1.0, {})


@BOTH
def test_factors_that_do_the_opposite_are_refused(m, GradScaler):
    with pytest.raises(AssertionError, match="growth factor"):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff factor"):
        GradScaler("cpu", backoff_factor=1.0)


@BOTH
def test_a_list_of_losses_and_a_scale_by_hand(m, GradScaler):
    scaler = GradScaler("cpu", init_scale=4.0)
    scaled = scaler.scale([m.ones(()), m.ones(()) * 2])
    assert [each.item() for each in scaled] == [4.0, 8.0]
    with pytest.raises(ValueError, match="outputs must be"):
        scaler.scale(3)
    scaler.update(32.0)
    assert scaler.get_scale() == 32.0


def test_on_the_device_nothing_goes_over_the_host():
    weight = lab.ones(3, device="cuda", requires_grad=True)
    scaler = amp.GradScaler("cuda", init_scale=8.0, growth_interval=1)
    optimizer = lab.optim.SGD([weight], lr=0.5)
    scaler.scale(weight.sum()).backward()
    lab.ops.fallback.reset()
    scaler.step(optimizer)
    scaler.update()
    weight.grad[1] = NAN
    scaler.scale(weight.detach().sum())
    scaler.step(optimizer)
    assert weight.tolist() == [0.5, 0.5, 0.5]
    scaler.update()
    assert scaler.get_scale() == 8.0
    assert "_amp" not in str(lab.ops.fallback.counts())


def test_the_device_walks_the_same_states_as_the_host():
    pattern = [[1.0, INF], [1.0, 1.0], [0.5, 1e-6], [NAN, 1.0], [3e38, 1.0], [1.0, -3.0]]
    options = {"init_scale": 2.0**10, "growth_interval": 2}
    scaler = amp.GradScaler("cuda", **options)
    theirs = run_scaler(torch, torch.amp.GradScaler("cpu", **options), pattern)
    assert run_scaler(lab, scaler, pattern, device="cuda") == theirs


def test_a_gradient_the_kernel_cannot_walk_goes_over_the_host():
    weight = lab.ones(2, dtype=lab.float64, device="cuda", requires_grad=True)
    scaler = amp.GradScaler("cuda", init_scale=8.0)
    scaler.scale(weight.sum()).backward()
    with pytest.warns(UserWarning, match="_amp_foreach"):
        scaler.step(lab.optim.SGD([weight], lr=0.5))
    assert weight.tolist() == [0.5, 0.5]
