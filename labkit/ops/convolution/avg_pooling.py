"""Pooling by the mean of every window.

Source   aten/src/ATen/native/AveragePool2d.cpp
"""
# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_unless, wide
from labkit.ops.convolution.windows import Windows, strides_after, windows_over
from labkit.ops.registration import kernel


def _divisors(windows: Windows, count_include_pad: bool, divisor_override: int | None) -> Array:
    """What each sum is divided by, [*out]."""
    result = np.ones((1, 1), np.int64)
    if divisor_override is not None:
        return result * divisor_override
    for dim in range(2):
        start = np.arange(windows.sizes_out[dim]) * windows.stride[dim] - windows.padding[dim]
        size, pad = windows.sizes_in[dim], windows.padding[dim]
        end = np.minimum(start + windows.size[dim], size + pad)
        if not count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, size)
        result = result * (end - start).reshape(-1, *[1] * (1 - dim))
    return result


def windows_of(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    divisor_override: int | None,
) -> Windows:
    """The windows whose means are wanted, checked.

    Raises   RuntimeError   as `windows_over`, or a divisor of 0
    """
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero, got divisor_override=0")
    return windows_over(self, kernel_size, stride, padding, (1,), ceil_mode)


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
    windows = windows_of(self, kernel_size, stride, padding, ceil_mode, divisor_override)
    refuse_unless("avg_pool2d", self.dtype, ("signed", "floating"))
    x = wide(self)
    shape = self.sizes[:-2] + windows.sizes_out
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
    return new_tensor(means, self.dtype, strides_after(shape, self))


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
    windows = windows_of(self, kernel_size, stride, padding, ceil_mode, divisor_override)
    g = wide(grad_output)
    divisors = _divisors(windows, count_include_pad, divisor_override).astype(g.dtype)
    with np.errstate(all="ignore"):
        g = g / divisors
    result = np.zeros(self.sizes, g.dtype)
    for tap in windows.taps():  # within one tap no element is named twice, so += is enough
        result[tap.places] += g[tap.windows]
    return new_tensor(result, self.dtype, strides_after(self.sizes, self))
