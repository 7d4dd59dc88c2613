"""Groups of parameters with options of their own, state that can be kept, and a schedule."""

import pytest

from tests.beside import assert_beside

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "Adam": {"lr": 0.1, "amsgrad": True},
    "AdamW": {"lr": 0.1},
}


def parameters(m):
    return [m.tensor([1.0, -2.0], requires_grad=True), m.tensor([3.0], requires_grad=True)]


def steps(optimizer, params, count):
    for _ in range(count):
        optimizer.zero_grad()
        for place, parameter in enumerate(params):
            (parameter * parameter * (place + 1)).sum().backward()
        optimizer.step()


def numbers(params):
    return [[round(each, 5) for each in parameter.tolist()] for parameter in params]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_groups_take_steps_of_their_own(name):
    def run(m):
        params = parameters(m)
        groups = [{"params": params[:1]}, {"params": params[1], "lr": 0.01}]
        optimizer = getattr(m.optim, name)(groups, **OPTIMIZERS[name])
        steps(optimizer, params, 3)
        return numbers(params), [group["lr"] for group in optimizer.param_groups]

    assert_beside(run)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_kept_state_goes_on_where_it_was(name):
    def run(m):
        params = parameters(m)
        first = getattr(m.optim, name)(params, **OPTIMIZERS[name])
        steps(first, params, 2)
        second = getattr(m.optim, name)(params, lr=5.0)
        second.load_state_dict(first.state_dict())
        steps(second, params, 2)
        return numbers(params), sorted(second.state_dict()["state"])

    assert_beside(run)


def test_a_schedule_lowers_the_rate_of_every_group():
    def run(m):
        params = parameters(m)
        optimizer = m.optim.SGD([{"params": params[:1]}, {"params": params[1:], "lr": 0.5}], lr=0.1)
        schedule = m.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
        rates = []
        for _ in range(5):
            steps(optimizer, params, 1)
            schedule.step()
            rates.append(schedule.get_last_lr())
        return rates, numbers(params)

    assert_beside(run)


@pytest.mark.parametrize(
    "params",
    [
        lambda m: [],
        lambda m: [3],
        lambda m: m.ones(1, requires_grad=True),
        lambda m: [m.ones(1, requires_grad=True) * 2],
        lambda m: [{"params": [x := m.ones(1)]}, {"params": [x]}],
    ],
)
def test_what_cannot_be_optimized_is_refused(params):
    assert_beside(lambda m: m.optim.SGD(params(m), lr=0.1))
