"""An engine for chains of small convolutions, in the widest vectors of this machine.

    better = simd(network, frames)      # built once on a machine, in a few seconds
    better(frames)

Convolutions with few channels leave most lanes of a processor idle where a vector holds channels.
Here a vector holds neighbouring columns, and a strip of rows goes through all layers while it is in
the cache. One thread computes.
"""

import ctypes
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labkit.core import host_compiler
from labkit.core.host_compiler import CompilerMissing
from labkit.pipeline.engines import EngineMissing, Run
from labkit.pipeline.graph_runner import recorded

SOURCE = Path(__file__).with_name("layers.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++17")
GROUP = 8
"""Channels of a result whose weights stand together, as in `layers.cpp`."""
CONVOLUTION, RELU, ADD = range(3)
PADDED_BY_ONE = [[1, 1], [1, 1], [1, 1], False, [0, 0], 1]
"""Stride, padding, dilation, not transposed, no output padding, one group."""
WORK_BYTES = 1 << 20
"""About as much as a core's own cache holds: a strip's planes stay in it."""
LEAST_STRIP = 8


@dataclass(frozen=True)
class Step:
    """One layer: planes are numbered, 0 is the input.

    halo  rows above and below a strip that later layers need of its result
    """

    kind: int
    first: int
    second: int
    result: int
    channels: tuple[int, int]
    weight: Tensor | None = None
    bias: Tensor | None = None
    relu: bool = False
    halo: int = 0


class _Step(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int) for name in ("kind", "first", "second", "result", "channels_in",
                                            "channels_out", "relu", "halo")),
        ("weights", ctypes.c_void_p), ("bias", ctypes.c_void_p),
    ]  # fmt: skip


def simd(model: nn.Module, sample: Tensor) -> Run:
    """The model's 3 x 3 convolutions, ReLUs and sums of equal shapes, on float32 frames.

    Raises   EngineMissing   there is no C++ compiler, or the model has something else
    """
    if sample.device.type != "cpu" or sample.dtype != torch.float32 or sample.dim() != 4:
        raise EngineMissing("simd: frames [N, C, H, W] of float32 on the CPU")
    try:
        library = _library()
    except CompilerMissing as missing:
        raise EngineMissing(f"simd: {missing}") from None
    return _Chain(library, steps_of(model, sample), sample.shape[1])


def lanes() -> int:
    """Floats in a vector of this machine, as the engine's compiler sees it."""
    count: int = _library().lanes()
    return count


def steps_of(model: nn.Module, sample: Tensor) -> tuple[Step, ...]:
    """The layers of a model, with ReLUs in the convolutions in front of them.

    Raises   EngineMissing   one is not a 3 x 3 convolution, a ReLU or a sum of equal shapes
    """
    with torch.inference_mode(False), torch.no_grad():  # else composite operators stay whole
        graph, result = recorded(model, sample)
    planes, steps = {id(sample): 0}, list[Step]()
    for operator, args, kwargs, made in graph.steps:
        step = _step(operator.name(), args, kwargs, made, planes)
        planes[id(made)] = step.result
        steps.append(step)
    if not steps or planes.get(id(result)) != steps[-1].result:
        raise EngineMissing("simd: the model's result is not its last layer's")
    return _with_halos(_fused(steps))


def _step(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any, planes: dict[int, int]
) -> Step:
    operands = [planes[id(one)] for one in args if id(one) in planes]
    channels = (args[0].shape[1], made.shape[1]) if operands else (0, 0)
    number = len(planes)
    if name == "aten::convolution" and operands and not kwargs:
        _, weight, bias, *rest = args
        if weight.shape[2:] == (3, 3) and rest == PADDED_BY_ONE:
            own = None if bias is None else bias.detach().clone()
            return Step(CONVOLUTION, operands[0], 0, number, channels, _grouped(weight), own)
    if name == "aten::relu" and operands:
        return Step(RELU, operands[0], 0, number, channels)
    if (
        name == "aten::add.Tensor" and len(operands) == len(args) == 2 and not kwargs
        and args[0].shape == args[1].shape
    ):  # fmt: skip
        first, second = operands
        return Step(ADD, first, second, number, channels)
    raise EngineMissing(f"simd: there is no kernel for this use of {name}")


def _grouped(weight: Tensor) -> Tensor:
    """[out, in, 3, 3] as [group][in, 3, 3, the group's channels], flat."""
    groups = weight.detach().split(GROUP)
    return torch.cat([group.permute(1, 2, 3, 0).flatten() for group in groups])


def _fused(steps: list[Step]) -> list[Step]:
    """A ReLU of a convolution's result that nothing else reads is part of the convolution."""
    found = list[Step]()
    for step in steps:
        before = found[-1] if found else None
        readers = sum((one.first, one.second)[: 1 + (one.kind == ADD)].count(step.first)
                      for one in steps)  # fmt: skip
        if (
            before and step.kind == RELU and before.kind == CONVOLUTION
            and before.result == step.first and readers == 1
        ):  # fmt: skip
            found[-1] = replace(before, relu=True, result=step.result)
        else:
            found.append(step)
    return found


def _with_halos(steps: list[Step]) -> tuple[Step, ...]:
    needed = {steps[-1].result: 0}
    found = list[Step]()
    for step in reversed(steps):
        halo = needed.get(step.result, 0)
        found.append(replace(step, halo=halo))
        looks = halo + (step.kind == CONVOLUTION)
        for plane in (step.first, step.second) if step.kind == ADD else (step.first,):
            needed[plane] = max(needed.get(plane, 0), looks)
    return tuple(reversed(found))


class _Chain:
    """The steps, with all that C++ reads of them."""

    def __init__(self, library: ctypes.CDLL, steps: tuple[Step, ...], channels: int) -> None:
        self.library, self.steps, self.channels = library, steps, channels
        self.halo = max(step.halo + (step.kind == CONVOLUTION) for step in steps)
        self.table = (_Step * len(steps))(*map(_in_c, steps))
        planes = {0: channels} | {step.result: step.channels[1] for step in steps}
        first, begins = 0, [0] * (max(planes) + 1)
        for number, count in planes.items():
            begins[number], first = first, first + count
        self.begins, self.rows = (ctypes.c_int * len(begins))(*begins), first

    def __call__(self, x: Tensor) -> Tensor:
        """The model's result for frames [N, C, H, W] of any size."""
        count, channels, height, width = x.shape
        if channels != self.channels:
            raise ValueError(f"the engine is for {self.channels} channels, got {channels}")
        as_x = torch.channels_last if x.stride(1) == 1 else torch.contiguous_format
        shape = count, self.steps[-1].channels[1], height, width
        result = torch.empty(shape, memory_format=as_x)
        pitch = self.library.pitch_of(width)
        strip = min(height, max(LEAST_STRIP, WORK_BYTES // (4 * pitch * self.rows)))
        work = torch.empty(self.rows * (strip + 2 * self.halo) * pitch)
        strides, to = ((ctypes.c_long * 3)(*one.stride()[1:]) for one in (x, result))
        for frame, better in zip(x, result, strict=True):
            self.library.run(
                self.table, len(self.steps), self.begins, ctypes.c_void_p(frame.data_ptr()),
                strides, channels, ctypes.c_void_p(better.data_ptr()), to, ctypes.c_long(height),
                ctypes.c_long(width), ctypes.c_void_p(work.data_ptr()), ctypes.c_long(strip),
                ctypes.c_long(self.halo),
            )  # fmt: skip
        return result


def _in_c(step: Step) -> _Step:
    weights, bias = (None if one is None else one.data_ptr() for one in (step.weight, step.bias))
    return _Step(step.kind, step.first, step.second, step.result, *step.channels, step.relu,
                 step.halo, weights, bias)  # fmt: skip


@cache
def _library() -> ctypes.CDLL:
    source = SOURCE.read_text(encoding="utf-8")
    library = host_compiler.load_library(
        lambda: host_compiler.shared_library("simd-layers", source, "c++", FLAGS)
    )
    library.pitch_of.restype, library.pitch_of.argtypes = ctypes.c_long, [ctypes.c_long]
    library.run.restype = None
    return library
