"""Sliding windows as columns of a matrix, and columns added back into an image.

Source   aten/src/ATen/native/Im2Col.cpp
         aten/src/ATen/native/Col2Im.cpp
"""

from collections.abc import Sequence

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_unless, wide
from labkit.ops.convolution.windows import Windows
from labkit.ops.registration import kernel

NUMBERS = ("bool", "floating", "complex")


def _windows(
    sizes: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Windows:
    for name, numbers, least in (
        ("kernel_size", kernel_size, 1), ("dilation", dilation, 1), ("padding", padding, 0),
        ("stride", stride, 1),
    ):  # fmt: skip
        if len(numbers) != 2 or any(number < least for number in numbers):
            raise RuntimeError(
                f"{name} should be two numbers, each at least {least}, got {list(numbers)}"
            )
    walk = zip(sizes, kernel_size, stride, padding, dilation, strict=True)
    out = tuple((size + 2 * p - (d * (k - 1) + 1)) // s + 1 for size, k, s, p, d in walk)
    if any(count < 1 for count in out):
        raise RuntimeError(
            f"Given input with spatial size {tuple(sizes)}, kernel_size={tuple(kernel_size)}, "
            f"dilation={tuple(dilation)}, padding={tuple(padding)}, calculated shape of the array "
            f"of sliding blocks as {out}, but its components must be at least one."
        )
    return Windows(
        tuple(kernel_size), tuple(stride), tuple(padding), tuple(dilation), tuple(sizes), out
    )


@kernel(
    "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
    "-> Tensor",
    variants="",
)
def im2col(
    self: TensorImpl,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> TensorImpl:
    """[N, C * kH * kW, L]: one column per window of [N, C, H, W]; without N as well."""
    if self.dim() not in (3, 4) or 0 in self.sizes[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(self.sizes)}"
        )
    refuse_unless("im2col_out_cpu", self.dtype, NUMBERS)
    windows = _windows(self.sizes[-2:], kernel_size, dilation, padding, stride)
    x = wide(self)
    columns = np.zeros((*self.sizes[:-2], *windows.size, *windows.sizes_out), x.dtype)
    for number, tap in zip(np.ndindex(*windows.size), windows.taps(), strict=True):
        columns[..., *number, :, :][tap.windows] = x[tap.places]
    batch = self.sizes[:-3]
    rows = self.sizes[-3] * windows.size[0] * windows.size[1]
    return new_tensor(columns.reshape(*batch, rows, int(np.prod(windows.sizes_out))), self.dtype)


@kernel(
    "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, "
    "int[2] padding, int[2] stride) -> Tensor",
    variants="",
)
def col2im(
    self: TensorImpl,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> TensorImpl:
    """[N, C, H, W]: every column added where its window lies; the transpose of `im2col`."""
    if len(output_size) != 2 or any(size < 1 for size in output_size):
        raise RuntimeError(f"output_size should be two sizes of 1 or more, got {output_size}")
    if self.dim() not in (2, 3) or 0 in self.sizes[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(self.sizes)}"
        )
    windows = _windows(output_size, kernel_size, dilation, padding, stride)
    taps = windows.size[0] * windows.size[1]
    rows, blocks = self.sizes[-2:]
    if rows % taps:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={rows} and kernel_size={windows.size}."
        )
    if blocks != windows.sizes_out[0] * windows.sizes_out[1]:
        raise RuntimeError(
            f"Given output_size={tuple(output_size)}, kernel_size={windows.size}, "
            f"dilation={windows.dilation}, padding={windows.padding}, stride={windows.stride}, "
            "expected size of input's dimension 2 to match the calculated number of sliding "
            f"blocks {windows.sizes_out}, but got input.size(2)={blocks}."
        )
    refuse_unless("col2im_out_cpu", self.dtype, NUMBERS)
    channels = (*self.sizes[:-2], rows // taps)
    columns = wide(self).reshape(*channels, *windows.size, *windows.sizes_out)
    image: Array = np.zeros((*channels, *output_size), columns.dtype)
    for number, tap in zip(np.ndindex(*windows.size), windows.taps(), strict=True):
        image[tap.places] += columns[..., *number, :, :][tap.windows]
    return new_tensor(image, self.dtype)
