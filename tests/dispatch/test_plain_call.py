"""The shortest way into an operator arrives where the operator does."""

import pytest

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.dispatcher import Dispatcher
from labkit.dispatch.library import Library
from labkit.dispatch.plain_call import plain_call
from labkit.dispatch.tls import ExcludeDispatchKeyGuard


class Tensor:
    def __init__(self, *keys):
        self._key_set = DispatchKeySet(*keys)


@pytest.fixture
def library():
    with Library("lab", "DEF", dispatcher=Dispatcher()) as made:
        yield made


def test_the_same_kernel_runs(library):
    op = library.define("pair(Tensor a, Tensor b, *, int k=1) -> Tensor")
    library.impl(op, lambda a, b, k=1: "cpu", "CPU")
    library.impl(op, lambda a, b, k=1: "autograd", "AutogradCPU")
    call = plain_call(op)
    plain, recorded = Tensor("CPU"), Tensor("CPU", "AutogradCPU")
    assert call(plain, plain) == op(plain, plain) == "cpu"
    assert call(plain, recorded) == op(plain, recorded) == "autograd"
    with ExcludeDispatchKeyGuard(DispatchKeySet("AutogradCPU")):
        assert call(plain, recorded) == "cpu"


def test_a_later_registration_is_seen(library):
    op = library.define("one(Tensor a) -> Tensor")
    library.impl(op, lambda a: "first", "CPU")
    call = plain_call(op)
    assert call(Tensor("CPU")) == "first"
    library.impl(op, lambda a: "second", "CPU")
    assert call(Tensor("CPU")) == "second"


def test_what_is_no_tensor_gets_the_operators_error(library):
    op = library.define("one(Tensor a) -> Tensor")
    library.impl(op, lambda a: a, "CPU")
    with pytest.raises(TypeError, match="must be Tensor"):
        plain_call(op)(3)


def test_other_parameters_need_the_operator_itself(library):
    op = library.define("by(Tensor a, int k) -> Tensor")
    assert plain_call(op) is op
