"""Resizing of images: nearest neighbour, and linear along every dimension.

Source   aten/src/ATen/native/UpSample.h  area_pixel_compute_scale, compute_output_size
         aten/src/ATen/native/cpu/UpSampleKernel.cpp
Differs  bytes resize to the nearest only; PyTorch has a bilinear kernel for them
"""
# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_raw, new_tensor, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.convolution.windows import strides_like
from labkit.ops.registration import composite, kernel

Scale = float | None


def _check(name: str, sizes: Sequence[int], output_size: Sequence[int], rank: int) -> None:
    if len(sizes) != rank + 2 or 0 in sizes[1:]:
        raise RuntimeError(
            f"{name}: non-empty {rank + 2}D data tensor expected but got sizes {list(sizes)}"
        )
    if len(output_size) != rank or any(size < 1 for size in output_size):
        raise RuntimeError(
            f"{name}: {rank} output sizes of 1 or more expected, got {list(output_size)}"
        )


def _nearest(size: int, out: int, scale: Scale) -> Array:
    """For every output position the input position it shows, computed in single precision."""
    step = np.float32(1 / scale) if scale else np.float32(size) / np.float32(out)
    places = np.floor(np.arange(out, dtype=np.float32) * step).astype(np.int64)
    shown: Array = np.minimum(places, size - 1)
    return shown


def _per_dim(rank: int, *scales: Scale) -> tuple[Scale, ...]:
    """One factor per dimension, None where none was given."""
    return (*scales, *(None,) * (rank - len(scales)))


def _shown(sizes: Sequence[int], out: Sequence[int], scales: Sequence[Scale]) -> Any:
    """An index into the input: what every element of the output shows."""
    walk = zip(sizes[2:], out, scales, strict=True)
    return (..., *np.ix_(*[_nearest(*each) for each in walk]))


def _linear(size: int, out: int, scale: Scale, align_corners: bool, number: Any) -> Array:
    """[out, size]: how much of every input position is in every output position."""
    matrix = np.zeros((out, size), number)
    row = np.arange(out)
    if size == out:
        matrix[row, row] = 1
        return matrix
    if align_corners:
        step = number(size - 1) / number(out - 1) if out > 1 else number(0)
        source = row.astype(number) * step
    else:
        step = number(1 / scale) if scale else number(size) / number(out)
        source = np.maximum(step * (row.astype(number) + number(0.5)) - number(0.5), number(0))
    low = np.minimum(source.astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = np.clip(source - low.astype(number), 0, 1)
    np.add.at(matrix, (row, low), 1 - part)
    np.add.at(matrix, (row, high), part)
    return matrix


def _applied(x: Array, matrices: Sequence[Array]) -> Array:
    """Every spatial dimension multiplied by its matrix, the last one first."""
    for back, matrix in enumerate(reversed(matrices), 1):
        x = np.moveaxis(np.moveaxis(x, -back, -1) @ matrix.T, -1, -back)
    return x


def _matrices(
    sizes: Sequence[int], out: Sequence[int], scales: Sequence[Scale], align: bool, number: Any
) -> list[Array]:
    return [
        _linear(size, wanted, scale, align, number)
        for size, wanted, scale in zip(sizes, out, scales, strict=True)
    ]


def _number(x: Array) -> Any:
    return np.float64 if x.dtype == np.float64 else np.float32


def _define_nearest(rank: int, arguments: str) -> None:
    name = f"upsample_nearest{rank}d"

    @kernel(f"{name}(Tensor self, SymInt[{rank}] output_size, {arguments}) -> Tensor", variants="")
    def nearest(
        self: TensorImpl, output_size: Sequence[int], *scales: Scale, **named: Scale
    ) -> TensorImpl:
        """Every output element shows the input element it falls on."""
        _check(name, self.sizes, output_size, rank)
        if self.dtype is not dtypes.uint8:
            refuse_unless(name, self.dtype, ("floating",))
        given = _per_dim(rank, *scales, *named.values())
        raw = self.raw()[_shown(self.sizes, output_size, given)]
        return new_raw(raw, self.dtype, strides_like(self, raw.shape))

    @kernel(
        f"{name}_backward(Tensor grad_output, SymInt[{rank}] output_size, SymInt[{rank + 2}] "
        f"input_size, {arguments}) -> Tensor",
        variants="",
    )
    def nearest_backward(
        grad_output: TensorImpl,
        output_size: Sequence[int],
        input_size: Sequence[int],
        *scales: Scale,
        **named: Scale,
    ) -> TensorImpl:
        """Every gradient added to the element that was shown."""
        _check(name, input_size, output_size, rank)
        given = _per_dim(rank, *scales, *named.values())
        g = wide(grad_output)
        result = np.zeros(tuple(input_size), g.dtype)
        np.add.at(result, _shown(input_size, output_size, given), g)
        sizes: Ints = result.shape
        return new_tensor(result, grad_output.dtype, strides_like(grad_output, sizes))

    _define_vec(name, "", partial(getattr, aten, name))


def _define_linear(rank: int, word: str, arguments: str) -> None:
    name = f"upsample_{word}{rank}d"

    @kernel(
        f"{name}(Tensor self, SymInt[{rank}] output_size, bool align_corners, {arguments}) "
        "-> Tensor",
        variants="",
    )
    def linear(
        self: TensorImpl,
        output_size: Sequence[int],
        align_corners: bool,
        *scales: Scale,
        **named: Scale,
    ) -> TensorImpl:
        """Every output element is a mean of its neighbours in the input, weighted by nearness."""
        _check(name, self.sizes, output_size, rank)
        refuse_unless(name, self.dtype, ("floating",))
        x = wide(self)
        given = _per_dim(rank, *scales, *named.values())
        matrices = _matrices(self.sizes[2:], output_size, given, align_corners, _number(x))
        result = _applied(x, matrices)
        return new_tensor(result, self.dtype, strides_like(self, result.shape))

    @kernel(
        f"{name}_backward(Tensor grad_output, SymInt[{rank}] output_size, SymInt[{rank + 2}] "
        f"input_size, bool align_corners, {arguments}) -> Tensor",
        variants="",
    )
    def linear_backward(
        grad_output: TensorImpl,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align_corners: bool,
        *scales: Scale,
        **named: Scale,
    ) -> TensorImpl:
        """Every gradient shared out over the neighbours it came from."""
        _check(name, input_size, output_size, rank)
        g = wide(grad_output)
        given = _per_dim(rank, *scales, *named.values())
        matrices = _matrices(input_size[2:], output_size, given, align_corners, _number(g))
        result = _applied(g, [matrix.T for matrix in matrices])
        return new_tensor(result, grad_output.dtype, strides_like(grad_output, result.shape))

    _define_vec(name, "bool align_corners, ", partial(getattr, aten, name))


def output_size_of(
    sizes: Sequence[int], output_size: Sequence[int] | None, scales: Sequence[float] | None
) -> list[int]:
    """The output sizes, given or from the factors.

    Raises   RuntimeError   both, or none
    Source   aten/src/ATen/native/UpSample.cpp  compute_output_size
    """
    if (output_size is None) == (scales is None):
        raise RuntimeError("Must specify exactly one of output_size and scale_factors")
    if output_size is not None:
        wanted = list(output_size)
    else:
        assert scales is not None
        wanted = [int(size * scale) for size, scale in zip(sizes[2:], scales, strict=False)]
    if len(wanted) != len(sizes) - 2:
        raise RuntimeError(f"expected {len(sizes) - 2} sizes or factors, got {len(wanted)}")
    return wanted


def _define_vec(name: str, align: str, packet: Any) -> None:
    """The overload that takes factors instead of sizes."""

    @composite(
        f"{name}.vec(Tensor input, SymInt[]? output_size, {align}float[]? scale_factors) -> Tensor",
        variants="",
    )
    def vec(
        input: TensorImpl,  # noqa: A002  PyTorch's name for it
        output_size: Sequence[int] | None,
        *rest: Any,
    ) -> TensorImpl:
        """The same, in sizes or in factors."""
        *corners, scales = rest
        rank = input.dim() - 2
        wanted = output_size_of(input.sizes, output_size, scales)
        given = scales if scales is not None else [None] * rank
        return packet().default(input, wanted, *corners, *given)


_define_nearest(1, "float? scales=None")
_define_nearest(2, "float? scales_h=None, float? scales_w=None")
_define_nearest(3, "float? scales_d=None, float? scales_h=None, float? scales_w=None")
_define_linear(1, "linear", "float? scales=None")
_define_linear(2, "bilinear", "float? scales_h=None, float? scales_w=None")
_define_linear(3, "trilinear", "float? scales_d=None, float? scales_h=None, float? scales_w=None")
