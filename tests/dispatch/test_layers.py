import pytest

from labkit.core.dispatch_key import DispatchKey
from labkit.dispatch import InferenceMode, Library, recording, tls
from labkit.dispatch.explain import explain
from labkit.dispatch.layers import (
    Autocast,
    DispatchMode,
    ad_inplace_or_view,
    autocast,
    autograd,
    backend_select,
    functionalized,
    install,
    vmap_function,
)
from tests.dispatch.tiny import Tiny, stack, world


@pytest.fixture
def lab():
    dispatcher, lib, *ops = world()
    install(dispatcher)
    return dispatcher, lib, *ops


def slots(runs):
    return [run.slot.name for run in runs]


def test_autograd_notes_the_call_and_redispatches_below(lab):
    dispatcher, _, add, *_ = lab
    x = Tiny([1.0], requires_grad=True)
    with recording(dispatcher) as runs, autograd.taping() as tape:
        add(x, Tiny([2.0]))
        add(Tiny([1.0]), Tiny([2.0]))
    assert slots(runs) == ["AutogradCPU", "CPU"] * 2
    assert [name for name, _ in tape] == ["lab::add"]
    assert runs[1].excluded.has("AutogradFunctionality")


def test_inference_mode_skips_autograd(lab):
    dispatcher, _, add, *_ = lab
    with recording(dispatcher) as runs, InferenceMode():
        add(Tiny([1.0]), Tiny([2.0]))
    assert slots(runs) == ["CPU"]


def test_in_place_raises_the_version_and_a_view_knows_its_base(lab):
    dispatcher, lib, _, add_, view, _ = lab
    ad_inplace_or_view.register_for(lib, add_)
    ad_inplace_or_view.register_for(lib, view)
    x = Tiny([1.0])
    with recording(dispatcher) as runs:
        assert add_(x, Tiny([2.0])) is x
    assert slots(runs) == ["AutogradCPU", "ADInplaceOrView", "CPU"]
    assert x._version == 1
    assert view(view(x))._base is x


def test_a_layer_with_nothing_to_do_is_refused(lab):
    _, lib, add, *_ = lab
    with pytest.raises(ValueError, match="writes no argument"):
        ad_inplace_or_view.register_for(lib, add)


def test_autocast_casts_then_calls_again_without_itself(lab):
    dispatcher, lib, add, *_ = lab
    autocast.register_for(lib, add)
    x = Tiny([1.0])
    assert add(x, x).dtype == "float32"
    with recording(dispatcher) as runs, Autocast("CPU", "bfloat16"):
        assert add(x, x).dtype == "bfloat16"
    assert slots(runs) == ["AutocastCPU", "AutogradCPU", "CPU"]
    assert [run.via for run in runs] == ["call", "call", "redispatch"]
    assert tls.excluded() == tls.DEFAULT_EXCLUDED


def test_functionalize_turns_in_place_into_out_of_place(lab):
    dispatcher, *_, add_, _, _ = lab
    x = Tiny([1.0])
    with recording(dispatcher) as runs:
        result = functionalized(lambda t: add_(t, Tiny([2.0])))(x)
    assert (x.values, result.values) == ([1.0], [3.0])
    assert ("lab::add_", "Functionalize") in [(run.operator, run.slot.name) for run in runs]
    assert ("lab::add_", "CPU") not in [(run.operator, run.slot.name) for run in runs]


def test_vmap_loops_and_a_batch_rule_does_not(lab):
    dispatcher, lib, add, *_ = lab
    batch, other = Tiny([1.0, 2.0, 3.0]), Tiny([10.0])
    with recording(dispatcher) as runs:
        result = vmap_function(lambda t: add(t, other), stack)(batch)
    assert result.values == [11.0, 12.0, 13.0]
    assert slots(runs).count("CPU") == 3

    def rule(a, b):
        return type(a)(Tiny([x + b.values[0] for x in a.value.values]), a.stack)

    lib.impl("add", rule, "FuncTorchBatched")
    with recording(dispatcher) as runs:
        result = vmap_function(lambda t: add(t, other), stack)(batch)
    assert result.values == [11.0, 12.0, 13.0]
    assert slots(runs) == ["AutogradCPU", "FuncTorchBatched"] or slots(runs) == ["FuncTorchBatched"]


def test_batches_of_different_length_are_refused(lab):
    *_, add, _, _, _ = lab
    with pytest.raises(ValueError, match=r"lengths \[2, 3\]"):
        vmap_function(add, stack)(Tiny([1.0, 2.0]), Tiny([1.0, 2.0, 3.0]))


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
    *_, add, _, _, _ = lab

    class Broken(DispatchMode):
        def dispatch(self, op, args, kwargs):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Broken():
        add(Tiny([1.0]), Tiny([1.0]))
    assert tls.included() == tls.DEFAULT_INCLUDED
    assert add(Tiny([1.0]), Tiny([1.0])).values == [2.0]


def test_a_factory_takes_its_backend_from_the_device(lab):
    dispatcher, lib, *_ = lab
    zeros = lib.define("zeros(int n, *, Device? device=None) -> Tensor")
    lib.impl("zeros", lambda n, device=None: Tiny([0.0] * n), "CPU")
    lib.impl("zeros", lambda n, device=None: Tiny([0.0] * n, "CUDA"), "CUDA")
    backend_select.register_for(lib, zeros)
    with recording(dispatcher) as runs:
        assert zeros(2, device="cuda:1")._key_set.has("CUDA")
        assert zeros(2)._key_set.has("CPU")
    assert slots(runs) == ["BackendSelect", "CUDA", "BackendSelect", "CPU"]
    with pytest.raises(ValueError, match="quantum"):
        zeros(2, device="quantum")


def test_explain_follows_every_layer(lab):
    _, lib, add, add_, *_ = lab
    ad_inplace_or_view.register_for(lib, add_)
    autocast.register_for(lib, add)
    x = Tiny([1.0])
    made = explain(add_, x, x)
    assert [hop["slot"] for hop in made.hops] == ["AutogradCPU", "ADInplaceOrView", "CPU"]
    assert made.agrees
    assert made.complete
    with Autocast(), DispatchMode():
        made = explain(add, x, x)
    assert made.agrees
    assert [hop["slot"] for hop in made.hops] == [
        "PythonTLSSnapshot", "AutocastCPU", "PythonTLSSnapshot", "AutogradCPU", "Python", "CPU",
    ]  # fmt: skip
    assert made.hops[-1]["assumed"]


def test_destroying_the_library_takes_the_layers_away():
    dispatcher, _, add, *_ = world()
    layers = install(dispatcher)
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
