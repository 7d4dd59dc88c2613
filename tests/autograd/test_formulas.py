"""Every family of formulas: values, graph, first and second derivatives as PyTorch's."""

import numpy as np
import pytest
import torch

import labkit as lab
from labkit.autograd import grad, gradcheck, gradgradcheck
from tests.autograd.both import graph_of

UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "atanh", "sigmoid", "erf",
    "erfc", "sign", "floor", "round", "trunc", "frac", "neg",
    "reciprocal", "relu", "square",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "atan2",
    "fmod", "remainder",
)  # fmt: skip
REDUCTIONS = ("sum", "mean", "var", "amax", "amin")
SHAPES = (
    "a.view(12)", "a.t()", "a.permute(1, 0)", "a.expand(2, 3, 4)", "a.unsqueeze(1).squeeze(1)",
    "a[1]", "a[:, 1:3]", "a[::2]", "a[..., None]", "a.diagonal()", "a.unfold(1, 2, 1)",
    "a.split(2, 1)[1]", "a.chunk(2)[0]", "a.unbind(0)[1]", "a.flatten()", "a.clone()",
    "a.as_strided((2, 2), (1, 2), 1)", "a.as_strided((3, 3), (1, 1))", "a.cumsum(1)",
    "a.max(1)[0]", "a.min()", "a.tril()",
    "a.clamp(-0.5, 0.5)", "m.where(a > 0, a, a * 3)",
    "m.cat([a, a * 2], 1)", "m.stack([a, a * 2])", "a.flip(0)",
)  # fmt: skip


def _compare(function, *arrays):
    theirs = [torch.tensor(each, requires_grad=True) for each in arrays]
    ours = [lab.tensor(each.tolist(), dtype=lab.float64).requires_grad_() for each in arrays]
    expected, got = function(torch, *theirs), function(lab, *ours)
    np.testing.assert_allclose(np.array(got.tolist()), expected.detach().numpy(), rtol=1e-9)
    assert graph_of(got.grad_fn) == graph_of(expected.grad_fn)
    start = np.random.default_rng(5).normal(size=tuple(expected.shape))
    first = torch.autograd.grad(expected, theirs, torch.tensor(start), create_graph=True)
    mine = grad(got, ours, lab.tensor(start.tolist(), dtype=lab.float64), create_graph=True)
    _equal(mine, first)
    pairs = [(a, b) for a, b in zip(mine, first, strict=True) if b.requires_grad]
    if pairs:
        second = torch.autograd.grad(
            sum((b * b).sum() for _, b in pairs), theirs, allow_unused=True
        )
        total = None
        for a, _ in pairs:
            total = (a * a).sum() if total is None else total + (a * a).sum()
        _equal(grad(total, ours, allow_unused=True), second)


def _equal(mine, theirs):
    for a, b in zip(mine, theirs, strict=True):
        zeros = np.zeros(())
        left = zeros if a is None else np.array(a.tolist())
        right = zeros if b is None else b.detach().resolve_neg().numpy()
        np.testing.assert_allclose(*np.broadcast_arrays(left, right), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tensor(name):
    numbers = np.random.default_rng(1).uniform(0.2, 0.9, (3, 2))
    _compare(lambda m, a: getattr(m, name)(a), numbers)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_broadcast_tensors(name):
    draw = np.random.default_rng(2)
    _compare(
        lambda m, a, b: getattr(m, name)(a, b),
        draw.uniform(0.2, 0.9, (3, 1)), draw.uniform(0.2, 0.9, (2, 1, 4)),
    )  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("options", [{}, {"dim": 1}, {"dim": 0, "keepdim": True}])
def test_reductions(name, options):
    numbers = np.random.default_rng(3).normal(size=(3, 4))
    _compare(lambda m, a: getattr(m, name)(a, **options), numbers)


@pytest.mark.parametrize("text", SHAPES)
def test_views_scans_and_choices(text):
    numbers = np.random.default_rng(4).normal(size=(3, 4))
    _compare(lambda m, a: eval(text, {"m": m, "a": a}), numbers)


def _random(*sizes, dtype=None):
    draw = np.random.default_rng(6)
    numbers = draw.normal(size=sizes) + (1j * draw.normal(size=sizes) if dtype else 0)
    return lab.tensor(numbers.tolist(), dtype=dtype or lab.float64).requires_grad_()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x, lambda x: x / (x + 3), lambda x: x.exp(), lambda x: x.abs(),
        lambda x: x.log(), lambda x: x.sum(), lambda x: x.real, lambda x: x.imag * 2,
        lambda x: x**2, lambda x: x.tanh(), lambda x: x.sqrt(), lambda x: x.sgn(),
        lambda x: x * _random(3),
    ],
)  # fmt: skip
def test_complex_numbers_by_finite_differences(function):
    assert gradcheck(function, _random(3, dtype=lab.complex128))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 1).mul_(x), lambda x: x.view(2, 3).t()[0], lambda x: x.split(2)[1],
        lambda x: lab.cat([x, x * 2]),
        lambda x: lab.addcmul(x, x, x * 2, value=3),
    ],
)  # fmt: skip
def test_views_and_writes_by_finite_differences(function):
    x = _random(6)
    assert gradcheck(function, x)
    assert gradgradcheck(function, x)


@pytest.mark.parametrize("function", [lambda x: lab.softmax(x, 0), lambda x: x.var()])
def test_second_derivatives_by_finite_differences(function):
    x = _random(6)
    assert gradcheck(function, x)
    assert gradgradcheck(function, x)
