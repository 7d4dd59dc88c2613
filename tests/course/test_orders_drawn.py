"""Pictures of failing cases: where an order, a call's hops or a tensor part from the right one."""

import pytest
import torch

from labkit.course.checks import failing_cases, outcomes, picture_of
from labkit.course.exercise import Case
from labkit.course.exercises import find
from labkit.course.exercises._orders_drawn import tensors_drawn


def test_the_engine_is_drawn_at_the_first_node_that_ran_otherwise():
    nodes = [[("leaf0", 0, 1)], [("n0", 0, 1), ("leaf0", 0, 1)], [("n1", 0, 1), ("n0", 0, 1)]]
    spec = {"shape": "random", "nodes": nodes, "leaves": 1, "roots": ["n2"], "grads": [1]}
    picture = find("autograd_engine.engine_loop").picture
    view = picture(Case((spec,)), {"order": ["n2", "n0", "n1", "leaf0"]}, None)
    (frame,) = view.frames
    labels = [node["label"] for node in view.levels["all"]["nodes"]]
    assert frame["text"] == "number 2 is n1; in yours it is n0"
    assert [labels[int(at)] for at in frame["marks"]] == ["n1"]
    assert frame["notes"][str(labels.index("leaf0"))] == "4."
    same = picture(Case((spec,)), {"order": ["n2", "n1", "n0", "leaf0"]}, None)
    assert same.frames[0]["text"].startswith("the order is right")
    assert picture(Case(({"shape": "chain", "nodes": 9},)), {"order": ""}, None) is None


def test_the_hops_of_the_wrong_call_are_drawn_with_their_slots():
    exercise = find("dispatch_call.predict_the_hops")
    failure = failing_cases(exercise, lambda word, mask, table: ["CPU"], 3, search=False)[0]
    view = picture_of(exercise, failure)
    labels = [node["label"] for node in view.levels["all"]["nodes"]]
    assert labels[:2] == ["the set", "word & mask"] and len(labels) > 2
    assert "; in yours it is" in view.frames[0]["text"]


def test_a_graph_that_was_read_wrongly_is_drawn():
    exercise = find("autograd.read_the_graph")
    answer = (lambda edge: "root 0:0", lambda text: 0.0)
    failure = next(one for one in outcomes(exercise, answer, 3) if one.failures).failures[0]
    assert "AccumulateGrad" in picture_of(exercise, failure).svg()


@pytest.mark.parametrize("module", ["derivative_row", "custom_function"])
def test_gradients_have_a_picture(module):
    assert find(f"autograd_engine.{module}").picture is not None


def test_the_first_tensor_that_differs_is_drawn_beside_the_right_one():
    right = {"first": [torch.ones(2), None], "second": [torch.arange(4.0)]}
    close = {"first": [torch.ones(2) + 1e-7, None], "second": [torch.tensor([0.0, 1, 5, 3])]}
    view = tensors_drawn(close, right)
    assert [one["name"] for one in view.views] == ["yours", "should be"]
    assert tensors_drawn(right, right) is tensors_drawn("raised", right) is None
    assert tensors_drawn([torch.ones(2, 1)], [torch.ones(2)]) is not None
