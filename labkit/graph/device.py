"""`run_on_device`: a graph on labkit's emulator, one launch after the other, each counted.

Convolutions, norms and matrix products run the kernels of `kernels/`, element-wise operators the
kernels that `labkit.graph.codegen` writes. Views move nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.module import RawKernel, RawModule
from labkit.cuda.report import Report
from labkit.cuda.source import KERNELS
from labkit.cuda.structures import Conv2d
from labkit.cuda.trace import Trace
from labkit.graph.codegen import THREADS, PointwiseKernel, why_not_pointwise
from labkit.graph.pointwise import single
from labkit.graph.storages import operator_name, shared

SECTOR = 32  # bytes
EPILOGUE, CONV = "conv_bn_relu/3_epilogue", "conv2d/3_implicit_gemm"
NORM, PRODUCT = "batch_norm_inference/2_per_plane", "sgemm/2_tiled"
BIAS = "conv_bn_relu/1_three_passes"  # its first kernel adds a bias per channel


@dataclass(frozen=True)
class DeviceLaunch:
    """One launch: the node it was for, its kernel, and the bytes its warps moved."""

    node: str
    kernel: str
    bytes_moved: int


@dataclass
class DeviceRun:
    """What a graph returned, and what it took."""

    result: Any = None
    launches: list[DeviceLaunch] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    @property
    def bytes_moved(self) -> int:
        """Of all launches together."""
        return sum(launch.bytes_moved for launch in self.launches)

    def __repr__(self) -> str:
        return f"DeviceRun({len(self.launches)} launches, {self.bytes_moved:,} bytes moved)"


def run_on_device(
    graph: GraphModule, *inputs: torch.Tensor, driver: EmulatorDriver | None = None
) -> DeviceRun:
    """The graph has run on the emulator; what is not element-wise in float32 only.

    Bytes are 32 for each sector that a warp asked for: nothing comes from a cache.

    Raises   NotImplementedError   an operator without a kernel here
    """
    device = _Device(graph, driver or EmulatorDriver(capacity=1 << 28, why="to count launches"))
    with torch.no_grad():
        device.counted.result = device.run(*inputs)
    return device.counted


class _Device(Interpreter):  # type: ignore[misc]
    """Launches a kernel for each call; arrays travel to the device and back at each launch."""

    def __init__(self, graph: GraphModule, driver: EmulatorDriver) -> None:
        super().__init__(graph)
        self.driver, self.counted = driver, DeviceRun()
        self.node: Node | None = None

    def run_node(self, n: Node) -> Any:
        """The node's value."""
        self.node = n
        if n.op == "call_module":
            fused = self.submodules[str(n.target)]
            assert isinstance(fused, PointwiseKernel)
            return self.generated(fused, [self.env[one] for one in n.all_input_nodes])
        if n.op != "call_function" or shared(n):
            return super().run_node(n)
        if why_not_pointwise(n) is None:
            return self.generated(single(n), [self.env[one] for one in n.all_input_nodes])
        kernel = _KERNELS.get(operator_name(n))
        if kernel is None:
            raise NotImplementedError(f"{n.target} has no kernel here: {', '.join(_KERNELS)} have")
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return kernel(self, *args, **kwargs)

    def empty(self) -> torch.Tensor:
        """Memory for the value of the node that is running."""
        assert self.node is not None
        return _poisoned(self.node)

    def launch(self, path: str, args: Sequence[Any], **geometry: int) -> None:
        """A launch of a file of `kernels/`; its header turns sizes into grid and block."""
        module = RawModule(path=KERNELS / f"{path}.cu", driver=self.driver)
        kernel = module.get_function(path.replace("/", "_"))
        self._count(kernel, *kernel.geometry(**geometry), args)

    def generated(self, kernel: PointwiseKernel, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """A launch of a kernel written for the graph."""
        out = _poisoned(kernel.result)
        module = RawModule(kernel.source, driver=self.driver)
        grid = max(1, -(-out.numel() // THREADS))
        function = module.get_function(kernel.name)
        self._count(function, grid, THREADS, (*inputs, out, out.numel()))
        return out

    def _count(self, kernel: RawKernel, grid: Any, block: Any, args: Sequence[Any]) -> None:
        report = kernel(grid, block, tuple(args), trace=Trace(races=False))
        assert self.node is not None
        moved = SECTOR * report.total("sectors", space="global")
        self.counted.launches.append(DeviceLaunch(self.node.name, kernel.name, moved))
        self.counted.reports.append(report)


def _poisoned(node: Node) -> torch.Tensor:
    """Memory for the node's value, as its kernel finds it: full of NaN."""
    like = node.meta["val"]
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype).fill_(torch.nan)


def _conv2d(
    device: _Device, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None,
    stride: Sequence[int] = (1, 1), padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1), groups: int = 1,
) -> torch.Tensor:  # fmt: skip
    geometry = (stride, padding, dilation, groups)
    return _convolution(device, CONV, x, weight, (bias,), *geometry)


def _conv_bn_relu(
    device: _Device, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    norm: Sequence[Any], epsilon: float, *geometry: Any,
) -> torch.Tensor:  # fmt: skip
    return _convolution(device, EPILOGUE, x, weight, (bias, *norm, epsilon), *geometry)


def _convolution(
    device: _Device, path: str, x: torch.Tensor, weight: torch.Tensor, more: Sequence[Any],
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int,
) -> torch.Tensor:  # fmt: skip
    y = device.empty()
    filters = weight.shape[0]
    sizes = Conv2d(
        *x.shape, filters, *y.shape[2:], *weight.shape[2:], *stride, *padding, *dilation, groups
    )
    device.launch(path, (x, weight, *more, y, sizes), **sizes.letters)
    return y


def _batch_norm(
    device: _Device, x: torch.Tensor, gamma: Any, beta: Any, mean: Any, variance: Any,
    training: bool, momentum: float, epsilon: float, cudnn: bool,
) -> torch.Tensor:  # fmt: skip
    if training:
        raise NotImplementedError("a batch norm in training has no kernel here")
    y, (n, channels) = device.empty(), x.shape[:2]
    sizes = (n, channels, x.numel() // (n * channels))
    args = (x, gamma, beta, mean, variance, y, *sizes, epsilon)
    device.launch(NORM, args, grid=n * channels, block=64)
    return y


def _linear(
    device: _Device, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """The weight is laid out for the kernel beforehand; the bias is a launch of its own."""
    y, columns = device.empty(), weight.shape[0]
    rows, depth = x.numel() // x.shape[-1], x.shape[-1]
    turned = weight.t().contiguous()
    device.launch(PRODUCT, (x.contiguous(), turned, y, rows, columns, depth), M=rows, N=columns)
    if bias is None:
        return y
    out, n = device.empty(), y.numel()
    device.launch(BIAS, (y, bias, out, columns, 1, n), N=rows, K=columns, P=1, Q=1)
    return out


_KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "conv2d": _conv2d, "conv_bn_relu": _conv_bn_relu, "batch_norm": _batch_norm, "linear": _linear,
}  # fmt: skip
