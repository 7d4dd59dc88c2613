"""Pooling by the largest element, with where it was found.

Source   aten/src/ATen/native/DilatedMaxPool2d.cpp
"""

from collections.abc import Sequence

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.convolution.windows import strides_after, windows_over
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

Pair = tuple[TensorImpl, TensorImpl]
REAL = ("unsigned", "signed", "floating")


@kernel(
    "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], "
    "int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    variants="",
)
def max_pool2d_with_indices(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Pair:
    """The largest element of every window, [N, C, H, W] or [C, H, W], and its flat position.

    Of equal elements the first is named; a NaN is larger than any number.
    """
    windows = windows_over(self, kernel_size, stride, padding, dilation, ceil_mode)
    refuse_unless("max_pool2d", self.dtype, REAL)
    values = copy.values(self)
    flat = np.arange(np.prod(windows.sizes_in)).reshape(windows.sizes_in)
    shape = self.sizes[:-2] + windows.sizes_out
    largest = np.zeros(shape, values.dtype)
    place = np.full(shape, -1)
    for tap in windows.taps():
        found, old = values[tap.places], largest[tap.windows]
        better = (place[tap.windows] < 0) | (found > old) | np.isnan(found)
        largest[tap.windows] = np.where(better, found, old)
        place[tap.windows] = np.where(better, flat[tap.places], place[tap.windows])
    strides = strides_after(shape, self)
    return new_tensor(largest, self.dtype, strides), new_tensor(place, dtypes.int64, strides)


@kernel(
    "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
    "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    variants="",
)
def max_pool2d_with_indices_backward(
    grad_output: TensorImpl,
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: TensorImpl,
) -> TensorImpl:
    """Every gradient added where the largest element came from."""
    windows_over(self, kernel_size, stride, padding, dilation, ceil_mode)
    if grad_output.sizes != indices.sizes:
        raise RuntimeError(
            f"expected grad_output of sizes {list(indices.sizes)}, got {list(grad_output.sizes)}"
        )
    g = wide(grad_output)
    planes = int(np.prod(self.sizes[:-2]))
    result = np.zeros((planes, int(np.prod(self.sizes[-2:]))), g.dtype)
    place = copy.values(indices).reshape(planes, -1)
    np.add.at(result, (np.arange(planes)[:, None], place), g.reshape(planes, -1))
    return new_tensor(result.reshape(self.sizes), self.dtype, strides_after(self.sizes, self))


@composite(
    "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
    "int[2] dilation=1, bool ceil_mode=False) -> Tensor",
    variants="function",
)
def max_pool2d(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> TensorImpl:
    """The largest element of every window."""
    found: Pair = aten.max_pool2d_with_indices.default(
        self, kernel_size, stride, padding, dilation, ceil_mode
    )
    return found[0]
