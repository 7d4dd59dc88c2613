"""Padding with a constant, a mirror image, the edge or the other end.

Source   aten/src/ATen/native/PadNd.cpp
         aten/src/ATen/native/ReflectionPad.cpp
         aten/src/ATen/native/ReplicationPadding.cpp
"""
# mypy: disable-error-code="no-any-return"

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labkit.core.memory_format import Ints, strides_for, suggest_memory_format
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_raw, new_tensor, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.convolution.windows import strides_like
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy


def _pairs(pad: Sequence[int], ndim: int) -> list[tuple[int, int]]:
    """Amounts before and behind each dimension; the list starts with the last dimension."""
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {list(pad)}")
    if len(pad) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {ndim}"
        )
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(pairs)) + pairs[::-1]


@kernel("constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", variants="function")
def constant_pad_nd(self: TensorImpl, pad: Sequence[int], value: Any = 0) -> TensorImpl:
    """The tensor with `value` before and behind; a negative amount cuts.

    pad  amounts before and behind the last dimension, then of the one before it, ...

    Raises   RuntimeError   an odd list, a longer one than the dimensions, or a size below 0
    """
    pairs = _pairs(pad, self.dim())
    sizes = tuple(
        size + before + behind for size, (before, behind) in zip(self.sizes, pairs, strict=True)
    )
    if any(size < 0 for size in sizes):
        raise RuntimeError(
            f"The input size {list(self.sizes)}, plus padding {list(pad)} resulted in a negative "
            f"output size {list(sizes)}"
        )
    kept = tuple(
        slice(max(-before, 0), size - max(-behind, 0))
        for size, (before, behind) in zip(self.sizes, pairs, strict=True)
    )
    if all(before <= 0 and behind <= 0 for before, behind in pairs):
        raw = self.raw()[kept]
        step = self.alias(sizes, self.strides, self.storage_offset())
        return new_raw(raw, self.dtype, copy.empty_like(step).strides)
    result = np.full(sizes, copy.scalar_raw(value, self.dtype), self.dtype.raw)
    inside = tuple(
        slice(max(before, 0), size - max(behind, 0))
        for size, (before, behind) in zip(sizes, pairs, strict=True)
    )
    result[inside] = self.raw()[kept]
    layout = suggest_memory_format(self.sizes, self.strides)
    return new_raw(result, self.dtype, strides_for(sizes, layout))


def _sources(size: int, before: int, behind: int, reflect: bool) -> Array:
    """For every position of the padded dimension, where in the input it looks."""
    place = np.arange(-before, size + behind)
    if not reflect:
        return np.clip(place, 0, size - 1)
    place = np.abs(place)
    return np.where(place >= size, 2 * (size - 1) - place, place)


def _grid(self: TensorImpl, padding: Sequence[int], reflect: bool) -> Any:
    """An index into the input: what every element of the result shows."""
    rank = len(padding) // 2
    if self.dim() not in (rank + 1, rank + 2) or 0 in self.sizes[-rank:]:
        raise RuntimeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {list(self.sizes)}"
        )
    lines = []
    for dim, size in enumerate(self.sizes[-rank:]):
        before, behind = padding[2 * (rank - 1 - dim)], padding[2 * (rank - 1 - dim) + 1]
        if reflect and (before >= size or behind >= size):
            raise RuntimeError(
                "Padding size should be less than the corresponding input dimension, but got: "
                f"padding {(before, behind)} at dimension {self.dim() - rank + dim} of input "
                f"{list(self.sizes)}"
            )
        if size + before + behind < 1:
            raise RuntimeError(f"input {list(self.sizes)} is too small for padding {list(padding)}")
        lines.append(_sources(size, before, behind, reflect))
    return (..., *np.ix_(*lines))


def _pad(self: TensorImpl, padding: Sequence[int], reflect: bool) -> TensorImpl:
    refuse_unless(
        "reflection_pad" if reflect else "replication_pad", self.dtype,
        ("unsigned", "signed", "floating", "complex"),
    )  # fmt: skip
    raw = self.raw()[_grid(self, padding, reflect)]
    return new_raw(raw, self.dtype, strides_like(self, raw.shape))


def _pad_backward(
    grad_output: TensorImpl, self: TensorImpl, padding: Sequence[int], reflect: bool
) -> TensorImpl:
    g = wide(grad_output)
    grid = _grid(self, padding, reflect)
    lines = grid[1:]
    expected = self.sizes[: -len(lines)] + tuple(line.size for line in lines)
    if grad_output.sizes != expected:
        raise RuntimeError(f"expected grad_output of sizes {expected}, got {grad_output.sizes}")
    result = np.zeros(self.sizes, g.dtype)
    np.add.at(result, grid, g)
    return new_tensor(result, self.dtype, strides_like(self, self.sizes))


def _define(mode: str, rank: int) -> Callable[..., TensorImpl]:
    reflect = mode == "reflection"
    argument = f"SymInt[{2 * rank}] padding"

    @kernel(f"{mode}_pad{rank}d(Tensor self, {argument}) -> Tensor", variants="")
    def pad_nd(self: TensorImpl, padding: Sequence[int]) -> TensorImpl:
        """The tensor continued at its ends by a mirror image of itself, or by its edge."""
        return _pad(self, padding, reflect)

    @kernel(
        f"{mode}_pad{rank}d_backward(Tensor grad_output, Tensor self, {argument}) -> Tensor",
        variants="",
    )
    def pad_nd_backward(
        grad_output: TensorImpl, self: TensorImpl, padding: Sequence[int]
    ) -> TensorImpl:
        """Every gradient added to the element that was shown."""
        return _pad_backward(grad_output, self, padding, reflect)

    return pad_nd


PADS = {(mode, rank): _define(mode, rank) for mode in ("reflection", "replication")
        for rank in (1, 2, 3)}  # fmt: skip


@composite("_pad_circular(Tensor self, SymInt[] pad) -> Tensor", variants="")
def _pad_circular(self: TensorImpl, pad: Sequence[int]) -> TensorImpl:
    """The tensor continued at each end by its other end.

    Source   aten/src/ATen/native/PadNd.cpp  _pad_circular_symint
    """
    rank = self.dim() - 2
    if len(pad) != 2 * rank:
        raise RuntimeError(
            f"Invalid padding size, expected {2 * rank} but got {len(pad)} for {self.dim()}D"
        )
    pairs = _pairs(pad, self.dim())
    for size, (before, behind) in zip(self.sizes, pairs, strict=True):
        if before > size or behind > size:
            raise RuntimeError(
                "Padding value causes wrapping around more than once: "
                f"{(before, behind)} for size {size}"
            )
    sizes: Ints = tuple(size + sum(pair) for size, pair in zip(self.sizes, pairs, strict=True))
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"Negative padding {list(pad)} exceeds input sizes {list(self.sizes)}")
    result = aten.new_empty.default(self, sizes)
    inside, source = result, self
    for dim in range(self.dim() - 1, 1, -1):
        before, behind = pairs[dim]
        end = sizes[dim] - max(behind, 0)
        inside = aten.slice.Tensor(inside, dim, max(before, 0), end)
        end = self.sizes[dim] - max(-behind, 0)
        source = aten.slice.Tensor(source, dim, max(-before, 0), end)
    aten.copy_.default(inside, source)
    for dim in range(self.dim() - 1, 1, -1):
        before, behind = pairs[dim]
        last = sizes[dim] - max(behind, 0)
        if before > 0:
            edge = aten.slice.Tensor(result, dim, 0, before)
            aten.copy_.default(edge, aten.slice.Tensor(result, dim, last - before, last))
        if behind > 0:
            first = max(before, 0)
            edge = aten.slice.Tensor(result, dim, sizes[dim] - behind, sizes[dim])
            aten.copy_.default(edge, aten.slice.Tensor(result, dim, first, first + behind))
    return result


@composite(
    'pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor',
    variants="",
)
def pad(
    self: TensorImpl, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> TensorImpl:
    """The tensor padded: "constant", "reflect", "replicate" or "circular".

    Raises   NotImplementedError   an unknown mode, or a shape that mode has no operator for
             RuntimeError          a value with another mode than "constant"
    """
    if mode == "constant":
        return aten.constant_pad_nd.default(self, pad, 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument, got {value}')
    rank, odd = divmod(len(pad), 2)
    if odd or rank not in (1, 2, 3) or self.dim() not in (rank + 1, rank + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {self.dim()}D input tensor: "
            "non-constant padding takes 2 amounts for 2D or 3D input, 4 for 3D or 4D, 6 for 4D or "
            "5D"
        )
    if mode == "circular":
        return aten._pad_circular.default(self, pad)
    name = "reflection" if mode == "reflect" else "replication"
    return getattr(aten, f"{name}_pad{rank}d").default(self, pad)
