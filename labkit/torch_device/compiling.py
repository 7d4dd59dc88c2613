"""`torch.compile(model, backend=torch.lab.compiler)`: fewer kernels, where element-wise ones meet.

Dynamo captures and AOTAutograd differentiates, as for every backend; labkit's `fuse_pointwise`
writes one kernel for operators that feed each other. All else runs as it does without a compiler.

Source   torch/_inductor/compile_fx.py  compile_fx
Differs  sizes are written into kernels, so a graph with symbolic sizes is run as it is
"""

from collections.abc import Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from labkit.cuda.arguments import DevicePointer
from labkit.cuda.module import RawModule
from labkit.graph import fuse_pointwise
from labkit.graph.codegen import THREADS, PointwiseKernel
from labkit.torch_device.twins import NAME
from labkit.torch_shim.devices import Devices


def compile_graph(graph: GraphModule, inputs: Sequence[Any], devices: Devices) -> Any:
    """What dynamo calls in the graph's place, forward and backward."""

    def compile_one(half: GraphModule, _: Sequence[Any]) -> Any:
        return make_boxed_func(_fused(half, devices))

    return aot_autograd(fw_compiler=compile_one)(graph, inputs)


def _fused(graph: GraphModule, devices: Devices) -> Any:
    """The graph, with kernels of its own on the device."""
    values = [node.meta.get("val") for node in graph.graph.nodes]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if any(isinstance(size, torch.SymInt) for each in tensors for size in each.shape):
        return graph
    fused = fuse_pointwise(graph).graph
    for name, kernel in fused.named_children():
        if isinstance(kernel, PointwiseKernel) and _is_ours(kernel):
            setattr(fused, name, Launched(kernel, devices))
    return fused


def _is_ours(kernel: PointwiseKernel) -> bool:
    reads = kernel.inside.graph.find_nodes(op="placeholder")
    return all(node.meta["val"].device.type == NAME for node in (*reads, kernel.result))


class Launched(torch.nn.Module):  # type: ignore[misc]
    """A generated kernel on the device: one launch where there were several."""

    def __init__(self, kernel: PointwiseKernel, devices: Devices) -> None:
        super().__init__()
        self.source, self.name = kernel.source, kernel.name
        self._like, self._devices = kernel.result.meta["val"], devices

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """What the operators make of the inputs."""
        like = self._like
        device = inputs[0].device
        out = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)
        count = out.numel()
        if not count:
            return out
        given = [DevicePointer(each.data_ptr(), each.nbytes) for each in (*inputs, out)]
        with self._devices.serving(device.index) as serving:
            kernel = RawModule(self.source, driver=serving.driver).get_function(self.name)
            kernel(-(-count // THREADS), THREADS, (*given, count))
        return out
