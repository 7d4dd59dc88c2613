"""What torch.compile makes of programs and networks, beside labkit: what `Differs` says is so."""

import pytest
import torch
from torch._inductor import metrics

import labkit as lab
from labkit import graph, vision
from labkit.graph.inductor import planned_by_torch_compile


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


NETWORKS = {
    "resnet18": (vision.ResNet, 39, 31),
    "efficientnet_b0": (vision.EfficientNet, 156, 189),
}
"""Kernels that torch.compile plans, and launches of labkit's fused graph."""


@pytest.mark.parametrize(
    "name", ["resnet18", pytest.param("efficientnet_b0", marks=pytest.mark.full)]
)
def test_a_network_s_kernels_and_bytes_beside_torch_compile(name, emulator):
    """One kernel for convolution, norm and ReLU is fewer than theirs; theirs fuse sums and means
    with what is before them, and broadcasts with what is behind.
    """
    make, theirs, ours = NETWORKS[name]
    lab.manual_seed(1)
    network, x = make(1 / 16, 5).eval(), lab.randn(1, 3, 32, 32)
    captured, image = graph.capture(network, x), torch.from_dlpack(x)
    planned = planned_by_torch_compile(captured, image)
    fused = graph.run_on_device(graph.fuse(captured), image, driver=emulator)
    plain = graph.run_on_device(captured, image, driver=emulator)
    assert (len(planned), len(fused.launches)) == (theirs, ours)
    layers = sum(node.target is torch.ops.aten.conv2d.default for node in captured.graph.nodes)
    linear = sum(node.target is torch.ops.aten.linear.default for node in captured.graph.nodes)
    assert sum(one.is_library for one in planned) in range(layers, layers + linear + 1)
    theirs_bytes = sum(one.tensor_bytes for one in planned)
    assert theirs_bytes < plain.tensor_bytes
    assert fused.tensor_bytes < plain.tensor_bytes
    assert 0.8 < fused.tensor_bytes / theirs_bytes < 1.1
    if name == "efficientnet_b0":
        assert any(len(one.operators) > 1 and "mean" in one.operators for one in planned)


def test_what_torch_compile_cannot_plan_is_its_own_error():
    broken = graph.capture(lambda x: x + 1, torch.ones(3))
    with pytest.raises(TypeError):
        planned_by_torch_compile(broken)
