"""Calls and tables of PyTorch and of labkit, as the plain data a widget steps through."""

import pytest
import torch

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import Dispatcher, Library
from labkit.dispatch.contexts import CONTEXTS
from labkit.show.dispatch import dispatch, dispatch_table
from labkit.show.dispatch.paths import shortened

aten = torch.ops.aten


class Tiny:
    def __init__(self, *keys):
        self._key_set = DispatchKeySet(*keys)


@pytest.fixture
def x():
    return torch.ones(3, requires_grad=True)


def by_context(view):
    return {call["context"]: call for call in view.calls}


def slots(call):
    return [hop["slot"] for hop in call["hops"]]


def test_every_context_predicts_what_ran(x):
    view = dispatch(aten.add.Tensor, x, x)
    calls = by_context(view)
    assert list(calls) == [
        "plain", "no_grad", "inference_mode", "autocast", "vmap", "functionalize", "mode",
    ]  # fmt: skip
    assert all(call["agrees"] for call in view.calls)
    assert slots(calls["plain"]) == ["AutogradCPU", "CPU"]
    assert slots(calls["inference_mode"]) == ["CPU"]
    assert "FuncTorchBatched" in slots(calls["vmap"])
    assert "Python" in slots(calls["mode"])
    assert view.left_out == {}
    assert repr(view) == "DispatchView(aten::add.Tensor, as called: AutogradCPU -> CPU)"


def test_the_contexts_asked_for_and_no_others(x):
    view = dispatch("aten::relu", x, contexts=["no_grad", "plain"])
    assert list(by_context(view)) == ["no_grad", "plain"]
    assert dispatch(aten.add, x, 2, contexts=["plain"]).table["operator"] == "aten::add.Tensor"
    for wrong, words in ((["dark"], "no context 'dark'; there are plain"), ([], "no context was")):
        with pytest.raises(ValueError, match=words):
            dispatch("aten::relu", x, contexts=wrong)


def test_an_operator_that_writes_runs_once():
    y = torch.zeros(3)
    view = dispatch(aten.add_.Tensor, y, torch.ones(3))
    assert y.tolist() == [1.0, 1.0, 1.0]
    ran = {name for name, call in by_context(view).items() if call["recorded"] is not None}
    assert ran == {"plain", "vmap", "functionalize"}
    assert "run in the first context only" in by_context(view)["no_grad"]["note"]


def test_random_numbers_are_drawn_once():
    torch.manual_seed(3)
    dispatch(aten.rand, [2], contexts=["plain", "no_grad", "inference_mode"])
    after_showing = torch.rand(1)
    torch.manual_seed(3)
    torch.rand(2)
    assert after_showing == torch.rand(1)


def test_a_call_that_fails_is_shown_and_a_context_that_cannot_be_is_named():
    indices = torch.tensor([[0, 1]])
    sparse = torch.sparse_coo_tensor(indices, torch.ones(2), (3,), check_invariants=True)
    view = dispatch(aten.addcmul.default, sparse, sparse, sparse)
    assert "NotImplementedError" in by_context(view)["plain"]["raised"]
    assert set(by_context(view)).isdisjoint(view.left_out)
    assert {*by_context(view), *view.left_out} == set(CONTEXTS)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert all(len(why) <= 140 for why in dispatch(aten.relu, nested).left_out.values())
    with pytest.raises(TypeError, match="got <built-in method add"):
        dispatch(torch.add, 1)
    with pytest.raises(KeyError, match="no_such"):
        dispatch("aten::no_such", 1)


def test_a_table_has_a_reason_and_the_rules_asked_for_every_cell():
    view = dispatch_table("aten::add.Tensor", "AutogradCPU")
    texts, cell = view.table["texts"], view.table["cells"][view.cell]
    assert len(view.table["cells"]) == 137
    assert (cell["slot"], cell["rule"], texts[cell["source"]]) == ("AutogradCPU", 7, "Autograd")
    assert [texts[i].partition(":")[0] for i in cell["asked"]][3] == "question only"
    assert len(cell["asked"]) == 7
    assert all(texts[cell["reason"]] for cell in view.table["cells"])
    view.query = "softmax"
    assert "aten::softmax.int" in view.found["names"]
    view.wanted = "aten::softmax.int"
    assert view.table["schema"].startswith("aten::softmax.int(Tensor self, int dim")
    with pytest.raises(ValueError, match="Autograd has no slot"):
        dispatch_table("aten::add.Tensor", "Autograd")
    with pytest.raises(ValueError, match="'Nowhere'"):
        dispatch_table("aten::add.Tensor", "Nowhere")


def test_a_small_view_has_some_slots_of_one_operator():
    whole, small = (
        dispatch_table("aten::relu", slots=slots) for slots in ((), ("Meta", "AutogradMeta"))
    )
    slots = [cell["slot"] for cell in small.table["cells"]]
    assert [slots[number] for number in small.shown] == ["Meta", "AutogradMeta"]
    assert small.cell == small.shown[0]
    assert repr(small).startswith("DispatchView(aten::relu: 2 slots, ")
    assert (whole.shown, whole.searches, small.searches) == ([], True, False)
    assert ">AutogradFunctionality<" in small.svg() and ">Tracer<" not in small.svg()
    assert small.svg().count("<rect") < whole.svg().count("<rect") - 130
    with pytest.raises(ValueError, match="Autograd has no slot"):
        dispatch_table("aten::relu", slots=["CPU", "Autograd"])


def test_masks_of_a_table_skip_what_falls_through():
    view = dispatch_table("aten::add.Tensor")
    cpu = DispatchKeySet.from_raw_repr(int(view.table["masks"][0]))
    assert not cpu.has("BackendSelect")
    assert cpu.has("CPU")
    assert cpu.has("Tracer")


def test_a_stale_cell_of_labkit_stands_beside_the_canonical_one():
    with Library("lab", "DEF", dispatcher=Dispatcher()) as lib:
        op = lib.define("op(Tensor x) -> Tensor")
        lib.impl(op, lambda x: "implicit", "CompositeImplicitAutograd")
        lib.impl(op, lambda x: "explicit", "CompositeExplicitAutograd")
        table = dispatch_table(op, "AutogradCPU")
        cell = table.table["cells"][table.cell]
        assert cell["stale"]
        assert table.table["texts"][cell["kernel"]] == ""
        assert "test_dispatch.py" in table.table["texts"][cell["stored"]]
        assert "stored table stale" in repr(table)
        view = dispatch(op, Tiny("CPU", "AutogradCPU"))
    calls = by_context(view)
    assert calls["plain"]["agrees"]
    assert set(view.left_out) >= {"no_grad", "vmap"}
    assert slots(calls["inference_mode"]) == ["CPU"]


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("registered at /__w/pytorch/pytorch/aten/src/ATen/x.cpp:3", "aten/src/ATen/x.cpp:3"),
        ("registered at /__w/pytorch/pytorch/build/aten/src/A.cpp:3", "build/aten/src/A.cpp:3"),
        ("registered at /home/me/site-packages/torch/_meta.py:5", "torch/_meta.py:5"),
        ("registered at /home/me/torch/lesson.py:7", "torch/lesson.py:7"),
        ("registered at /home/me/lesson.py:7", "lesson.py:7"),
        ("registered at /tmp/ipykernel_12/34.py:7", "notebook cell, line 7"),
        ("registered at 938323889.py:3", "notebook cell, line 3"),
        ("registered at lesson.py:7: computes", "lesson.py:7: computes"),
    ],
)
def test_kernels_are_named_by_their_place_in_pytorchs_tree(path, short):
    assert shortened({"hops": [{"text": path}]}) == {"hops": [{"text": short}]}
