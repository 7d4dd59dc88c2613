"""Values of the element types NumPy lacks: bytes to numbers, and numbers rounded to bytes.

`decode` is exact. `encode` rounds to nearest, ties to even, in one step from the type it is given.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType

Array = NDArray[Any]


def decode(raw: Array, of: DType) -> Array:
    """The values of raw elements, exactly: bfloat16 as float32, complex32 as complex64."""
    if of.numpy is not None:
        return raw
    if of is dtypes.bfloat16:
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    assert of is dtypes.complex32
    parts = np.ascontiguousarray(raw).view(np.float16).reshape(*raw.shape, 2)
    return np.ascontiguousarray(parts.astype(np.float32)).view(np.complex64)[..., 0]


def encode(values: Array, of: DType) -> Array:
    """The raw elements of values, rounded to nearest, ties to even.

    Source   c10/util/TypeCast.h  convert
    Differs  every NaN becomes one NaN; in PyTorch vector and scalar loops write different ones
    """
    if of.numpy is values.dtype:
        return values
    with np.errstate(all="ignore"):
        if of.numpy is not None:
            return _convert(values, of)
        if of is dtypes.complex32:
            parts = np.ascontiguousarray(values.astype(np.complex64)).view(np.float32)
            halves = parts.reshape(*values.shape, 2).astype(np.float16)
            return np.ascontiguousarray(halves).view(np.uint32)[..., 0]
        return _encode_bfloat16(_real(values).astype(np.float32))


def convert(raw: Array, source: DType, target: DType) -> Array:
    """Raw elements of one type as raw elements of another, by value."""
    return raw if source is target else encode(decode(raw, source), target)


@cache
def largest_finite(of: DType) -> float:
    """The largest number of a floating type, or of one part of a complex one."""
    real = dtypes.to_real(of)
    if real.numpy is not None:
        return float(np.finfo(real.numpy).max)
    return float(decode(np.array([0x7F7F], np.uint16), real)[0])  # bfloat16


def _real(values: Array) -> Array:
    return values.real if values.dtype.kind == "c" else values


def _convert(values: Array, of: DType) -> Array:
    if of.is_complex:
        return values.astype(of.raw, copy=False)
    if of.kind == "bool":
        return values.astype(np.bool_)
    real = _real(values)
    if of.is_integral and real.dtype.kind == "f":
        # What does not fit is undefined in C++. Compiled for x86, PyTorch's CPU kernels go through
        # int32, so infinity becomes int32's lowest number and 1e10 becomes 0 in int16; the types
        # that int32 does not hold, and uint8, go through int64.
        return real.astype(_VIA.get(of, np.int64)).astype(of.raw)
    return real.astype(of.raw, copy=False)


_VIA: dict[DType, Any] = {
    **dict.fromkeys((dtypes.int8, dtypes.int16, dtypes.int32, dtypes.uint16), np.int32),
    dtypes.uint64: np.uint64,
}
"""Integer type -> the wider one that a float becomes first; int64 for those not named."""


def _encode_bfloat16(single: Array) -> Array:
    bits = single.view(np.uint32)
    tie_to_even = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = ((bits + tie_to_even) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded).astype(np.uint16)
