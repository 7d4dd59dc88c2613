"""Pairs of uniform numbers as pairs of normal ones, to the bit as PyTorch's loops give them.

float64 goes through the C library. float32, and the smaller types through it, does so too where
PyTorch has no vectors for it; with AVX2 it goes through short polynomials for logarithm, sine and
cosine with fused multiply-adds.

Source   aten/src/ATen/native/cpu/DistributionTemplates.h  NormalFill16
         Cephes by S. Moshier for the polynomials: logf and sinf and cosf in single precision
"""

import ctypes
import functools
import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.ops.cpu_capability import takes_avx2
from labkit.ops.pointwise.fused_multiply_add import fused_multiply_add

Singles = NDArray[np.float32]
_f32 = np.float32

_LOG = [7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1]  # fmt: skip
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_SINE = [-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1]
_COSINE = [2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2]
_QUARTER_PI = [-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8]  # in three parts
_FOUR_OVER_PI = 1.27323954473516
_TWO_PI = 2 * math.pi


def _polynomial(coefficients: list[float], x: Singles) -> Singles:
    result: Singles = np.full(x.shape, coefficients[0], np.float32)
    for coefficient in coefficients[1:]:
        result = fused_multiply_add(result, x, coefficient)
    return result


def _log(x: Singles) -> Singles:
    """The logarithm of positive normal numbers."""
    bits = x.view(np.int32)
    mantissa = ((bits & 0x007FFFFF) | 0x3F000000).view(np.float32)  # in [0.5, 1)
    exponent = ((bits >> 23) - 126).astype(np.float32)
    small = mantissa < _f32(math.sqrt(0.5))
    exponent = exponent - small.astype(np.float32)
    x = (mantissa - _f32(1)) + np.where(small, mantissa, _f32(0))
    z = x * x
    y = _polynomial(_LOG, x) * x
    y = fused_multiply_add(y, z, exponent * _f32(_LN2_LOW))
    y = fused_multiply_add(z, -0.5, y)
    return fused_multiply_add(exponent, _LN2_HIGH, x + y)


def _sine_and_cosine(x: Singles) -> tuple[Singles, Singles]:
    """Of angles in [0, 2 pi]."""
    octant = (x * _f32(_FOUR_OVER_PI)).astype(np.int32) + 1 & ~1
    for part in _QUARTER_PI:
        x = fused_multiply_add(octant.astype(np.float32), part, x)
    z = x * x
    cosine = _polynomial(_COSINE, z) * z
    cosine = fused_multiply_add(cosine, z, -(z * _f32(0.5))) + _f32(1)
    sine = fused_multiply_add(_polynomial(_SINE, z) * z, x, x)
    swapped = octant & 2 != 0
    negative_sine, negative_cosine = octant & 4 != 0, octant - 2 & 4 == 0
    sine, cosine = np.where(swapped, cosine, sine), np.where(swapped, sine, cosine)
    return np.where(negative_sine, -sine, sine), np.where(negative_cosine, -cosine, cosine)


def singles(u1: Singles, u2: Singles, mean: float, std: float) -> tuple[Singles, Singles]:
    """Normal numbers from uniform ones in [0, 1), as PyTorch's float32 loop of this processor."""
    log, angle, sine_and_cosine = _WITH_VECTORS if takes_avx2() else _WITH_THE_C_LIBRARY
    radius = np.sqrt(_f32(-2) * log(_f32(1) - u1))
    sine, cosine = sine_and_cosine(angle(u2))
    return (
        fused_multiply_add(radius * cosine, std, mean),
        fused_multiply_add(radius * sine, std, mean),
    )


@functools.cache
def _library_function(name: str) -> Any:
    """A float32 function of the C library, the one PyTorch's own loops call."""
    library = ctypes.CDLL("libm.so.6" if sys.platform == "linux" else None)
    function = getattr(library, name)
    function.argtypes, function.restype = [ctypes.c_float], ctypes.c_float
    return function


def _each_single(name: str, x: Singles) -> Singles:
    return each(_library_function(name), x).astype(np.float32)


_WITH_VECTORS: tuple[Any, Any, Any] = (_log, lambda u: _f32(_TWO_PI) * u, _sine_and_cosine)
_WITH_THE_C_LIBRARY: tuple[Any, Any, Any] = (
    lambda x: _each_single("logf", x),
    lambda u: (_TWO_PI * u.astype(np.float64)).astype(np.float32),
    lambda angle: (_each_single("sinf", angle), _each_single("cosf", angle)),
)
"""The logarithm, the angle of a uniform number, and its sine and cosine."""


def doubles(
    u1: NDArray[Any], u2: NDArray[Any], mean: float, std: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Normal numbers from uniform ones in [0, 1), through the C library."""
    radius = np.sqrt(-2 * each(math.log, 1 - u1))
    theta = _TWO_PI * u2
    return (
        fused_multiply_add(radius * each(math.cos, theta), std, mean, np.float64),
        fused_multiply_add(radius * each(math.sin, theta), std, mean, np.float64),
    )


def each(function: Any, x: NDArray[Any]) -> NDArray[np.float64]:
    """A function of the C library on every number: NumPy's own loops differ in the last bit."""
    return np.array(list(map(function, x.ravel().tolist())), np.float64).reshape(x.shape)
