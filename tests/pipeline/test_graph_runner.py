"""The graph runner: right and lasting results, one graph a shape, and what may not be captured."""

import pytest
import torch
from torch import nn

from labkit.pipeline.enhancer import Enhancer
from labkit.pipeline.graph_runner import GraphRunner, capture

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(autouse=True)
def no_gradients():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def counted(function):
    def call(x):
        call.count += 1
        return function(x)

    call.count = 0
    return call


@pytest.mark.parametrize("device", DEVICES)
def test_a_replay_reads_the_captured_tensor_and_no_name(device):
    x = torch.ones(3, device=device)
    captured = x
    graph, y = capture(lambda x: (x * 2 + 1).relu(), x)
    x = torch.full((3,), 5.0, device=device)
    graph.replay()
    assert y.tolist() == [3, 3, 3]
    captured.copy_(x)
    graph.replay()
    assert y.tolist() == [11, 11, 11]


@pytest.mark.parametrize("device", DEVICES)
def test_results_are_right_and_last_and_inputs_stay(device):
    network = Enhancer(2).to(device)
    runner = GraphRunner(network)
    frames = [torch.rand(1, 3, 6, 8, device=device) for _ in range(3)]
    before = [frame.clone() for frame in frames]
    found = [runner(frame) for frame in frames]
    for frame, same, one in zip(frames, before, found, strict=True):
        assert torch.equal(frame, same)
        torch.testing.assert_close(one, network(frame))
    assert len(runner) == 1


def test_the_function_is_called_for_new_shapes_types_and_beyond_the_room():
    function = counted(lambda x: x * 2)
    runner = GraphRunner(function, most=3)
    x = torch.ones(2, 3)
    for given in (x, x, x.double(), x[:1], x):
        assert torch.equal(runner(given), given * 2)
    assert (function.count, len(runner)) == (3, 3)
    for _ in range(2):
        assert runner(torch.ones(5)).tolist() == [2] * 5
    assert (function.count, len(runner)) == (5, 3)


def test_weights_changed_in_place_count():
    layer = nn.Linear(2, 2)
    runner = GraphRunner(layer)
    x = torch.ones(1, 2)
    runner(x)
    layer.weight.mul_(3)
    torch.testing.assert_close(runner(x), layer(x))


def test_views_in_place_and_several_results_are_repeated():
    def function(x):
        y = x.t().reshape(-1)
        y += 1
        large, at = y.view(2, 3).max(dim=1)
        return large * at

    runner = GraphRunner(function)
    for _ in range(3):
        x = torch.rand(3, 2)
        assert torch.equal(runner(x), function(x.clone()))


def test_a_function_that_writes_to_its_input_leaves_the_callers_alone():
    runner, x = GraphRunner(lambda x: x.mul_(2)), torch.ones(2)
    assert [runner(x).tolist() for _ in range(3)] == [[2, 2]] * 3
    assert x.tolist() == [1, 1]


def test_nothing_is_kept_of_a_capture_that_fails():
    runner = GraphRunner(lambda x: x * 2 if x.sum() > 0 else x)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot read a tensor's number"):
            runner(torch.ones(2))
    assert len(runner) == 0
