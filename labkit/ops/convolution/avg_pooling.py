"""Pooling by the mean of every window.

Source   aten/src/ATen/native/AveragePool2d.cpp
         aten/src/ATen/native/AveragePool3d.cpp
"""
# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.convolution.windows import Windows, strides_like, windows_over
from labkit.ops.registration import composite, kernel


def _divisors(windows: Windows, count_include_pad: bool, divisor_override: int | None) -> Array:
    """What each sum is divided by, [*out]."""
    rank = len(windows.size)
    result = np.ones((1,) * rank, np.int64)
    if divisor_override is not None:
        return result * divisor_override
    for dim in range(rank):
        start = np.arange(windows.sizes_out[dim]) * windows.stride[dim] - windows.padding[dim]
        size, pad = windows.sizes_in[dim], windows.padding[dim]
        end = np.minimum(start + windows.size[dim], size + pad)
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, size)
        result = result * (end - start).reshape(-1, *[1] * (rank - 1 - dim))
    return result


def _windows(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    divisor_override: int | None,
    rank: int,
) -> Windows:
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero, got divisor_override=0")
    return windows_over(self, kernel_size, stride, padding, (1,) * rank, ceil_mode, rank)


def _avg_pool(
    self: TensorImpl, windows: Windows, count_include_pad: bool, divisor_override: int | None
) -> TensorImpl:
    rank = len(windows.size)
    refuse_unless(f"avg_pool{rank}d", self.dtype, ("signed", "floating"))
    if rank == 3 and self.dtype.itemsize == 2:
        raise NotImplementedError(f"'avg_pool3d_out_frame' not implemented for {self.dtype.name}")
    x = wide(self)
    shape = self.sizes[:-rank] + windows.sizes_out
    sums = np.zeros(shape, x.dtype)
    for tap in windows.taps():
        sums[tap.windows] += x[tap.places]
    divisors = _divisors(windows, count_include_pad, divisor_override)
    if self.dtype.is_integral:  # as in C++, towards zero
        means = np.trunc(sums / divisors).astype(x.dtype)
    else:
        with np.errstate(all="ignore"):
            means = np.where(divisors > 0, sums / divisors.astype(x.dtype), 0)
            if divisor_override is not None:
                means = sums / divisors.astype(x.dtype)
    return new_tensor(means, self.dtype, strides_like(self, shape))


def _avg_pool_backward(
    grad_output: TensorImpl,
    self: TensorImpl,
    windows: Windows,
    count_include_pad: bool,
    divisor_override: int | None,
) -> TensorImpl:
    g = wide(grad_output)
    divisors = _divisors(windows, count_include_pad, divisor_override).astype(g.dtype)
    with np.errstate(all="ignore"):
        g = g / divisors
    result = np.zeros(self.sizes, g.dtype)
    for tap in windows.taps():  # within one tap no element is named twice, so += is enough
        result[tap.places] += g[tap.windows]
    return new_tensor(result, self.dtype, strides_like(self, self.sizes))


@kernel(
    "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
    "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    variants="",
)
def avg_pool2d(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> TensorImpl:
    """The mean of every window of [N, C, H, W] or [C, H, W].

    count_include_pad  zeros of the padding count as elements
    divisor_override   divide by this instead of by the count
    """
    windows = _windows(self, kernel_size, stride, padding, ceil_mode, divisor_override, 2)
    return _avg_pool(self, windows, count_include_pad, divisor_override)


@kernel(
    "avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
    "int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    variants="",
)
def avg_pool2d_backward(
    grad_output: TensorImpl,
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> TensorImpl:
    """The gradient of what was averaged."""
    windows = _windows(self, kernel_size, stride, padding, ceil_mode, divisor_override, 2)
    return _avg_pool_backward(grad_output, self, windows, count_include_pad, divisor_override)


@kernel(
    "avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, "
    "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
    variants="",
)
def avg_pool3d(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> TensorImpl:
    """As `avg_pool2d`, over [N, C, D, H, W] or [C, D, H, W]."""
    windows = _windows(self, kernel_size, stride, padding, ceil_mode, divisor_override, 3)
    return _avg_pool(self, windows, count_include_pad, divisor_override)


@kernel(
    "avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, "
    "int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
    variants="",
)
def avg_pool3d_backward(
    grad_output: TensorImpl,
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> TensorImpl:
    """The gradient of what was averaged."""
    windows = _windows(self, kernel_size, stride, padding, ceil_mode, divisor_override, 3)
    return _avg_pool_backward(grad_output, self, windows, count_include_pad, divisor_override)


@composite(
    "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], "
    "bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
    variants="function",
)
def avg_pool1d(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> TensorImpl:
    """The mean of every window of [N, C, L] or [C, L]."""
    if self.dim() not in (2, 3):
        raise RuntimeError(f"avg_pool1d() input must be 2D or 3D, got {list(self.sizes)}")
    step = stride or kernel_size
    pooled = aten.avg_pool2d.default(
        aten.unsqueeze.default(self, -2),
        (1, kernel_size[0]),
        (1, step[0]),
        (0, padding[0]),
        ceil_mode,
        count_include_pad,
    )
    return aten.squeeze.dim(pooled, -2)
