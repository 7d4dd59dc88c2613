import threading

import pytest
import torch

import labkit as lab
from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import (
    Dispatcher,
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    Library,
    fallthrough_kernel,
    operator,
    recording,
    rules_tried,
    tls,
)
from labkit.dispatch.operator import slots_updated
from labkit.dispatch.table import compute_cell
from tests.dispatch.tiny import Tiny, world

K = DispatchKey


@pytest.fixture
def lib():
    with Library("lab", "DEF", dispatcher=Dispatcher()) as made:
        yield made


@pytest.fixture
def op(lib):
    return lib.define("op(Tensor x) -> Tensor")


def cell(op, key):
    return op.computed_table()[DispatchKeySet(key).table_index()]


def test_the_order_of_two_registrations_shows_in_calls_not_in_the_table(lib):
    ran = []
    for order in (("Implicit", "Explicit"), ("Explicit", "Implicit")):
        op = lib.define(f"first_{order[0]}(Tensor x) -> Tensor")
        for alias in order:
            lib.impl(op, lambda x, alias=alias: alias, f"Composite{alias}Autograd")
        key = DispatchKeySet("AutogradCPU")
        assert op.computed_table()[key.table_index()].reason == "missing"
        try:
            ran.append(op.redispatch(key, Tiny([1.0])))
        except NotImplementedError:
            ran.append(None)
    assert ran == ["Implicit", None]
    stale = lib.dispatcher.find("lab::first_Implicit").stale_slots()
    assert len(stale) == 18 + 16  # every autograd slot, and NestedTensor on every backend
    assert lib.dispatcher.find("lab::first_Explicit").stale_slots() == []


def test_the_newest_registration_wins_and_removing_it_brings_the_older_back(lib, op):
    x = Tiny([1.0], "CPU")
    old = lib.impl(op, lambda x: "old", "CPU")
    new = lib.impl(op, lambda x: "new", "CPU")
    assert op(x) == "new"
    new.remove()
    new.remove()  # a second time does nothing
    assert op(x) == "old"
    old.remove()
    with pytest.raises(NotImplementedError, match=r"lab::op has no kernel for CPU[^$]*\(nothing\)"):
        op(x)


def test_a_missing_kernel_lists_what_there_is(lib, op):
    lib.impl(op, lambda x: x, "CUDA")
    with pytest.raises(NotImplementedError) as caught:
        op(Tiny([1.0], "CPU"))
    assert "CUDA: registered at test_operator.py" in str(caught.value)


def test_ambiguity_is_an_error_that_names_both(lib, op):
    lib.impl(op, lambda x: x, "CompositeImplicitAutograd")
    lib.impl(op, lambda x: x, "SparseCPU")
    assert cell(op, "AutogradOther").reason == "ambiguous autogradother"
    fresh = lib.define("fresh(Tensor x) -> Tensor")
    for key in ("SparseCPU", "CPU", "CompositeImplicitAutograd"):
        lib.impl(fresh, lambda x: x, key)
    with pytest.raises(
        RuntimeError, match=r"share the AutogradOther slot: SparseCPU\. .*ambiguous"
    ):
        fresh.redispatch(DispatchKeySet("AutogradOther"), Tiny([1.0]))


def test_the_mask_acts_at_the_first_dispatch_only(lib, op):
    lib.impl(op, lambda x: "cpu", "CPU")
    lib.impl(op, fallthrough_kernel, "AutogradCPU")
    x = Tiny([1.0], "CPU", "AutogradCPU")
    assert op(x) == "cpu"
    with pytest.raises(RuntimeError, match="fallthrough"):
        op.redispatch(x._key_set, x)


def test_a_fallthrough_of_one_backend_is_not_one_of_another(lib, op):
    lib.impl(op, fallthrough_kernel, "AutogradCPU")
    lib.impl(op, lambda x: "cuda autograd", "AutogradCUDA")
    lib.impl(op, lambda x: "dense", "CompositeExplicitAutograd")
    assert op(Tiny([1.0], "CPU", "AutogradCPU")) == "dense"
    assert op(Tiny([1.0], "CUDA", "AutogradCUDA")) == "cuda autograd"


def test_a_boxed_fallback_sees_a_stack_of_every_argument(lib):
    op = lib.define("two(Tensor x, int n=7, *, str s='a') -> (Tensor, int)")
    seen = []

    def fallback(op, keys, stack):
        seen.append((op.name, keys.slot_key(), stack[1:]))
        stack[:] = [stack[0], stack[1] + 1]

    Library("_", "IMPL", dispatcher=lib.dispatcher).fallback(fallback, "PrivateUse1")
    x = Tiny([1.0], "PrivateUse1")
    assert op(x, s="b") == (x, 8)
    assert seen == [("lab::two", K.PrivateUse1, [7, "b"])]


def test_include_and_exclude_steer_a_call_and_other_threads_do_not_notice(lib, op):
    lib.impl(op, lambda x: "cpu", "CPU")
    lib.impl(op, lambda x: "traced", "Tracer")
    x = Tiny([1.0], "CPU")
    seen = []
    with IncludeDispatchKeyGuard(K.Tracer):
        assert op(x) == "traced"
        thread = threading.Thread(target=lambda: seen.append(op(x)))
        thread.start()
        thread.join()
        with ExcludeDispatchKeyGuard(K.Tracer):
            assert op(x) == "cpu"
    assert seen == ["cpu"]
    assert tls.included() == tls.DEFAULT_INCLUDED


def test_kernels_may_come_before_the_definition(lib):
    lib.impl("later", lambda x: "early", "CPU")
    with pytest.raises(KeyError, match="lab::later"):
        lib.dispatcher.find("lab::later")
    assert lib.define("later(Tensor x) -> Tensor")(Tiny([1.0], "CPU")) == "early"


def test_recording_leaves_nothing_behind():
    dispatcher, _, add, *_ = world()
    x = Tiny([1.0], "CPU")
    add(x, x)
    plain = dict(add._on_call)
    with recording(dispatcher) as runs:
        add(x, x)
        assert dict(add._on_call) != plain
    add(x, x)
    assert dict(add._on_call) == plain  # the very kernel function again, with nothing around it
    assert len(runs) == 1


def test_an_error_inside_a_recording_is_noted_and_passes():
    dispatcher, lib, *_ = world()
    op = lib.define("bad(Tensor x) -> Tensor")
    lib.impl(op, lambda x: 1 / 0, "CompositeImplicitAutograd")
    with pytest.raises(ZeroDivisionError), recording(dispatcher) as runs:
        op.redispatch(DispatchKeySet("CPU"), Tiny([1.0]))
    assert runs[0].raised == "ZeroDivisionError: division by zero"
    assert dispatcher.recorder is None


def test_the_rules_are_asked_in_order_until_one_decides(lib, op):
    lib.impl(op, lambda x: x, "CPU")
    lib.impl(op, lambda x: x, "CompositeImplicitAutograd")
    lib.impl(op, lambda x: x, "Autograd")
    asked = rules_tried(K.AutogradCPU, op.active_kernels, {})
    assert [tried.rule for tried in asked] == [1, 2, 3, 4, 5, 6, 7]
    assert asked[3].question.endswith("yes")
    assert [tried.decides for tried in asked] == [False] * 6 + [True]


@pytest.mark.parametrize(
    ("kind", "namespace", "error", "words"),
    [
        ("NEW", "lab2", ValueError, "'NEW'"),
        ("DEF", "lab", RuntimeError, "only one library"),
        ("DEF", "_", ValueError, "'_'"),
        ("DEF", "no spaces", ValueError, "'no spaces'"),
    ],
)
def test_libraries_that_cannot_be(lib, kind, namespace, error, words):
    with pytest.raises(error, match=words):
        Library(namespace, kind, dispatcher=lib.dispatcher)


def test_what_a_library_may_not_do(lib, op):
    with pytest.raises(RuntimeError, match="already defined"):
        lib.define("op(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="IMPL library adds kernels only"):
        Library("lab", "IMPL", dispatcher=lib.dispatcher).define("x() -> ()")
    with pytest.raises(ValueError, match="defines lab::"):
        lib.define("other::x() -> ()")
    with pytest.raises(ValueError, match="implements lab::"):
        lib.impl("other::x", lambda: None)
    with pytest.raises(ValueError, match="did you mean CUDA"):
        lib.impl(op, lambda x: x, "CUDAA")
    with pytest.raises(ValueError, match="Dense has a slot per backend; name one: CPU, CUDA"):
        lib.impl(op, lambda x: x, "Dense")
    with pytest.raises(TypeError, match="callable"):
        lib.impl(op, 3, "CPU")
    with pytest.raises(ValueError, match="_"):
        lib.fallback(lambda op, keys, stack: None, "CPU")


def test_a_library_that_is_destroyed_takes_everything_with_it():
    dispatcher = Dispatcher()
    with Library("gone", "DEF", dispatcher=dispatcher) as lib:
        lib.impl(lib.define("f(Tensor x) -> Tensor"), lambda x: x, "CPU")
    assert dispatcher.operators == {}
    assert dispatcher.libraries == {}


def test_cells_are_computed_when_somebody_reads_the_table(lib, monkeypatch):
    computed = []

    def counted(slot, *registered):
        computed.append(slot)
        return compute_cell(slot, *registered)

    monkeypatch.setattr(operator, "compute_cell", counted)
    op = lib.define("f(Tensor x) -> Tensor")
    lib.impl(op, lambda x: "cpu", "CPU")
    assert computed == []
    assert op(Tiny([1.0], "CPU")) == "cpu"
    assert len(computed) == len(set(computed)) == len(op.dispatch_table)
    del computed[:]
    lib.impl(op, lambda x: "cuda", "CUDA")
    assert op(Tiny([1.0], "CUDA")) == "cuda"
    assert set(computed) == set(slots_updated(K.CUDA))


def test_a_cell_is_what_was_registered_when_it_was_refreshed(lib):
    """Not what is registered when it is read, much later."""
    op = lib.define("f(Tensor x) -> Tensor")
    lib.impl(op, lambda x: "implicit", "CompositeImplicitAutograd")
    lib.impl(op, lambda x: "explicit", "CompositeExplicitAutograd")
    assert K.AutogradCPU in op.stale_slots()
    assert op.redispatch(DispatchKeySet("AutogradCPU"), Tiny([1.0])) == "implicit"


@pytest.mark.parametrize(
    ("returns", "answer"),
    [
        ("Tensor", lambda x: 5),
        ("Tensor", lambda x: [x]),
        ("Tensor", lambda x: "x"),
        ("(Tensor, Tensor)", lambda x: (x, 5)),
    ],
)
def test_an_answer_the_schema_does_not_promise_is_refused(returns, answer):
    namespace = "labkit_wrong_answers"
    with torch.library._scoped_library(namespace, "FRAGMENT") as theirs:
        theirs.define(f"f(Tensor x) -> {returns}")
        theirs.impl("f", answer, "CPU")
        with pytest.raises(RuntimeError, match="Unable to cast"):
            torch.ops.labkit_wrong_answers.f.default(torch.ones(1))
    with Library(namespace, "FRAGMENT") as ours:
        op = ours.define(f"f(Tensor x) -> {returns}")
        ours.impl("f", answer, "CPU")
        with pytest.raises(RuntimeError, match="Unable to cast"):
            op(lab.ones(1))


def test_an_answer_of_another_length_is_refused():
    with Library("labkit_wrong_answers", "FRAGMENT") as library:
        op = library.define("f(Tensor x) -> (Tensor, Tensor)")
        library.impl("f", lambda x: (x, x, x), "CPU")
        with pytest.raises(RuntimeError, match="must return 2 values, got 3"):
            op(lab.ones(1))
