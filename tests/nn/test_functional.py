"""`labkit.nn.functional` against `torch.nn.functional`: values, gradients, recorded graph."""

import inspect

import numpy as np
import pytest
import torch
import torch.nn.functional as theirs

import labkit as lab
import labkit.nn.functional as ours


def graph(node):
    """Class names of the nodes below one, as nested tuples."""
    if node is None:
        return None
    name = node.name().rpartition("::")[2]
    return (name, *[graph(each) for each, _ in node.next_functions])


def leaf(m, array):
    """A tensor with these numbers; one that requires grad when they are floats."""
    made = m.tensor(array.tolist(), dtype=getattr(m, str(array.dtype)))
    made = made.reshape(array.shape)
    return made.requires_grad_() if array.dtype.kind == "f" else made


def normal(*shape):
    return lambda r: r.standard_normal(shape)


def classes(*shape, count):
    return lambda r: r.integers(0, count, shape)


def signs(*shape):
    return lambda r: r.choice([-1, 1], shape)


def chances(*shape):
    return lambda r: r.uniform(0.1, 0.9, shape)


CASES = [
    ("linear", (normal(5, 3), normal(4, 3), normal(4)), {}),
    ("linear", (normal(2, 5, 3), normal(4, 3), normal(4)), {}),
    ("linear", (normal(3), normal(4, 3)), {}),
    ("conv2d", (normal(2, 3, 7, 7), normal(4, 3, 3, 2)), {"padding": (2, 1), "dilation": 2}),
    ("conv2d", (normal(3, 7, 7), normal(4, 3, 3, 3), normal(4)), {"padding": 1}),
    ("max_pool2d", (normal(2, 3, 8, 8),), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ("avg_pool2d", (normal(2, 3, 8, 8),), {"kernel_size": 3, "ceil_mode": True}),
    ("adaptive_avg_pool2d", (normal(2, 3, 8, 7),), {"output_size": (3, None)}),
    ("adaptive_avg_pool2d", (normal(2, 3, 8, 7),), {"output_size": 1}),
    ("batch_norm", (normal(4, 3, 5), chances(3), chances(3), normal(3), normal(3)),
     {"training": False}),
    ("layer_norm", (normal(4, 3, 5), lambda r: np.array([3, 5]), normal(3, 5), normal(3, 5)), {}),
    ("softmax", (normal(4, 3),), {"dim": 1}),
    ("log_softmax", (normal(4, 3),), {"dim": 0}),
    ("mse_loss", (normal(4, 3), normal(4, 3)), {"reduction": "none"}),
    ("nll_loss", (normal(4, 3), classes(4, count=3)), {"ignore_index": 1}),
    ("cross_entropy", (normal(4, 3), classes(4, count=3)), {"ignore_index": 1}),
    ("cross_entropy", (normal(2, 3, 4, 5), classes(2, 4, 5, count=3)), {"reduction": "sum"}),
]  # fmt: skip


def call(m, functional, name, arrays, options):
    """The result, and the gradients of everything that can have one."""
    arguments = [
        leaf(m, array) if (array.ndim and array.dtype.kind == "f") or array.ndim > 1
        or (name != "layer_norm" and array.ndim)
        else array.tolist()
        for array in arrays
    ]  # fmt: skip
    if name == "batch_norm":
        for running in arguments[1:3]:
            running.requires_grad_(False)
    result = getattr(functional, name)(*arguments, **options)
    wanting = [a for a in arguments if hasattr(a, "requires_grad") and a.requires_grad]
    weights = m.arange(result.numel(), dtype=m.float64).reshape(result.shape) + 1
    (result * weights).sum().backward()
    return result, [each.grad for each in wanting]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: f"{CASES[i][0]}-{i}")
def test_a_function_answers_as_torchs_does(case):
    name, makers, options = CASES[case]
    r = np.random.default_rng(case)
    arrays = [np.asarray(make(r)) for make in makers]
    result, gradients = call(lab, ours, name, arrays, options)
    wanted, slopes = call(torch, theirs, name, arrays, options)
    assert tuple(result.shape) == tuple(wanted.shape)
    assert result.stride() == wanted.stride()
    np.testing.assert_allclose(result.detach().numpy(), wanted.detach().numpy(), 1e-9, 1e-12)
    assert graph(result.grad_fn) == graph(wanted.grad_fn)
    for found, slope in zip(gradients, slopes, strict=True):
        assert (found is None) == (slope is None)
        if found is not None:
            np.testing.assert_allclose(found.numpy(), slope.numpy(), 1e-7, 1e-10)


def parameters(function):
    """Names of the parameters; None for a builtin, and where a wrapper hides them."""
    if not inspect.isfunction(function):
        return None
    names = list(inspect.signature(function).parameters)
    return None if set(names) == {"args", "kwargs"} else names


@pytest.mark.parametrize(
    "name", [n for n in ours.__all__ if parameters(getattr(theirs, n)) is not None]
)
def test_parameters_are_torchs(name):
    found = parameters(getattr(ours, name))
    assert found is None or found == parameters(getattr(theirs, name))


BAD = [
    ("conv2d", (normal(2, 3, 5, 5), normal(4, 2, 3, 3)), {}),
    ("conv2d", (normal(2, 3, 5, 5), normal(4, 3, 3, 3)), {"stride": 0}),
    ("conv2d", (normal(2, 3, 5, 5), normal(4, 3, 3, 3)), {"padding": -1}),
    ("max_pool2d", (normal(2, 3, 5, 5),), {"kernel_size": 2, "padding": 2}),
    ("linear", (normal(5, 3), normal(4, 2)), {}),
    ("batch_norm", (normal(1, 3), chances(3), chances(3)), {"training": True}),
    ("layer_norm", (normal(4, 3), lambda r: np.array([4])), {}),
    ("nll_loss", (normal(4, 3), classes(4, count=3)), {"reduction": "average"}),
    ("nll_loss", (normal(4, 3), lambda r: np.array([0, 1, 2, 3])), {}),
    ("cross_entropy", (normal(4, 3), classes(5, count=3)), {}),
    ("dropout", (normal(4),), {"p": 1.5}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", range(len(BAD)), ids=lambda i: f"{BAD[i][0]}-{i}")
def test_bad_arguments_raise_torchs_class(case):
    name, makers, options = BAD[case]
    arrays = [np.asarray(make(np.random.default_rng(case))) for make in makers]
    with pytest.raises(Exception) as expected:
        call(torch, theirs, name, arrays, options)
    with pytest.raises(expected.type, match=r".{12}"):
        call(lab, ours, name, arrays, options)


def test_a_word_for_a_padding_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="given as numbers"):
        ours.conv2d(lab.ones(1, 1, 3, 3), lab.ones(1, 1, 3, 3), padding="same")
