import pytest
import torch

import labkit as lab
from labkit.show.graph import graph


def labels(view):
    return [node["label"] for node in view.levels["all"]["nodes"]]


@pytest.mark.parametrize("library", [torch, lab])
def test_the_graph_of_a_product_and_a_sum(library):
    x = library.ones(3, requires_grad=True)
    view = graph((x * x + x).sum())
    assert sorted(labels(view)) == [
        "AccumulateGrad",
        "AddBackward0",
        "MulBackward0",
        "SumBackward0",
    ]
    assert repr(view) == "GraphView(4 nodes, 5 edges)"
    product = view.levels["all"]["nodes"][labels(view).index("MulBackward0")]
    assert product["badges"] == ["#0", "tensors saved: 2"]
    assert product["details"]["_saved_self"] == f"tensor (3,) {x.dtype}, version 0"


def test_several_graphs_stand_side_by_side():
    first, second = (torch.ones(2, requires_grad=True) for _ in range(2))
    view = graph(first.sum(), second.exp().sum(), simple=True)
    assert labels(view)[:2] == ["SumBackward0"] * 2
    places = [node["x"] for node in view.levels["all"]["nodes"]]
    assert places[0] == places[2] < places[1] == places[3] == places[4]
    assert view.simple


def test_input_slots_are_on_the_edges():
    first, second = torch.ones(4, requires_grad=True).unbind(0)[:2]
    view = graph(first * second)
    assert sorted(edge[2] for edge in view.levels["all"]["edges"] if edge[2]) == ["1"]


@pytest.mark.parametrize("library", [torch, lab])
def test_a_saved_tensor_that_was_changed_says_so(library):
    x = library.ones(3, requires_grad=True)
    y = x.exp()
    z = y * y
    y.detach().add_(1)
    node = next(n for n in graph(z).levels["all"]["nodes"] if n["label"] == "MulBackward0")
    assert "saved at version 0, and is at 1 now" in node["details"]["_saved_self"]
    assert node["badges"] == ["#1", "✗ overwritten: 2"]
    assert node["kind"] == "saves tensors"


def test_two_gradients_to_one_node_are_two_arrows():
    x = torch.ones(2, requires_grad=True)
    edges = graph(x * x).levels["all"]["edges"]
    assert [edge[:2] for edge in edges] == [[0, 1], [0, 1]]
    assert edges[0][5] < 0 < edges[1][5]
    assert graph(x * x).svg().count("marker-end") == 2


def test_a_freed_saved_tensor_keeps_its_badge():
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    node = next(n for n in graph(y).levels["all"]["nodes"] if n["label"] == "MulBackward0")
    assert node["badges"] == ["#0", "freed: 2"]


def test_a_freed_graph_can_still_be_drawn():
    x = torch.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    assert len(labels(graph(y))) == 3


@pytest.mark.parametrize("library", [torch, lab])
def test_a_stale_view_beside_it_is_not_asked_for_its_node(library):
    x = library.ones(2, requires_grad=True)
    base = x * 2
    stale, _ = base.unbind()
    base.mul_(3)
    with pytest.raises(RuntimeError, match="Unbind"):
        _ = stale.grad_fn
    assert sorted(labels(graph(x.sum()))) == ["AccumulateGrad", "SumBackward0"]


def test_a_deep_chain_is_walked_without_recursion():
    x = torch.ones((), requires_grad=True)
    for _ in range(5000):
        x = x + 1
    assert len(labels(graph(x))) == 5001


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (3, TypeError, "got int"),
        (torch.ones(2), ValueError, "no input of the operation"),
        (torch.ones(2, requires_grad=True), ValueError, "it is a leaf that asks for gradients"),
    ],
)
def test_what_has_no_graph_is_refused_with_the_reason(value, error, message):
    with pytest.raises(error, match=message):
        graph(value)


@pytest.mark.parametrize("library", [torch, lab])
def test_a_value_packed_by_a_hook_is_not_unpacked(library):
    x, asked = library.ones(3, requires_grad=True), []
    with library.autograd.graph.saved_tensors_hooks(lambda t: t, asked.append):
        y = x.exp()
    (node, _) = graph(y).levels["all"]["nodes"]
    assert node["details"]["_saved_result"] == "packed by a saved-tensor hook"
    assert asked == []


def test_leaves_are_called_as_the_caller_calls_them():
    weight, inputs = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    badges = [node["badges"][0] for node in graph(weight * inputs).levels["all"]["nodes"][1:]]
    assert badges == ["weight (2,)", "inputs (2,)"]
