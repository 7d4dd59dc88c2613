"""The plan gives every value a place of its own while it is needed, near the lower bound."""

import pytest
import torch
from torch import nn

from labkit import graph
from labkit.memory.caching_allocator import CachingAllocator
from labkit.memory.device import SimulatedDevice
from tests.graph.programs import Network, inputs, program
from tests.vision import peers

MIB = 1 << 20


def test_no_two_buffers_overlap_while_both_are_needed():
    for seed in range(20):
        plan = graph.plan_memory(graph.capture(program(seed, in_place=True), *inputs(seed)))
        for one in plan.buffers:
            for other in plan.buffers:
                if one is not other and one.meets(other):
                    assert one.end <= other.offset or other.end <= one.offset, seed
        assert plan.lower_bound <= plan.peak <= plan.total


def test_lifetimes_end_at_the_last_read_of_any_view():
    def run(x):
        y = x.exp()
        view = y.t()
        z = x + 1
        return z * view

    plan = graph.plan_memory(graph.capture(run, torch.ones(4, 4)))
    assert plan.steps == ("x", "exp", "t", "add", "mul", "output")
    assert [(one.name, one.born, one.dies) for one in plan.buffers] == [
        ("exp", 1, 4), ("add", 3, 4), ("mul", 4, 5),
    ]  # fmt: skip
    assert [sum(needed.values()) for needed in plan.needed().values()] == [0, 64, 64, 128, 192, 64]
    assert plan.needed()["mul"] == {"exp": 64, "add": 64, "mul": 64}
    assert (plan.total, plan.lower_bound, plan.peak) == (192, 192, 192)


def test_writing_in_place_needs_less():
    before = graph.capture(lambda x: x.exp().sin().relu().sigmoid(), torch.ones(256))
    after = graph.reinplace(before).graph
    assert graph.plan_memory(before).lower_bound == 2048
    assert graph.plan_memory(after).lower_bound == 1024


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(3 if i == 0 else width, width, 3, padding=1) for i in range(5)
        )
        self.narrow = nn.Conv2d(width, width // 2, 1)

    def forward(self, x):
        x = self.convs[0](x).relu()
        for first, second in (self.convs[1:3], self.convs[3:5]):
            x = (x + second(first(x).relu())).relu()
        return self.narrow(x)


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (Residual(16), (1, 3, 64, 64)),
        (Network(1).eval(), (2, 4, 96, 96)),
        (peers.resnet18(1 / 4, 10).eval(), (1, 3, 64, 64)),
        (peers.efficientnet_b0(1 / 4, 10).eval(), (1, 3, 64, 64)),
    ],
    ids=["residual", "chain", "resnet18", "efficientnet_b0"],
)
def test_the_peak_is_within_five_percent_of_the_bound(network, shape):
    captured = graph.capture(network, torch.randn(shape))
    in_place = graph.reinplace(graph.functionalise(captured).graph).graph
    for one in (captured, in_place, graph.fuse(captured)):
        plan = graph.plan_memory(one)
        assert plan.peak <= 1.05 * plan.lower_bound


def test_the_allocator_holds_at_least_the_bound():
    captured = graph.capture(Residual(16), torch.randn(1, 3, 128, 128))
    plan = graph.plan_memory(captured)
    allocator = CachingAllocator(SimulatedDevice(512 * MIB))
    assert plan.replay(allocator) >= plan.peak
    assert allocator.allocated_bytes == 0
