"""Pooling by the largest element, with where it was found.

Source   aten/src/ATen/native/DilatedMaxPool2d.cpp
         aten/src/ATen/native/DilatedMaxPool3d.cpp
         aten/src/ATen/native/AdaptiveMaxPooling2d.cpp
"""

from collections.abc import Sequence

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.convolution.windows import strides_like, windows_over
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

Pair = tuple[TensorImpl, TensorImpl]
REAL = ("unsigned", "signed", "floating")


def _max_pool(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    rank: int,
) -> Pair:
    """The largest of every window, and its position in the flattened spatial dimensions."""
    windows = windows_over(self, kernel_size, stride, padding, dilation, ceil_mode, rank)
    refuse_unless(f"max_pool{rank}d", self.dtype, REAL)
    values = copy.values(self)
    flat = np.arange(np.prod(windows.sizes_in)).reshape(windows.sizes_in)
    shape = self.sizes[:-rank] + windows.sizes_out
    largest = np.zeros(shape, values.dtype)
    place = np.full(shape, -1)
    for tap in windows.taps():
        found, old = values[tap.places], largest[tap.windows]
        better = (place[tap.windows] < 0) | (found > old) | np.isnan(found)
        largest[tap.windows] = np.where(better, found, old)
        place[tap.windows] = np.where(better, flat[tap.places], place[tap.windows])
    strides = strides_like(self, shape)
    return new_tensor(largest, self.dtype, strides), new_tensor(place, dtypes.int64, strides)


def _max_pool_backward(
    grad_output: TensorImpl, self: TensorImpl, indices: TensorImpl, rank: int
) -> TensorImpl:
    """Every gradient added where the largest element came from."""
    if grad_output.sizes != indices.sizes:
        raise RuntimeError(
            f"expected grad_output of sizes {list(indices.sizes)}, got {list(grad_output.sizes)}"
        )
    g = wide(grad_output)
    planes = int(np.prod(self.sizes[:-rank]))
    result = np.zeros((planes, int(np.prod(self.sizes[-rank:]))), g.dtype)
    place = copy.values(indices).reshape(planes, -1)
    np.add.at(result, (np.arange(planes)[:, None], place), g.reshape(planes, -1))
    return new_tensor(result.reshape(self.sizes), self.dtype, strides_like(self, self.sizes))


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
    return _max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, 2)


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
    """The gradient of what was pooled."""
    windows_over(self, kernel_size, stride, padding, dilation, ceil_mode, 2)
    return _max_pool_backward(grad_output, self, indices, 2)


@kernel(
    "max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], "
    "int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
    variants="",
)
def max_pool3d_with_indices(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Pair:
    """As `max_pool2d_with_indices`, over [N, C, D, H, W] or [C, D, H, W]."""
    return _max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, 3)


@kernel(
    "max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, "
    "int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    variants="",
)
def max_pool3d_with_indices_backward(
    grad_output: TensorImpl,
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: TensorImpl,
) -> TensorImpl:
    """The gradient of what was pooled."""
    return _max_pool_backward(grad_output, self, indices, 3)


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


@composite(
    "max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, "
    "int[3] dilation=1, bool ceil_mode=False) -> Tensor",
    variants="function",
)
def max_pool3d(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> TensorImpl:
    """The largest element of every window."""
    found: Pair = aten.max_pool3d_with_indices.default(
        self, kernel_size, stride, padding, dilation, ceil_mode
    )
    return found[0]


@composite(
    "max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], "
    "int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)",
    variants="function",
)
def max_pool1d_with_indices(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Pair:
    """The largest element of every window of [N, C, L] or [C, L], and its position."""
    if self.dim() not in (2, 3):
        raise RuntimeError(f"max_pool1d() input must be 2D or 3D, got {list(self.sizes)}")
    step = stride or kernel_size
    values, indices = aten.max_pool2d_with_indices.default(
        aten.unsqueeze.default(self, -2),
        (1, kernel_size[0]),
        (1, step[0]),
        (0, padding[0]),
        (1, dilation[0]),
        ceil_mode,
    )
    return aten.squeeze.dim(values, -2), aten.squeeze.dim(indices, -2)


@composite(
    "max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], "
    "int[1] dilation=[1], bool ceil_mode=False) -> Tensor",
    variants="function",
)
def max_pool1d(
    self: TensorImpl,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> TensorImpl:
    """The largest element of every window of [N, C, L] or [C, L]."""
    return max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]
