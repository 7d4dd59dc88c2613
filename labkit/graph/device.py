"""`run_on_device`: a graph on labkit's emulator, one launch after the other, each counted.

Convolutions, norms, pooling and matrix products run the kernels of `kernels/`, sums and means those
that `labkit.ops.cuda.reduction` writes, element-wise operators those of `labkit.graph.codegen`.
Views move nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from labkit.core.strides import storage_nbytes
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.module import RawKernel, RawModule
from labkit.cuda.report import Report
from labkit.cuda.source import KERNELS
from labkit.cuda.structures import Axis, Conv2d, Pool
from labkit.cuda.trace import Trace
from labkit.graph.codegen import THREADS, TYPES, PointwiseKernel, why_not_pointwise
from labkit.graph.pointwise import single
from labkit.graph.storages import operator_name, shared
from labkit.ops.cuda.reduction import folding
from labkit.ops.cuda.reduction_source import THREADS as FOLDING_THREADS

SECTOR = 32  # bytes
EPILOGUE, CONV = "conv_bn_relu/3_epilogue", "conv2d/3_implicit_gemm"
DEPTHWISE, MAX_POOL = "depthwise_conv2d/3_rows_in_registers", "max_pool2d/1_thread_per_output"
NORM = "batch_norm_inference/2_per_plane"


@dataclass(frozen=True)
class DeviceLaunch:
    """One launch: the node it was for, its kernel, and what it moved.

    bytes_moved   32 for each sector that a warp asked for
    tensor_bytes  of every tensor that it reads or writes, once: no kernel between the same tensors
                  moves less
    """

    node: str
    kernel: str
    bytes_moved: int
    tensor_bytes: int


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

    @property
    def tensor_bytes(self) -> int:
        """Of all launches together, as a compiler estimates them before anything runs."""
        return sum(launch.tensor_bytes for launch in self.launches)

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
        if n.op != "call_function":
            return super().run_node(n)
        if shared(n):
            return self.view(n)
        if why_not_pointwise(n) is None:
            return self.generated(single(n), [self.env[one] for one in n.all_input_nodes])
        kernel = _KERNELS.get(operator_name(n))
        if kernel is None:
            raise NotImplementedError(f"{n.target} has no kernel here: {', '.join(_KERNELS)} have")
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return kernel(self, *args, **kwargs)

    def view(self, n: Node) -> Any:
        """What moves nothing: a view, or a composite operator that hands back its input."""
        result = super().run_node(n)
        parts = result if isinstance(result, list | tuple) else [result]
        known = {self.env[one].untyped_storage().data_ptr() for one in n.all_input_nodes}
        if any(part.untyped_storage().data_ptr() not in known for part in parts):
            raise NotImplementedError(f"{n.target} makes new memory, and has no kernel here")
        return result

    def empty(self) -> torch.Tensor:
        """Memory for the value of the node that is running."""
        assert self.node is not None
        return _poisoned(self.node)

    def launch(self, path: str, args: Sequence[Any], **geometry: int) -> None:
        """A launch of a file of `kernels/`; its header turns sizes into grid and block."""
        module = RawModule(path=KERNELS / f"{path}.cu", driver=self.driver)
        kernel = module.get_function(path.replace("/", "_"))
        self.count(kernel, *kernel.geometry(**geometry), args)

    def generated(self, kernel: PointwiseKernel, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """A launch of a kernel written for the graph."""
        out = _poisoned(kernel.result)
        module = RawModule(kernel.source, driver=self.driver)
        grid = max(1, -(-out.numel() // THREADS))
        function = module.get_function(kernel.name)
        self.count(function, grid, THREADS, (*inputs, out, out.numel()))
        return out

    def count(self, kernel: RawKernel, grid: Any, block: Any, args: Sequence[Any]) -> None:
        """A launch, traced and counted."""
        report = kernel(grid, block, tuple(args), trace=Trace(races=False))
        assert self.node is not None
        moved = SECTOR * report.total("sectors", space="global")
        tensors = {one.data_ptr(): one for one in args if isinstance(one, torch.Tensor)}
        self.counted.launches.append(
            DeviceLaunch(self.node.name, kernel.name, moved, sum(map(_extent, tensors.values())))
        )
        self.counted.reports.append(report)


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from its first element to the end of its last: what is broadcast lies there once."""
    return storage_nbytes(tuple(tensor.shape), tensor.stride(), tensor.element_size())


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
    if path == CONV and sizes.is_depthwise:
        path = DEPTHWISE
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
    return _product(device, CONV, x, weight, (bias,))


def _linear_bn_relu(
    device: _Device, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    norm: Sequence[Any], epsilon: float,
) -> torch.Tensor:  # fmt: skip
    return _product(device, EPILOGUE, x, weight, (bias, *norm, epsilon))


def _product(
    device: _Device, path: str, x: torch.Tensor, weight: torch.Tensor, more: Sequence[Any]
) -> torch.Tensor:
    """A row is an image of one pixel, whose channels are the features."""
    y, (columns, depth) = device.empty(), weight.shape
    sizes = Conv2d(x.numel() // depth, depth, 1, 1, columns, *[1] * 6, 0, 0, 1, 1, 1)
    device.launch(path, (x.contiguous(), weight, *more, y, sizes), **sizes.letters)
    return y


def _max_pool2d(
    device: _Device, x: torch.Tensor, size: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The kernel writes the place of each maximum too, which nobody reads here."""
    y = device.empty()
    planes = y.numel() // (y.shape[-2] * y.shape[-1])
    numbers = [[*each, *each][:2] for each in (size, stride or size, padding, dilation)]
    axes = [Axis(x.shape[d - 2], y.shape[d - 2], *[each[d] for each in numbers]) for d in range(2)]
    places = torch.full(y.shape, -1)
    device.launch(
        MAX_POOL, (x.contiguous(), y, places, Pool(planes, *axes)), grid=-(-y.numel() // 1024),
        block=256,
    )  # fmt: skip
    return y


def _folded(name: str) -> Callable[..., torch.Tensor]:
    """sum.dim_IntList and mean.dim, of any layout."""

    def fold(
        device: _Device, x: torch.Tensor, dims: Sequence[int] | None, keepdim: bool = False,
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor:  # fmt: skip
        y = device.empty()
        if x.dtype not in TYPES or y.dtype not in TYPES:
            raise NotImplementedError(f"{name} of {x.dtype} as {y.dtype} has no kernel here")
        axes = tuple([d % x.dim() for d in dims or range(x.dim())])
        steps = iter(y.stride())
        places = [0 if d in axes and not keepdim else next(steps) for d in range(x.dim())]
        launch = folding(
            name, (TYPES[x.dtype], TYPES[y.dtype]), tuple(x.shape), x.stride(), tuple(places), axes
        )
        kernel = RawModule(launch.text, driver=device.driver).get_function(launch.kernel)
        device.count(kernel, launch.grid, FOLDING_THREADS, (y, x, *launch.numbers))
        return y

    return fold


def _adaptive_avg_pool2d(device: _Device, x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    if [*size] != [1, 1]:
        raise NotImplementedError(f"adaptive_avg_pool2d to {size} has no kernel; to [1, 1] it has")
    return _folded("mean")(device, x, (-2, -1), keepdim=True)


_KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "conv2d": _conv2d, "conv_bn_relu": _conv_bn_relu, "batch_norm": _batch_norm,
    "linear": _linear, "linear_bn_relu": _linear_bn_relu, "max_pool2d": _max_pool2d,
    "sum": _folded("sum"), "mean": _folded("mean"), "adaptive_avg_pool2d": _adaptive_avg_pool2d,
}  # fmt: skip
