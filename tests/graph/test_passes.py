"""Every pass keeps every result, on random networks and random programs."""

import random

import pytest
import torch

from labkit import graph
from tests.graph.programs import Network, inputs, poisoned, program
from tests.seeds import seeds

PASSES = (
    graph.functionalise, graph.remove_dead, graph.share_common, graph.fold_batch_norm,
    graph.use_shelf_kernels, graph.fuse_pointwise, graph.reinplace,
)  # fmt: skip


def shuffled(seed):
    return random.Random(seed).sample(PASSES, len(PASSES))


@pytest.mark.parametrize("first", seeds(0, *range(100, 1000, 100)))
@pytest.mark.parametrize("in_place", [False, True])
def test_random_programs_keep_their_results_in_any_order_of_passes(first, in_place):
    rewrites = {one: 0 for one in PASSES}
    for seed in range(first, first + 10):
        before = graph.capture(program(seed, in_place=in_place), *inputs(seed))
        after = before
        for one in shuffled(seed):
            rewrite = one(after)
            rewrites[one] += len(rewrite.done)
            after = rewrite.graph
            assert graph.largest_difference(before, after, *inputs(seed + 1)) < 1e-12, (
                f"seed {seed}, {one.__name__}:\n{rewrite}"
            )
    assert rewrites[graph.fuse_pointwise] > 1
    assert rewrites[graph.reinplace] > 2
    assert rewrites[graph.share_common] + rewrites[graph.functionalise] > 2


@pytest.mark.parametrize("first", seeds(0, *range(100, 500, 100)))
def test_random_networks_keep_their_results(first):
    folded = 0
    for seed in range(first, first + 6):
        network = poisoned(Network(seed), seed)
        before = graph.capture(network, torch.randn(2, 4, 5, 5))
        kept = {name: value.clone() for name, value in network.state_dict().items()}
        after = before
        for one in shuffled(seed):
            rewrite = one(after)
            folded += sum("weights of" in line for line in rewrite.done)
            after = rewrite.graph
        x = torch.randn(2, 4, 5, 5)
        with torch.no_grad():
            wide = network.double()(x.double()).abs().max()
        network.float()
        far = graph.largest_difference(before, after, x)
        assert far < 1e-6 * max(1, float(wide)), seed  # folded weights are rounded to float32
        assert all(torch.equal(kept[name], value) for name, value in network.state_dict().items())
    assert folded > 2


def test_a_graph_reads_the_tensors_of_the_module_and_keeps_its_names():
    network = Network(0).eval()
    captured = graph.capture(network, torch.randn(1, 4, 5, 5))
    names = {node.name for node in captured.graph.find_nodes(op="get_attr")}
    assert {"layers_0_weight", "layers_1_running_mean", "last_bias"} <= names
    assert captured.last_bias is network.last.bias
    assert [node.name for node in captured.graph.find_nodes(op="placeholder")] == ["x"]


def test_parameters_of_a_function_may_keep_their_defaults():
    captured = graph.capture(lambda x, y, twice=False: x + y if twice else x * y, *inputs(0)[:2])
    names = [node.name for node in captured.graph.nodes]
    assert names == ["x", "y", "mul", "output"]


def test_a_pass_leaves_the_graph_it_was_given():
    before = graph.capture(program(3), *inputs(3))
    text = before.code
    for one in PASSES:
        one(before)
    assert before.code == text
