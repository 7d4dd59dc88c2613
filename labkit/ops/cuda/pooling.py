"""Max pooling of float32 and halves, average pooling of float32, by the kernels of `kernels/`.

Source   aten/src/ATen/native/cuda/DilatedMaxPool2d.cu, AveragePool2d.cu
"""

import math
from collections.abc import Sequence
from typing import Any

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.convolution import avg_pooling as host
from labkit.ops.convolution.windows import Windows, strides_after, windows_over
from labkit.ops.cuda.launching import (
    STEPS,
    NoKernel,
    blocks,
    check_device,
    check_floats,
    check_floats_or_halves,
    empty,
    read,
    shelf,
    written,
)
from labkit.ops.cuda.layouts import laid_out
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.tensors import copy

PER_BLOCK = 1024  # elements, four to a thread
THREADS = 256

Numbers = Sequence[int]


def _pool(self: TensorImpl, windows: Windows, include_pad: bool = True, divisor: int = 0) -> Any:
    from labkit.cuda.structures import Axis, Pool  # late: see `launching`

    planes = math.prod(self.sizes[:-2])
    if not planes:
        raise NoKernel("its kernel takes at least one plane")
    axes = [
        Axis(
            windows.sizes_in[d], windows.sizes_out[d], windows.size[d], windows.stride[d],
            windows.padding[d], windows.dilation[d],
        )
        for d in range(2)
    ]  # fmt: skip
    return Pool(planes, *axes, include_pad, divisor)


def _launch(op: str, rung: str, inputs: list[TensorImpl], outputs: list[TensorImpl],
            pool: Any) -> None:  # fmt: skip
    packed = [copy.contiguous(each) for each in inputs]
    into = [written(each) for each in outputs]
    grid = (blocks(outputs[0].numel(), PER_BLOCK),)
    kernel = shelf(op, rung, STEPS[outputs[0].dtype])
    kernel(grid, (THREADS,), (*[read(each) for each in packed], *into, pool))


@device_kernel("max_pool2d_with_indices")
def max_pool2d_with_indices(
    self: TensorImpl,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = (0,),
    dilation: Numbers = (1,),
    ceil_mode: bool = False,
) -> tuple[TensorImpl, TensorImpl]:
    """The largest element of every window, and its position in its plane."""
    check_floats_or_halves(self)
    windows = windows_over(self, kernel_size, stride, padding, dilation, ceil_mode)
    if any(step > size for step, size in zip(windows.dilation, windows.sizes_in, strict=True)):
        raise NoKernel("a dilation that steps over the whole input has no rule in its kernel")
    shape = self.sizes[:-2] + windows.sizes_out
    y, index = empty(shape, self), empty(shape, self, dtypes.int64)
    _launch("max_pool2d", "1_thread_per_output", [self], [y, index], _pool(self, windows))
    strides = strides_after(shape, self)
    return laid_out(y, strides), laid_out(index, strides)


@device_kernel("max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(
    grad_output: TensorImpl,
    self: TensorImpl,
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
    indices: TensorImpl,
) -> TensorImpl:
    """The gradient of what was pooled."""
    check_floats_or_halves(grad_output, self)
    check_device(grad_output, indices)
    windows = windows_over(self, kernel_size, stride, padding, dilation, ceil_mode)
    if grad_output.sizes != indices.sizes or indices.dtype is not dtypes.int64:
        raise NoKernel("its kernel takes an int64 index for every gradient")
    dx = empty(self.sizes, self)
    inputs = [grad_output, indices]
    _launch("max_pool2d_backward", "2_gather", inputs, [dx], _pool(self, windows))
    return laid_out(dx, strides_after(self.sizes, self))


def _averages(
    self: TensorImpl,
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> tuple[Windows, Any]:
    windows = host.windows_of(self, kernel_size, stride, padding, ceil_mode, divisor_override)
    return windows, _pool(self, windows, count_include_pad, divisor_override or 0)


@device_kernel("avg_pool2d")
def avg_pool2d(
    self: TensorImpl,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Numbers = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> TensorImpl:
    """The mean of every window."""
    check_floats(self)
    windows, pool = _averages(
        self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    y = empty(self.sizes[:-2] + windows.sizes_out, self)
    _launch("avg_pool2d", "1_thread_per_output", [self], [y], pool)
    return laid_out(y, strides_after(y.sizes, self))


@device_kernel("avg_pool2d_backward")
def avg_pool2d_backward(
    grad_output: TensorImpl,
    self: TensorImpl,
    kernel_size: Numbers,
    stride: Numbers,
    padding: Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> TensorImpl:
    """The gradient of what was averaged."""
    check_floats(grad_output, self)
    _, pool = _averages(
        self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    dx = empty(self.sizes, self)
    _launch("avg_pool2d_backward", "2_gather", [grad_output], [dx], pool)
    return laid_out(dx, strides_after(self.sizes, self))
