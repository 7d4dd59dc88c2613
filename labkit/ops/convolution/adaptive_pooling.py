"""Pooling into a given number of cells by their mean.

Source   aten/src/ATen/native/AdaptiveAveragePooling.cpp
         aten/src/ATen/native/AdaptivePooling.h  start_index, end_index
"""
# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.convolution.windows import check_input, spread_out, strides_after
from labkit.ops.registration import composite, kernel


def ranges(size: int, cells: int) -> list[tuple[int, int]]:
    """Where each cell starts and ends: neighbours may share an element."""
    return [(cell * size // cells, -((cell + 1) * -size // cells)) for cell in range(cells)]


def _summed(x: Array, out: Sequence[int]) -> Array:
    """The sums of the cells, one dimension after the other, the last one first."""
    for back, cells in enumerate(reversed(out), 1):
        rows = np.moveaxis(x, -back, -1)
        sums = np.empty((*rows.shape[:-1], cells), x.dtype)
        for cell, (start, end) in enumerate(ranges(rows.shape[-1], cells)):
            sums[..., cell] = rows[..., start:end].sum(-1)
        x = np.moveaxis(sums, -1, -back)
    return x


def _counts(sizes: Sequence[int], out: Sequence[int]) -> Array:
    """How many elements each cell has, [*out]."""
    result = np.ones((1,) * len(out))
    for dim, (size, cells) in enumerate(zip(sizes, out, strict=True)):
        lengths = np.array([end - start for start, end in ranges(size, cells)])
        result = result * lengths.reshape(-1, *[1] * (len(out) - 1 - dim))
    return result


@kernel("_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", variants="")
def _adaptive_avg_pool2d(self: TensorImpl, output_size: Sequence[int]) -> TensorImpl:
    """The mean of each of H by W nearly equal cells."""
    out = spread_out("output_size", output_size)
    check_input(self)
    refuse_unless("adaptive_avg_pool2d", self.dtype, ("floating",))
    x = wide(self)
    means = _summed(x, out) / _counts(self.sizes[-2:], out).astype(x.real.dtype)
    return new_tensor(means, self.dtype, strides_after(means.shape, self))


@kernel("_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor", variants="")
def _adaptive_avg_pool2d_backward(grad_output: TensorImpl, self: TensorImpl) -> TensorImpl:
    """The gradient of what was averaged."""
    g = wide(grad_output)
    g = g / _counts(self.sizes[-2:], grad_output.sizes[-2:]).astype(g.real.dtype)
    for back, size in enumerate(reversed(self.sizes[-2:]), 1):
        rows = np.moveaxis(g, -back, -1)
        spread = np.zeros((*rows.shape[:-1], size), g.dtype)
        for cell, (start, end) in enumerate(ranges(size, rows.shape[-1])):
            spread[..., start:end] += rows[..., cell : cell + 1]
        g = np.moveaxis(spread, -1, -back)
    return new_tensor(g, self.dtype, strides_after(self.sizes, self))


@composite("adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", variants="")
def adaptive_avg_pool2d(self: TensorImpl, output_size: Sequence[int]) -> TensorImpl:
    """The mean of each of H by W nearly equal cells; for one cell a plain `mean`."""
    if len(output_size) != 2:
        raise RuntimeError(f"adaptive_avg_pool2d: output_size must be 2, got {list(output_size)}")
    if any(cells < 0 for cells in output_size):
        raise RuntimeError(
            "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but "
            f"received {list(output_size)}"
        )
    if tuple(output_size) == (1, 1):
        return aten.mean.dim(self, (-1, -2), True)
    return aten._adaptive_avg_pool2d.default(self, output_size)
