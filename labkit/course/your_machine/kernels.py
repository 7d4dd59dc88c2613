"""Seats of the kernels: the optimizer's step, a convolution and its gradients, as CUDA texts."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core import tensor_impl
from labkit.core.memory_format import contiguous_strides
from labkit.core.tensor_impl import TensorImpl, VersionCounter
from labkit.course.benches.conv_bench import CONV
from labkit.course.your_machine.engine import close
from labkit.course.your_machine.seat import Ask, Differs, Place, Seat
from labkit.ops.cuda.launching import blocks, read, written
from labkit.ops.tensors import copy

BLOCK = 64
SECONDS = 5.0
"""Of CPU, after which a part's kernel is ended."""
QUIET_NAN, PAYLOAD = 0x7FC00000, 0x3FFFFF
FENCE = 4096
"""Numbers behind each result: NaN of which no other memory has the bits, so that a kernel that
writes there is seen, whatever it writes."""
_made = itertools.count(1)


def launched(
    ask: Ask,
    made: TensorImpl,
    code: str,
    name: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: tuple[Any, ...],
    options: tuple[str, ...] = (),
) -> None:
    """The kernel of that name in the part's text has run.

    made  what it writes, from `empty`

    Raises   CudaError   it does not compile, or something went wrong in it
             Differs     it wrote behind its result
    """
    from labkit import cuda

    known = vars(ask).setdefault("kernels", {})
    if (code, name) not in known:
        names = (name,) if "<" in name else ()
        module = cuda.RawModule(code=code, options=options, name_expressions=names)
        known[code, name] = module.get_function(name)
    known[code, name](tuple(grid), tuple(block), args, timeout_s=SECONDS)
    cuda.current_driver().synchronize()
    count = made.numel()
    behind = copy.values(made.alias((FENCE,), (1,), count)).view(np.uint32)
    if places := np.flatnonzero(behind != behind[-1]).tolist():
        raise Differs(f"a number at place {count + places[0]}", f"{count} numbers")


def _each(
    ask: Ask, made: TensorImpl, code: str, name: str, count: int, args: tuple[Any, ...]
) -> None:
    """One thread per element has run."""
    launched(ask, made, code, name, (blocks(count, BLOCK),), (BLOCK,), args)


def empty(sizes: Any, like: TensorImpl) -> TensorImpl:
    """A tensor that holds NaN, so that an element nobody writes is seen, in front of a fence."""
    room = tensor_impl.empty((math.prod(sizes) + FENCE,), like.dtype, like.device)
    bits = QUIET_NAN | next(_made) & PAYLOAD
    copy.store(room, np.full(room.sizes, bits, np.uint32).view(np.float32))
    made = room.alias(tuple(sizes), contiguous_strides(tuple(sizes)), 0)
    return made.shallow_copy_and_detach(VersionCounter())  # nobody's view


def stored(value: TensorImpl, into: TensorImpl) -> None:
    """The tensor holds these numbers."""
    copy.copy_(into, value)


# -- saxpy


def _is_packed(parameter: TensorImpl, grad: TensorImpl, lr: float) -> bool:
    """Whether one loop over float32 numbers on the device does it."""
    return all(
        each.dtype is dtypes.float32 and each.device.type == "cuda" and each.is_contiguous()
        for each in (parameter, grad)
    )


def _step(ask: Ask, parameter: TensorImpl, grad: TensorImpl, lr: float) -> TensorImpl:
    """The parameter after the part's step; the parameter itself stays."""
    stepped = empty(parameter.sizes, parameter)
    copy.copy_(stepped, parameter)
    into = written(stepped)
    args = (read(grad), into, -lr, 0, parameter.numel())
    _each(ask, stepped, ask(), "saxpy<float>", parameter.numel(), args)
    return stepped


def _labkits_step(function: Any, parameter: TensorImpl, grad: Any, lr: float) -> TensorImpl:
    from labkit._tensor import Tensor

    stepped = Tensor(copy.clone(parameter))
    function(stepped, grad, lr)
    return stepped


# -- convolutions


def _output(
    ask: Ask, x: TensorImpl, w: TensorImpl, bias: TensorImpl | None, y: TensorImpl, sizes: Any
) -> TensorImpl:
    """What the part's kernel computes, and the bias added to it."""
    out = empty(y.sizes, y)
    into = written(out)
    code = f"{CONV}\n{ask()}"
    _each(ask, out, code, "conv2d", out.numel(), (read(x), read(w), into, sizes))
    if bias is not None:
        copy.store(out, copy.values(out) + copy.values(bias).reshape(-1, 1, 1))
    return out


def _labkits_output(function: Any, x: Any, w: Any, bias: Any, y: Any, sizes: Any) -> TensorImpl:
    out = empty(y.sizes, y)
    function(x, w, bias, out, sizes)
    return out


def _gradient(ask: Ask, kernel: str, shape: Any, inputs: Any, sizes: Any) -> TensorImpl:
    """What one of the part's three kernels computes."""
    out = empty(shape, inputs[0])
    into = written(out)
    args = (*(read(each) for each in inputs), into, sizes)
    _each(ask, out, f"{CONV}\n{ask()}", kernel, math.prod(shape), args)
    return out


SEATS = (
    Seat(
        "first_kernel.saxpy",
        "the SGD step",
        "kernels",
        "The parameter moves against its gradient: y = a * x + y, with a = -lr.",
        "torch/optim/sgd.py  _single_tensor_sgd",
        (
            Place(
                "labkit.optim.sgd.descend",
                _step,
                right=_labkits_step,
                same=lambda mine, right, *args: close(mine, right),
                commit=lambda value, parameter, *rest: stored(value, parameter),
                covers=_is_packed,
            ),
        ),
    ),
    Seat(
        "convolution_repair.repair_the_conv",
        "the convolution",
        "kernels",
        "Each output is the sum over the taps of a filter, whatever the stride and the padding.",
        "aten/src/ATen/native/ConvolutionMM2d.cpp  slow_conv2d_forward_cpu",
        (
            Place(
                "labkit.ops.cuda.convolution._output",
                _output,
                right=_labkits_output,
                same=lambda mine, right, *args: close(mine, right),
                commit=lambda value, x, w, bias, y, sizes: stored(value, y),
            ),
        ),
    ),
    Seat(
        "train_your_kernel.conv_backward",
        "convolution's gradients",
        "kernels",
        "From the gradient of a convolution come those of its input, its weights and its bias.",
        "aten/src/ATen/native/ConvolutionMM2d.cpp  slow_conv2d_backward_cpu",
        (
            Place(
                "labkit.ops.cuda.convolution._input_gradient",
                lambda ask, dy, w, x, sizes: _gradient(
                    ask, "backward_input", x.sizes, (dy, w), sizes
                ),
                same=lambda mine, right, *args: close(mine, right),
            ),
            Place(
                "labkit.ops.cuda.convolution._weight_gradient",
                lambda ask, x, dy, w, sizes: _gradient(
                    ask, "backward_weight", w.sizes, (x, dy), sizes
                ),
                same=lambda mine, right, *args: close(mine, right),
            ),
            Place(
                "labkit.ops.cuda.convolution._bias_gradient",
                lambda ask, dy, sizes: _gradient(
                    ask, "backward_bias", (sizes.out_channels,), (dy,), sizes
                ),
                same=lambda mine, right, *args: close(mine, right),
            ),
        ),
    ),
)
