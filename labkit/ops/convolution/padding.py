"""Padding with a constant.

Source   aten/src/ATen/native/PadNd.cpp
"""
# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core.memory_format import strides_for, suggest_memory_format
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_raw
from labkit.ops.aten import aten
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


@composite(
    'pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor',
    variants="",
)
def pad(
    self: TensorImpl, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> TensorImpl:
    """The tensor padded with a constant.

    Raises   NotImplementedError   another mode
    """
    if mode != "constant":
        raise NotImplementedError(f"padding mode {mode!r}: only 'constant' is built here")
    return aten.constant_pad_nd.default(self, pad, 0.0 if value is None else value)
