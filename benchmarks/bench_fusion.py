"""Whole networks on the emulator: launches and bytes of the fused graph, beside the plain one's and
beside what torch.compile plans for the same graph.

Bytes between launches count every tensor once for each launch that reads or writes it. Once
torch.compile is asked to leave layouts alone, as labkit does, and once it may choose them.
"""

from collections.abc import Iterator

import torch

import labkit as lab
from labkit import graph, vision
from labkit.bench import Count
from labkit.graph.inductor import planned_by_torch_compile

NETWORKS = {"ResNet-18": vision.ResNet, "EfficientNet-B0": vision.EfficientNet}
WIDTH, SIZE = 1 / 8, 64
ANY = float("inf")


def BENCHES() -> Iterator[Count]:
    """The questions of `labkit bench fusion`."""
    for name, make in NETWORKS.items():
        lab.manual_seed(0)
        network, x = make(WIDTH, 10), lab.randn(1, 3, SIZE, SIZE)
        network(lab.randn(4, 3, SIZE, SIZE))  # the norms have seen images
        captured, image = graph.capture(network.eval(), x), torch.from_dlpack(x)
        plain = graph.run_on_device(captured, image)
        fused = graph.run_on_device(graph.fuse(captured), image)
        torch.testing.assert_close(fused.result, plain.result, rtol=1e-4, atol=1e-5)

        def ask(what: str, mine: float, other: float, goal: float = ANY, name: str = name) -> Count:
            return Count(f"{name} at 1/8 width: {what}", lambda: mine, lambda: other, goal)

        yield ask("launches, fused / plain", len(fused.launches), len(plain.launches), 0.8)
        yield ask(
            "bytes that warps asked for, fused / plain", fused.bytes_moved, plain.bytes_moved, 0.9
        )
        yield ask(
            "bytes between launches, fused / plain", fused.tensor_bytes, plain.tensor_bytes, 0.8
        )
        for more, layouts in ("", False), (", layouts its own", True):
            planned = planned_by_torch_compile(captured, image, layouts=layouts)
            moved = sum(one.tensor_bytes for one in planned)
            yield ask(f"launches, fused / torch.compile{more}", len(fused.launches), len(planned))
            yield ask(
                f"bytes between launches, fused / torch.compile{more}", fused.tensor_bytes, moved
            )
