import random

import numpy as np
import pytest
import torch

import labkit as lab
from labkit.core import dtype as dtypes

NAMES = ["bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64",
         "complex64", "complex128"]  # fmt: skip
OPERATORS = ["__add__", "__sub__", "__mul__", "__truediv__", "__and__", "__or__", "__xor__",
             "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]  # fmt: skip


def operands(r):
    """The same strided tensor on both sides: shapes that often, not always, broadcast."""
    name = r.choice(NAMES)
    sizes = tuple(r.choice((1, 2, 2, 3)) for _ in range(r.randrange(5)))
    order = list(range(len(sizes)))
    r.shuffle(order)
    both = []
    for m in (torch, lab):
        count = int(np.prod(sizes))
        x = m.arange(count).to(getattr(m, name)).reshape(tuple(sizes[i] for i in order))
        x = x.permute(tuple(np.argsort(order).tolist()))
        both.append(x[::1, 1:] if len(sizes) > 2 and sizes[1] > 1 else x)
    return both


def attempt(function, *arguments, **named):
    try:
        return function(*arguments, **named)
    except Exception as error:
        return type(error)


@pytest.mark.filterwarnings("ignore")
def test_operators_give_torchs_type_strides_and_values():
    r = random.Random(11)
    answered = 0
    for _ in range(3000):
        a, b, operator = operands(r), operands(r), r.choice(OPERATORS)
        if r.random() < 0.3:
            b = [r.choice((2, 1.5, True, 3j))] * 2
        theirs = attempt(getattr(a[0], operator), b[0])
        ours = attempt(getattr(a[1], operator), b[1])
        if isinstance(theirs, type):
            if theirs is not NotImplementedError:  # PyTorch has no kernel where labkit may have one
                assert ours is theirs, (a, b, operator)
            continue
        answered += 1
        assert ours.dtype.name == str(theirs.dtype)[6:], (a, b, operator)
        assert (tuple(ours.shape), ours.stride()) == (tuple(theirs.shape), theirs.stride())
        assert np.allclose(
            np.array(ours.tolist()), np.array(theirs.tolist()), rtol=1e-6, equal_nan=True
        ), (a, b, operator)
    assert answered > 1000


def test_in_place_operators_keep_type_and_shape_or_refuse():
    x = lab.arange(3)
    with pytest.raises(
        RuntimeError, match="float32 can't be cast to the desired output type int64"
    ):
        x += 1.5
    with pytest.raises(RuntimeError, match=r"output with shape \[3\]"):
        x += lab.zeros(2, 3, dtype=lab.int64)
    with pytest.raises(RuntimeError, match="more than one element"):
        lab.zeros(1).expand(3).add_(1)
    x *= 2
    assert (x.tolist(), x._version) == ([0, 2, 4], 1)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_half_precision_rounds_every_result(name):
    numbers = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    theirs = numbers.to(getattr(torch, name))
    ours = lab.from_numpy(numbers.numpy()).to(dtypes.dtype(name))
    assert (ours * ours + ours).tolist() == (theirs * theirs + theirs).tolist()


def test_subtracting_and_negating_bools_is_refused():
    flags = lab.tensor([True, False])
    for operation in (lambda: flags - flags, lambda: -flags):
        with pytest.raises(RuntimeError, match="bool tensor"):
            operation()
    assert (~flags).tolist() == [False, True]


@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("alpha", [1, 1.0, True, 1 + 0j])
def test_an_alpha_that_equals_one_is_refused_all_the_same(name, alpha):
    theirs, ours = (
        attempt(getattr(m, name), *[m.ones(2)] * 2, alpha=alpha) for m in (torch, lab)
    )  # fmt: skip
    assert isinstance(theirs, type) is (alpha is True or isinstance(alpha, complex))
    assert ours is theirs if isinstance(theirs, type) else ours.tolist() == theirs.tolist()


def test_an_operand_of_another_class_is_a_type_error():
    with pytest.raises(TypeError):
        lab.zeros(2) + "a"
    with pytest.raises(TypeError, match="add_"):
        lab.zeros(2).add_("a")
    assert lab.zeros(2).__add__("a") is NotImplemented


@pytest.mark.parametrize(
    "call",
    [
        lambda m, sizes: m.zeros(2, dtype=m.complex64) < m.zeros(sizes),
        lambda m, sizes: m.zeros(2) & m.zeros(sizes),
        lambda m, sizes: m.fmod(m.zeros(2, dtype=m.complex64), m.zeros(sizes)),
    ],
    ids=["lt", "and", "fmod"],
)
def test_that_no_loop_exists_is_told_after_the_shapes(call):
    for m in (torch, lab):
        with pytest.raises(RuntimeError, match="must match the size of tensor b"):
            call(m, 3)
        with pytest.raises(NotImplementedError, match="not implemented for"):
            call(m, 2)


def test_what_an_operator_refuses_itself_is_told_before_the_shapes():
    for m in (torch, lab):
        with pytest.raises(RuntimeError, match="maximum not implemented for complex"):
            m.maximum(m.zeros(2, dtype=m.complex64), m.zeros(3))
