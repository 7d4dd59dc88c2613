import pytest

from labkit.autograd.kernels import fallback
from labkit.core.dispatch_key import DispatchKey
from labkit.dispatch import Library, recording, tls
from labkit.dispatch.explain import explain
from labkit.dispatch.layers import Autocast, DispatchMode, python_mode
from labkit.dispatch.layers.autocast import casting, lower_precision_dtype
from labkit.dispatch.layers.layer import map_stack
from tests.dispatch.tiny import Tiny, world


@casting
def lower_precision(_op, key, stack):
    dtype = lower_precision_dtype(key)
    return map_stack(stack, lambda value: value.to(dtype) if isinstance(value, Tiny) else value)


@pytest.fixture
def lab():
    """The tiny operators, with modes, autograd's fallback, and autocast for `add`."""
    dispatcher, lib, add, *_, twice = world()
    layers = Library("_", "IMPL", dispatcher=dispatcher)
    python_mode.install(layers)
    layers.fallback(fallback.kernel, "AutogradCPU")
    lib.impl("add", lower_precision, "AutocastCPU", boxed=True)
    return dispatcher, layers, add, twice


def slots(runs):
    return [run.slot.name for run in runs]


def test_autocast_casts_then_calls_again_without_itself(lab):
    dispatcher, _, add, _ = lab
    x = Tiny([1.0])
    assert add(x, x).dtype == "float32"
    with recording(dispatcher) as runs, Autocast("CPU", "bfloat16"):
        assert add(x, x).dtype == "bfloat16"
    assert slots(runs) == ["AutocastCPU", "AutogradCPU", "CPU"]
    assert [run.via for run in runs] == ["call", "call", "redispatch"]
    assert tls.excluded() == tls.DEFAULT_EXCLUDED


def test_a_mode_sees_what_composites_are_made_of(lab):
    *_, twice = lab
    seen = []

    class Log(DispatchMode):
        def dispatch(self, op, args, kwargs):
            seen.append((op.name, tls.included().has(DispatchKey.Python)))
            return op(*args, **kwargs)

    with Log(), Log():
        assert twice(Tiny([2.0])).values == [4.0]
    assert seen == [("lab::add", True), ("lab::add", False)]
    assert tls.included() == tls.DEFAULT_INCLUDED
    assert tls.excluded() == tls.DEFAULT_EXCLUDED


def test_an_error_in_a_mode_leaves_the_thread_as_it_was(lab):
    _, _, add, _ = lab

    class Broken(DispatchMode):
        def dispatch(self, op, args, kwargs):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Broken():
        add(Tiny([1.0]), Tiny([1.0]))
    assert tls.included() == tls.DEFAULT_INCLUDED
    assert add(Tiny([1.0]), Tiny([1.0])).values == [2.0]


def test_explain_follows_every_layer(lab):
    _, _, add, _ = lab
    x = Tiny([1.0])
    with Autocast(), DispatchMode():
        made = explain(add, x, x)
    assert made.agrees
    assert [hop["slot"] for hop in made.hops] == [
        "PythonTLSSnapshot", "AutocastCPU", "PythonTLSSnapshot", "AutogradCPU", "Python", "CPU",
    ]  # fmt: skip
    assert made.hops[-1]["assumed"]


def test_destroying_the_library_takes_the_layers_away(lab):
    dispatcher, layers, add, _ = lab
    x = Tiny([1.0], "CPU", "AutogradCPU")
    with recording(dispatcher) as runs:
        add(x, x)
    assert slots(runs) == ["AutogradCPU", "CPU"]
    layers.destroy()
    assert all(kernel.is_fallthrough for kernel in dispatcher.fallbacks.values())
    with pytest.raises(NotImplementedError, match="no kernel for AutogradCPU"):
        add(x, x)
    with (
        Library("_", "IMPL", dispatcher=dispatcher) as other,
        pytest.raises(ValueError, match="slot"),
    ):
        other.fallback(lambda op, keys, stack: None, "Autograd")
