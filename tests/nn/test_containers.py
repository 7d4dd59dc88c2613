"""Modules in a row, in a list and by name; hooks; what is loaded and what is refused."""

from collections import OrderedDict

import pytest
import torch

import labkit as lab
from tests.beside import assert_beside, refusal


def named(m):
    return m.nn.Sequential(OrderedDict([("first", m.nn.Linear(2, 3)), ("act", m.nn.ReLU())]))


def test_names_come_from_an_ordered_dict():
    assert_beside(lambda m: list(named(m).state_dict()))
    assert_beside(lambda m: repr(named(m)))
    assert_beside(lambda m: (len(named(m)), type(named(m)[0]).__name__, len(named(m)[1:])))
    assert_beside(lambda m: tuple(named(m)(m.ones(1, 2)).shape))


def test_modules_in_a_list_and_by_name():
    def by_name(m):
        modules = m.nn.ModuleDict({"a": m.nn.Linear(1, 1)})
        modules["b"] = m.nn.ReLU()
        return list(modules), list(modules.state_dict()), "b" in modules, repr(modules["b"])

    assert_beside(by_name)
    assert_beside(
        lambda m: list(m.nn.ModuleList([m.nn.Linear(1, 1)]).extend([m.nn.ReLU()]).state_dict())
    )
    assert_beside(lambda m: len(m.nn.Sequential(m.nn.ReLU()).append(m.nn.ReLU())))
    assert_beside(lambda m: m.nn.ModuleList([m.nn.ReLU()])(m.ones(1)))


def test_apply_visits_children_before_their_parent():
    def visited(m):
        names = []
        m.nn.Sequential(named(m), m.nn.ReLU()).apply(lambda each: names.append(type(each).__name__))
        return names

    assert_beside(visited)


def test_forward_hooks_see_and_replace():
    def hooked(m):
        seen, layer = [], m.nn.ReLU()
        before = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        layer.register_forward_hook(lambda module, args, out: seen.append(out.tolist()))
        layer.register_forward_hook(lambda module, args, out: out * 2)
        first = layer(m.tensor([-3.0, 1.0])).tolist()
        before.remove()
        return first, layer(m.tensor([-3.0, 1.0])).tolist(), seen

    assert_beside(hooked)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.nn.Linear(1, 1).load_state_dict({}),
        lambda m: m.nn.Linear(1, 1).load_state_dict({"weight": m.ones(1, 1), "more": m.ones(1)}),
        lambda m: m.nn.Linear(1, 1).missing,
    ],
)
def test_refusals_read_like_pytorchs(call):
    assert refusal(call, lab) == refusal(call, torch)


def test_what_fits_is_loaded_when_not_strict():
    def loaded(m):
        layer = m.nn.Linear(1, 1)
        keys = layer.load_state_dict(
            {"weight": m.full((1, 1), 5.0), "more": m.ones(1)}, strict=False
        )
        return tuple(keys), layer.weight.tolist()

    assert_beside(loaded)


def test_a_convolution_says_what_is_not_by_default():
    assert_beside(lambda m: repr(m.nn.Conv2d(4, 6, 3, padding=1, dilation=2, groups=2, bias=False)))
    assert_beside(lambda m: repr(m.nn.Conv2d(1, 2, 3)))
