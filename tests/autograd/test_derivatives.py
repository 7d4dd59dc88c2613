"""The table: what it says of itself, and what it must agree with."""

import pytest
import torch

import labkit as lab
import labkit._tensor  # defines every operator
from labkit.autograd.derivatives import Row, derivatives, find_row, row
from labkit.autograd.kernels import no_derivative
from labkit.autograd.kernels.differentiation import Differentiation
from labkit.autograd.kernels.install import kernel_of
from labkit.dispatch.dispatcher import dispatcher
from labkit.dispatch.schema_parser import parse_schema

torchgen = pytest.importorskip("torchgen.packaged.autograd.load_derivatives")


def _pytorch_rows():
    from pathlib import Path

    from torchgen import packaged

    base = Path(next(iter(packaged.__path__)))
    native = base / "ATen" / "native"
    infos, _ = torchgen.load_derivatives(
        str(base / "autograd" / "derivatives.yaml"),
        str(native / "native_functions.yaml"),
        str(native / "tags.yaml"),
    )
    return {
        str(schema.name): next(iter(keys.values())) if "Default" not in keys else keys["Default"]
        for schema, keys in infos.items()
    }


@pytest.fixture(scope="module")
def theirs():
    return _pytorch_rows()


def test_nodes_are_called_as_in_pytorch(theirs):
    ours = {name: each.node for name, each in derivatives().items() if each.node}
    known = {name: node for name, node in ours.items() if name in theirs}
    wrong = {
        name: (node, theirs[name].op) for name, node in known.items()
        if node != theirs[name].op and name != "copy_"
    }  # fmt: skip
    assert len(known) > 150
    assert not wrong


def test_the_same_arguments_have_derivatives_as_in_pytorch(theirs):
    wrong = {}
    for name, each in derivatives().items():
        if name not in theirs or each.node is None:
            continue
        mine = {
            n.strip() for names, text in each.formulas.items() if text for n in names.split(",")
        }
        yours = {n for d in theirs[name].derivatives for n in d.var_names}
        if not mine <= yours:
            wrong[name] = (mine, yours)
    assert not wrong


def test_every_row_belongs_to_an_operator_and_its_formulas_can_be_compiled():
    used = set()
    for name, op in dispatcher().operators.items():
        each = find_row(name.removeprefix("aten::"))
        if not name.startswith("aten::") or not op.has_schema or each is None:
            continue
        used.add(each.operator)
        if each.node is not None:
            for formula in Differentiation(each, op.schema).formulas:
                assert callable(formula.function)
    assert set(derivatives()) == used


def test_a_row_prints_its_formulas():
    text = str(derivatives()["mul.Tensor"])
    assert text.startswith("mul.Tensor: MulBackward0")
    assert "self: grad * conj(other)" in text


def test_an_in_place_operator_finds_the_functional_row():
    assert find_row("mul_.Tensor") is derivatives()["mul.Tensor"]
    assert find_row("no_such_operator") is None


def test_a_row_for_an_argument_that_does_not_exist_is_refused():
    schema = parse_schema("aten::twice(Tensor self) -> Tensor")
    with pytest.raises(ValueError, match="other"):
        Differentiation(row("twice", "TwiceBackward0", other="grad"), schema)


def test_what_a_formula_names_is_what_is_saved():
    schema = parse_schema("aten::f(Tensor self, Tensor other, float k) -> Tensor")
    text = "grad * other * k + self.sizes[0] * result"
    taken = Differentiation(row("f", "FBackward0", self=text, other="grad"), schema)
    assert taken.tensors == ["other"]
    assert taken.values == ["k"]
    assert taken.properties == [("self", "sizes")]
    assert taken.results == [0]
    assert taken.guards["other"] == 0


def test_a_formula_is_a_function_of_what_it_mentions():
    formulas = kernel_of("mul.Tensor").differentiation.formulas
    assert [(each.arguments, each.parameters) for each in formulas] == [
        (("self",), ["grad", "other"]),
        (("other",), ["grad", "self"]),
    ]
    assert formulas[0]({"grad": 2.0, "other": 3.0, "self": None}) == 6.0
    with pytest.raises(ValueError, match="no derivative"):
        kernel_of("eq.Tensor")


def test_a_result_without_a_row_refuses_to_be_differentiated():
    x = lab.tensor([1.0]).requires_grad_()
    node = no_derivative.NotImplemented("aten::strange", [x])
    with pytest.raises(NotImplementedError, match="derivative for aten::strange"):
        node.apply([x], node.next_edges)


def test_comparisons_are_not_differentiable():
    x = lab.tensor([1.0, 2.0]).requires_grad_()
    assert not (x > 1).requires_grad
    assert not (x == x).requires_grad
    assert isinstance(derivatives()["eq.Tensor"], Row)
    assert torch.tensor([1.0], requires_grad=True).eq(1).requires_grad is False
