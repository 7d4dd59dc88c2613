"""A labkit program gives the graph that the same program of torch gives."""

import pytest
import torch

import labkit as lab
from labkit import graph, nn, vision
from labkit.nn import functional as F

PROGRAMS = {
    "a chain": lambda x, y: ((x * y).sigmoid() + 2 * x - y).abs(),
    "a number first": lambda x, y: 2 - x / (1 + y.exp()),
    "in place": lambda x, y: (x + y).relu_().mul_(2).neg(),
    "two results": lambda x, y: (x + 1, [y * 2]),
    "read twice": lambda x, y: x.exp() + x.exp(),
    "views and sums": lambda x, y: (x.t() * y[0][:, None]).sum(1, keepdim=True).mean((0, 1)),
    "parts": lambda x, y: x.chunk(2)[1] @ y.t(),
    "the input itself": lambda x, y: y,
}


def inputs():
    made = torch.Generator().manual_seed(0)
    theirs = [torch.rand(4, 6, generator=made) + 0.1 for _ in range(2)]
    return theirs, [lab.tensor(one.tolist()) for one in theirs]


def calls(captured):
    return [
        (str(node.target), [str(one) for one in node.all_input_nodes])
        for node in captured.graph.nodes
        if node.op in ("call_function", "placeholder")
    ]


def flat(result):
    return [result] if isinstance(result, torch.Tensor) else [t for r in result for t in flat(r)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_the_graph_that_torch_s_recorder_writes(name):
    theirs, ours = inputs()
    mine = graph.capture(PROGRAMS[name], *ours)
    expected = graph.capture(PROGRAMS[name], *theirs)
    assert calls(mine) == calls(expected)
    for one, other in zip(flat(mine(*theirs)), flat(expected(*theirs)), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(mine.graph.nodes, expected.graph.nodes, strict=True):
        if one.op == "call_function" and isinstance(other.meta["val"], torch.Tensor):
            of = [(v.shape, v.stride(), v.dtype) for v in (one.meta["val"], other.meta["val"])]
            assert of[0] == of[1]


def test_a_module_s_parameters_have_their_names_and_share_their_memory():
    network = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 2))
    captured = graph.capture(network, lab.ones(4, 6))
    names = [node.target for node in captured.graph.find_nodes(op="get_attr")]
    assert sorted(names) == ["0_bias", "0_weight", "1_bias", "1_weight"]
    with lab.no_grad():
        network[1].bias.fill_(100.0)
    assert captured(torch.ones(4, 6)).min() > 50


def test_a_tensor_from_outside_is_an_attribute_whatever_reads_it():
    row = lab.tensor([1.0, 2.0])
    captured = graph.capture(lambda x: x * row + row, lab.ones(3, 2))
    (node,) = captured.graph.find_nodes(op="get_attr")
    assert len(node.users) == 2
    assert captured(torch.ones(3, 2)).tolist() == [[2.0, 4.0]] * 3


def test_a_block_is_captured_and_its_norms_are_folded():
    block = vision.ResidualBlock(4, 8, 2).eval()
    x = lab.randn(2, 4, 6, 6)
    captured = graph.capture(block, x)
    folded = graph.fold_batch_norm(captured)
    assert len(folded.done) == 3
    given = torch.from_dlpack(x)
    assert graph.largest_difference(captured, folded.graph, given) < 1e-5
    torch.testing.assert_close(captured(given), torch.from_dlpack(block(x).detach()))


def test_what_one_thread_captures_another_does_not_write():
    before = graph.capture(lambda x: F.relu(x), lab.ones(2))
    assert [node.name for node in before.graph.nodes] == ["x", "relu", "output"]
    lab.ones(2) + 1  # after it, nothing is written down
    assert len(before.graph.nodes) == 3


def test_a_tensor_on_a_device_is_refused(emulator):
    with pytest.raises(ValueError, match="on the host; a tensor is on cuda"):
        graph.capture(lambda x: x + lab.ones(2, device="cuda"), lab.ones(2, device="cuda"))
    with pytest.raises(ValueError, match="on the host; a tensor is on cuda"):
        graph.capture(lambda x: x, lab.ones(2, device="cuda"))
