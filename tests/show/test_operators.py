"""`show.graph` and `show.rewrite` on captured operators."""

import torch
from torch import nn

from labkit import graph, show


def captured(program, *shapes):
    return graph.capture(program, *[torch.randn(shape) for shape in shapes])


def labels(view):
    return [node["label"] for node in view.levels["all"]["nodes"]]


def test_operators_and_their_readers_are_drawn_without_parameters():
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU()).eval()
    view = show.graph(captured(network, (1, 3, 2, 2)))
    assert labels(view) == ["input_1", "conv2d", "batch_norm", "relu", "result"]
    assert [edge[:2] for edge in view.levels["all"]["edges"]] == [[0, 1], [1, 2], [2, 3], [3, 4]]
    details = view.levels["all"]["nodes"][1]["details"]
    assert details["makes"] == "(1, 4, 2, 2) torch.float32"


def test_a_call_of_a_method_has_its_name():
    traced = torch.fx.symbolic_trace(lambda x: torch.relu(x).sum())
    assert labels(show.graph(traced)) == ["x", "relu", "sum", "result"]


def test_a_rewrite_is_stepped_from_before_to_after():
    def program(x):
        y = (x * 2).exp()
        return y.sin().cos(), y

    done = graph.fuse_pointwise(captured(program, (4,)))
    view = show.rewrite(done)
    names = labels(view)
    first, refused, last = view.frames
    shown = [names[i] for i in range(len(names)) if i not in last["absent"]]
    assert sorted(shown) == ["one kernel", "one kernel", "result", "x"]
    assert [names[i] for i in first["absent"]] == ["one kernel", "one kernel"]
    (edge,) = refused["edges"]
    source, target = view.levels["all"]["edges"][edge][:2]
    assert (names[source], names[target]) == ("one kernel", "one kernel")
    assert "reads it too" in refused["text"]


def test_an_operator_that_writes_in_place_is_another_node():
    view = show.rewrite(graph.reinplace(captured(lambda x: x.exp().relu(), (4,))))
    assert labels(view) == ["x", "exp", "relu", "result", "relu_"]
    assert [view.frames[0]["absent"], view.frames[-1]["absent"]] == [[4], [2]]
