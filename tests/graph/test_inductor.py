"""How many kernels torch.compile makes of a program, beside labkit: what `Differs` says is so."""

import pytest
import torch
from torch._inductor import metrics

from labkit import graph


def one_chain(a, row):
    return ((a * row).sigmoid() + a * 2 - row).abs()


def a_result_in_the_middle(a, row):
    y = (a * 2).exp()
    return y.sin().cos(), y


def a_cheap_broadcast(a, row):
    return (a + row * 3) * 2


def a_dear_broadcast(a, row):
    return (a + row.exp()) * 2


def launches(program, *inputs):
    """Kernels of labkit's fused graph: those written, and the element-wise operators left."""
    fused = graph.fuse_pointwise(graph.capture(program, *inputs)).graph.graph
    return sum(node.op in ("call_module", "call_function") for node in fused.nodes)


@pytest.mark.parametrize(
    ("program", "theirs", "ours"),
    [
        (a_result_in_the_middle, 1, 2),
        pytest.param(one_chain, 1, 1, marks=pytest.mark.full),
        pytest.param(a_cheap_broadcast, 1, 2, marks=pytest.mark.full),
        pytest.param(a_dear_broadcast, 2, 2, marks=pytest.mark.full),
    ],
)
def test_kernels_beside_torch_compile(program, theirs, ours):
    inputs = torch.randn(64, 64), torch.randn(64)
    torch.compiler.reset()
    metrics.reset()
    with torch.no_grad():
        torch.compile(program)(*inputs)
    assert (metrics.generated_kernel_count, launches(program, *inputs)) == (theirs, ours)
