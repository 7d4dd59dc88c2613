"""Operators that registered no Autograd kernel, in labkit and in PyTorch."""

import warnings
from types import SimpleNamespace

import pytest
import torch

import labkit as lab
from labkit.dispatch import Library, ops
from tests.autograd.both import graph_of


def _write(x):
    x.detach().fill_(7)
    return x


def _kernels(m):
    """Operators that only have CPU kernels: made of differentiable calls, or not."""
    return {
        "composed(Tensor x) -> Tensor": lambda x: x * 2,
        "opaque(Tensor x) -> Tensor": lambda x: m.tensor([2 * each for each in x.tolist()]),
        "write_(Tensor(a!) x) -> Tensor(a!)": _write,
        "view(Tensor(a) x) -> Tensor(a)": lambda x: x.view(-1),
        "both(Tensor x, Tensor[] y) -> (Tensor, Tensor)": lambda x, y: (x * 2, y[0].detach() + 0),
    }


@pytest.fixture
def sides():
    """(PyTorch, its operators), (labkit, its operators); gone after the test."""
    theirs, ours = torch.library.Library("labfallback", "DEF"), Library("labfallback", "DEF")
    for m, library in ((torch, theirs), (lab, ours)):
        for schema, kernel in _kernels(m).items():
            library.define(schema)
            library.impl(schema.partition("(")[0], kernel, "CPU")
    yield (torch, torch.ops.labfallback), (lab, ops.labfallback)
    theirs._destroy()
    ours.destroy()


def _run(m, o, program):
    x = m.ones(2, requires_grad=True)
    result = program(o, x)
    results = result if isinstance(result, tuple) else (result,)
    said = [(each.requires_grad, each.grad_fn and graph_of(each.grad_fn)) for each in results]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for each in results:
            if each.requires_grad:
                each.sum().backward(retain_graph=True)
    texts = [str(each.message).partition(" (Triggered")[0] for each in caught]
    return SimpleNamespace(
        graph=said, grad=None if x.grad is None else x.grad.tolist(), warnings=texts
    )


@pytest.mark.parametrize(
    "program",
    [
        lambda o, x: o.composed(x),
        lambda o, x: o.composed(x.detach()),
        lambda o, x: o.opaque(x * 1),
        lambda o, x: o.write_(x * 1),
        lambda o, x: o.write_(x),
        lambda o, x: o.view(x),
        lambda o, x: o.both(x, [x * 3]),
    ],
    ids=["composed", "no gradient", "opaque", "writes", "writes a leaf", "view", "several"],
)
def test_what_is_recorded_inside_such_an_operator_stays_and_backward_warns(sides, program):
    theirs, ours = (_run(*side, program) for side in sides)
    assert ours == theirs


def test_nothing_is_recorded_in_no_grad_mode(sides):
    for m, o in sides:
        with m.no_grad():
            assert not o.opaque(m.ones(2, requires_grad=True)).requires_grad
