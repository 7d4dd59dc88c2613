import json
import re
import warnings

import pytest
import torch

from labkit.dispatch import Dispatcher, Library, torch_tables
from labkit.dispatch.contexts import CONTEXTS, explain_in
from labkit.dispatch.explain import explain, explain_call
from labkit.dispatch.explain.steps import Explanation
from labkit.dispatch.explain.table import explain_cell, explain_table, find_operators
from tests.dispatch.tiny import Tiny

aten = torch.ops.aten


@pytest.fixture
def x():
    return torch.ones(2, 2)


def slots(made):
    return [hop["slot"] for hop in made.hops]


def ran(made):
    return [run["slot"] for run in made.recorded]


def test_no_grad_keeps_the_autograd_hop_and_inference_mode_drops_it(x):
    x.requires_grad_()
    assert slots(explain_in("plain", aten.relu, x)) == ["AutogradCPU", "CPU"]
    assert slots(explain_in("no_grad", aten.relu, x)) == ["AutogradCPU", "CPU"]
    assert slots(explain_in("inference_mode", aten.relu, x)) == ["CPU"]


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_ran_is_what_was_predicted(context, x):
    for op, args in ((aten.mm, (x, x)), (aten.add_, (x.clone(), 1)), (aten.zeros, ([2],))):
        made = explain_in(context, op, *args)
        assert made.agrees
        assert ran(made)[: len(made.hops)] == slots(made)


def test_an_in_place_call_runs_three_kernels_and_writes(x):
    made = explain("aten::add_.Tensor", x, 1)
    assert ran(made) == ["AutogradCPU", "ADInplaceOrView", "CPU"]
    assert made.result is x
    assert x[0, 0] == 2


def test_a_composite_ends_at_its_formula_and_lists_what_it_called(x):
    made = explain(aten.linear.default, x, x)
    assert slots(made) == ["AutogradCPU"]
    assert made.hops[0]["source"] == "CompositeImplicitAutograd"
    called = [(entry["operator"], entry["depth"]) for entry in made.below]
    assert ("aten::t", 0) in called
    assert ("aten::transpose", 1) in called


def test_the_kinds_of_steps_are_those_the_docstring_names(x):
    kinds = {step["kind"] for step in explain(aten.add.Tensor, x, x).steps}
    assert "redispatch" in kinds
    told = set(re.findall(r"\w+", Explanation.steps.__doc__))
    assert kinds - told == set()


def test_each_step_of_the_first_hop_is_there(x):
    made = explain(aten.add.Tensor, x, x)
    kinds = [step["kind"] for step in made.steps if step["hop"] == 0]
    assert kinds == [
        "argument", "argument", "union", "include", "exclude", "mask", "winner", "cell", "kernel",
        "return", "end",
    ]  # fmt: skip
    union, include, exclude, mask = (s["bits"] for s in made.steps[2:6])
    hop = made.hops[0]
    assert (union, exclude, mask) == (
        hop["union_bits"], hop["with_tls_bits"], hop["result_bits"],
    )  # fmt: skip
    assert include & hop["included_bits"] == hop["included_bits"]
    assert mask == exclude & hop["mask_bits"]
    assert hop["skipped"] == ["BackendSelect", "ADInplaceOrView"]
    assert [o["key"] for o in hop["arguments"][0]["origins"]] == [
        "AutocastCPU", "AutogradCPU", "ADInplaceOrView", "CPU",
    ]  # fmt: skip


def test_the_data_is_plain(x):
    text = json.dumps(explain(aten.relu, x).data())
    assert json.loads(text)["agrees"] is True


def test_a_missing_kernel_is_explained_not_raised():
    sparse = torch.ones(2).to_sparse()
    made = explain(aten.addcmul.default, sparse, sparse, sparse)
    assert made.hops[-1]["reason"] == "missing"
    assert made.raised.startswith("NotImplementedError")
    assert made.agrees


def test_a_lazy_conjugate_is_resolved_on_the_way():
    z = torch.ones(2, dtype=torch.complex64).conj()
    assert ran(explain(aten.add.Tensor, z, z)) == ["AutogradCPU", "Conjugate", "CPU"]
    assert "Conjugate" not in slots(explain(aten.view, z, [2, 1]))


def test_where_no_device_is_given_a_tensor_names_the_backend():
    made = explain(aten._to_copy.default, torch.ones(2, device="meta"), dtype=torch.float64)
    assert slots(made) == ran(made) == ["AutogradMeta", "BackendSelect", "Meta"]
    assert made.agrees


def test_a_device_argument_stands_in_for_tensors():
    made = explain(aten.zeros.default, [2], device="meta")
    assert ran(made) == ["BackendSelect", "Meta"]
    assert made.agrees


def test_a_number_for_a_tensor_counts_as_a_cpu_tensor():
    made = explain(aten.add.Tensor, torch.empty(2, device="meta"), 1)
    assert made.agrees
    assert [a["name"] for a in made.hops[0]["arguments"]] == ["self", "other"]
    assert made.hops[0]["union_bits"] & 1  # the CPU bit


def test_a_subclass_decides_for_itself(x):
    from torch.testing._internal.logging_tensor import LoggingTensor

    made = explain_call(aten.relu.default, (LoggingTensor(x),), {}, run=False)
    assert made.hops[-1]["slot"] == "Python"
    assert not made.complete


def test_predicting_does_not_run(x):
    made = explain_call(aten.add_.Tensor, (x, 1), {}, run=False)
    assert made.recorded is None
    assert made.agrees is None
    assert x[0, 0] == 1


def test_recording_leaves_pytorchs_table_as_it_was(x):
    before = torch._C._dispatch_dump_table("aten::mm")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explain(aten.mm, x, x)
    assert torch._C._dispatch_dump_table("aten::mm") == before


def test_a_stale_operator_of_pytorch_is_not_touched():
    library = torch._C._dispatch_library("FRAGMENT", "labkit_stale", "", "test", 1)
    library.define("op(Tensor x) -> Tensor", "")
    library.impl("op", "CompositeImplicitAutograd", lambda x: x, False)
    library.impl("op", "CompositeExplicitAutograd", lambda x: x, False)
    try:
        made = explain("labkit_stale::op", torch.ones(1))
        assert made.recorded is None
        assert "may run another kernel" in made.note
        assert explain_table("labkit_stale::op")["stale"]
    finally:
        library.reset()


@pytest.mark.parametrize(
    ("op", "args", "error", "words"),
    [
        (torch.add, (1, 2), TypeError, "torch.ops.aten.add"),
        ("aten::no_such_op", (), KeyError, "aten::no_such_op"),
        ("nonsense", (), KeyError, "nonsense"),
        (3, (), TypeError, "got 3"),
        ("aten::mm", (torch.ones(1, 1),), TypeError, "missing argument 'mat2'"),
    ],
)
def test_what_is_no_call_is_refused(op, args, error, words):
    with pytest.raises(error, match=words):
        explain(op, *args)


def test_an_unknown_context_lists_the_known(x):
    with pytest.raises(ValueError, match="inference_mode"):
        explain_in("dark", aten.relu, x)


def test_a_labkit_kernel_that_decides_is_followed_by_the_recording():
    dispatcher = Dispatcher()
    with Library("lab", "DEF", dispatcher=dispatcher) as lib:
        op = lib.define("op(Tensor x) -> Tensor")
        lib.impl(op, lambda keys, x: op.redispatch(keys.remove("Tracer"), x), "Tracer",
                 with_keyset=True)  # fmt: skip
        lib.impl(op, lambda x: x, "CPU")
        made = explain(op, Tiny([1.0], "CPU", "Tracer"))
    assert slots(made) == ["Tracer"]
    assert not made.complete
    assert made.agrees
    assert [(run["slot"], run["via"]) for run in made.recorded] == [
        ("Tracer", "call"), ("CPU", "redispatch"),
    ]  # fmt: skip
    assert "Tracer -> CPU" in str(made)


def test_a_stale_cell_of_labkit_is_what_the_prediction_follows():
    with Library("lab", "DEF", dispatcher=Dispatcher()) as lib:
        op = lib.define("op(Tensor x) -> Tensor")
        lib.impl(op, lambda x: "implicit", "CompositeImplicitAutograd")
        lib.impl(op, lambda x: "explicit", "CompositeExplicitAutograd")
        made = explain(op, Tiny([1.0], "CPU", "AutogradCPU"))
        table = explain_table(op)
    assert made.result == "implicit"
    assert made.agrees
    assert "stale in 34 slots" in made.note
    by_slot = {cell["slot"]: cell for cell in table["cells"]}
    assert by_slot["AutogradCPU"]["stale"]
    assert (by_slot["AutogradCPU"]["kernel"], by_slot["AutogradCPU"]["reason"]) == ("", "missing")
    assert by_slot["AutogradCPU"]["stored_kernel"]
    assert not by_slot["CPU"]["stale"]


def test_the_table_of_a_torch_operator_has_every_slot_with_its_rule():
    table = explain_table("aten::relu")
    assert len(table["cells"]) == 137
    by_slot = {cell["slot"]: cell for cell in table["cells"]}
    assert by_slot["CPU"]["rule"] == 1
    assert by_slot["AutogradCPU"]["source"] == "Autograd"
    assert by_slot["BackendSelect"]["fallthrough"]
    assert any(not entry["active"] for entry in explain_table("aten::add.Tensor")["registrations"])
    assert [tried["rule"] for tried in explain_cell("aten::relu", "AutogradCPU")][-1] == 7
    with pytest.raises(ValueError, match="no slot"):
        explain_cell("aten::relu", "Autograd")


def test_operators_are_found_by_part_of_their_name():
    found = find_operators("relu")
    assert found[0] == "aten::relu"
    assert "aten::relu_" in found
    assert len(find_operators("a", limit=7)) == 7
    assert find_operators("no such thing") == []


def test_a_line_that_cannot_be_read_is_an_error_with_the_line():
    with pytest.raises(ValueError, match="what is this"):
        torch_tables.parse_table("what is this")
    with pytest.raises(ValueError, match="what is this"):
        torch_tables.parse_registrations("what is this [ boxed ]")


def test_a_key_that_left_pytorch_is_passed_over():
    """2.11 prints `Named`; a name that was never a key is still told."""
    lines = "CPU: registered at a.cpp:1 [kernel]\nNamed: fallthrough b.cpp:2 [backend fallback]\n"
    assert [key.name for key in torch_tables.parse_table(lines)] == ["CPU"]
    with pytest.raises(ValueError, match="no dispatch key is called 'Nomad'"):
        torch_tables.parse_table(lines.replace("Named", "Nomad"))


def test_below_autocast_the_arguments_are_those_that_arrived(x):
    made = explain_in("autocast", aten.mm, x, x)
    first, second = [[argument["what"] for argument in hop["arguments"]] for hop in made.hops[:2]]
    assert first == ["float32 [2, 2] on cpu"] * 2
    assert second == ["bfloat16 [2, 2] on cpu"] * 2
    assert any("self is bfloat16" in step["text"] for step in made.steps if step["hop"] == 1)
    widest = explain_in("autocast", aten.cat, [x, x.half()])
    assert [argument["what"][:7] for argument in widest.hops[1]["arguments"]] == ["float32"] * 2
