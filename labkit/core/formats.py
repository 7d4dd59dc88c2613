"""Values of the element types NumPy lacks: bytes to numbers, and numbers rounded to bytes.

`decode` is exact. `encode` rounds to nearest, ties to even, in one step from the type it is given.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType

Array = NDArray[Any]


class _Float8(NamedTuple):
    """The bit layout of a one-byte float.

    Source   c10/util/Float8_e4m3fn.h and its neighbours
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_infinity: bool
    nan: int  # the byte every NaN is written as
    overflow: int  # the byte of everything beyond the largest finite value
    unsigned_zero: bool  # "uz": 0x80 is the only NaN and there is no negative zero


_FLOAT8 = {
    dtypes.float8_e4m3fn: _Float8(4, 3, 7, False, 0x7F, 0x7E, False),
    dtypes.float8_e5m2: _Float8(5, 2, 15, True, 0x7F, 0x7C, False),
    dtypes.float8_e4m3fnuz: _Float8(4, 3, 8, False, 0x80, 0x80, True),
    dtypes.float8_e5m2fnuz: _Float8(5, 2, 16, False, 0x80, 0x80, True),
}


def compute_dtype(of: DType) -> np.dtype[Any]:
    """The NumPy type in which values of `of` are held exactly and arithmetic on them is done."""
    if of.numpy is not None:
        return of.numpy
    return np.dtype("complex64" if of.is_complex else "float32")


def decode(raw: Array, of: DType) -> Array:
    """The values of raw elements, exactly, in `compute_dtype(of)`."""
    if of.numpy is not None:
        return raw
    if of is dtypes.bfloat16:
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if of is dtypes.complex32:
        parts = np.ascontiguousarray(raw).view(np.float16).reshape(*raw.shape, 2)
        return np.ascontiguousarray(parts.astype(np.float32)).view(np.complex64)[..., 0]
    return _float8_values(of)[raw]


def encode(values: Array, of: DType) -> Array:
    """The raw elements of values, rounded to nearest, ties to even.

    Beyond the largest number float8_e4m3fn saturates, as PyTorch does since it follows the OCP
    format; float8_e5m2 has an infinity, and the others answer NaN.

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
        single = _real(values).astype(np.float32)
        if of is dtypes.bfloat16:
            return _encode_bfloat16(single)
        return _encode_e8m0(single) if of is dtypes.float8_e8m0fnu else _encode_float8(single, of)


def convert(raw: Array, source: DType, target: DType) -> Array:
    """Raw elements of one type as raw elements of another, by value."""
    return raw if source is target else encode(decode(raw, source), target)


@cache
def largest_finite(of: DType) -> float:
    """The largest number of a floating type, or of one part of a complex one."""
    real = dtypes.to_real(of)
    if real.numpy is not None:
        return float(np.finfo(real.numpy).max)
    if real is dtypes.bfloat16:
        return float(decode(np.array([0x7F7F], np.uint16), real)[0])
    return float(np.nanmax(np.where(np.isinf(v := _float8_values(real)), np.nan, v)))


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


@cache
def _float8_values(of: DType) -> Array:
    """The 256 values of a one-byte float, in the order of the bytes."""
    byte = np.arange(256)
    if of is dtypes.float8_e8m0fnu:
        values = np.ones(256, np.float32)
        values[:255] = np.ldexp(np.float32(1), byte[:255] - 127)
        values[255] = np.nan
        return values
    form = _FLOAT8[of]
    exponent = (byte >> form.mantissa_bits) & ((1 << form.exponent_bits) - 1)
    mantissa = byte & ((1 << form.mantissa_bits) - 1)
    subnormal = exponent == 0
    significand = mantissa + np.where(subnormal, 0, 1 << form.mantissa_bits)
    power = np.where(subnormal, 1, exponent) - form.bias - form.mantissa_bits
    values = np.ldexp(significand.astype(np.float32), power).astype(np.float32)
    values = np.where(byte & 0x80, -values, values)
    if form.unsigned_zero:
        values[0x80] = np.nan
    elif form.has_infinity:
        top = exponent == (1 << form.exponent_bits) - 1
        values = np.where(top & (mantissa != 0), np.float32(np.nan), values)
        values = np.where(top & (mantissa == 0), np.copysign(np.inf, values), values)
    else:
        values[[0x7F, 0xFF]] = np.nan
    return values.astype(np.float32)


def _encode_float8(single: Array, of: DType) -> Array:
    form = _FLOAT8[of]
    positive = _float8_values(of)[:0x80].astype(np.float64)
    finite = positive[np.isfinite(positive)]
    largest = len(finite) - 1
    magnitude = np.abs(single.astype(np.float64))
    above = np.clip(np.searchsorted(finite, magnitude), 1, largest)
    below = above - 1
    middle = (finite[below] + finite[above]) / 2
    takes_above = (magnitude > middle) | ((magnitude == middle) & (above % 2 == 0))
    code = np.where(takes_above, above, below).astype(np.uint8)
    # Beyond the largest finite value: half a step further it still rounds down to it.
    half_step = (finite[largest] - finite[largest - 1]) / 2
    limit = finite[largest] + half_step
    overflows = (magnitude > limit) | ((magnitude == limit) & (largest % 2 == 1))
    code = np.where(overflows, np.uint8(form.overflow), code)
    code = np.where(np.isnan(single), np.uint8(form.nan), code)
    keeps_sign = ~((code == 0) | (code == 0x80)) if form.unsigned_zero else True
    return np.where(np.signbit(single) & keeps_sign, code | np.uint8(0x80), code).astype(np.uint8)


def _encode_e8m0(single: Array) -> Array:
    bits = single.view(np.uint32)
    exponent = ((bits >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int64)
    guard = (bits & np.uint32(0x400000)) != 0
    rest = (bits & np.uint32(0x3FFFFF)) != 0
    rounds_up = guard & ((exponent > 0) | rest)  # a step above 0xFE is 0xFF, the NaN
    return np.where(exponent == 0xFF, 0xFF, exponent + rounds_up).astype(np.uint8)
