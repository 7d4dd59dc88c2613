"""Functions that NumPy lacks; `erf` and `erfc` are the C library's.

Source   aten/src/ATen/native/Math.h
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _each(function: Callable[[float], float], x: Array) -> Array:
    flat = x.astype(np.float64).ravel()
    return np.fromiter(map(function, flat.tolist()), np.float64, flat.size).reshape(x.shape)


def is_whole(x: Array) -> bool:
    """True for whole numbers and for truth values."""
    return x.dtype.kind in "iub"


def like(x: Array, number: Any) -> Array:
    """The number in the type of the values; a negative one wraps in an unsigned type."""
    return np.asarray(number).astype(x.dtype)


def erf(x: Array) -> Array:
    """The error function."""
    return _each(math.erf, x)


def erfc(x: Array) -> Array:
    """One minus the error function, without cancellation."""
    return _each(math.erfc, x)


_LN2 = math.log(2)


def exp2(x: Array) -> Array:
    """2 to the power of x."""
    return np.asarray(np.exp(x * x.dtype.type(_LN2)) if x.dtype.kind == "c" else np.exp2(x))


def log2(x: Array) -> Array:
    """The logarithm to base 2."""
    if x.dtype.kind != "c":
        return np.asarray(np.log2(x))
    result = np.asarray(np.log(x))  # part by part: a complex factor makes NaN of 0 times infinity
    result.real /= _LN2
    result.imag /= _LN2
    return result


def rsqrt(x: Array) -> Array:
    """One over the square root."""
    return np.asarray(1 / np.sqrt(x))


def sigmoid(x: Array) -> Array:
    """One over 1 + exp(-x)."""
    return np.asarray(1 / (1 + np.exp(-x)))


def reciprocal(x: Array) -> Array:
    """One over x."""
    return np.asarray(1 / x)


def log1p(z: Array) -> Array:
    """log(1 + z); of a small complex number without the sum, which would swallow it.

    Source   c10/util/complex_math.h  log1p
    """
    if z.dtype.kind != "c":
        return np.asarray(np.log1p(z))
    x, y = z.real, z.imag
    grown = x * (x + 2) + y * y  # |1 + z|² - 1
    result = np.empty_like(z)
    result.real = np.where(
        np.abs(z) < 0.5, np.where(grown == 0, x, np.log1p(grown) / 2), np.log(np.hypot(x + 1, y))
    )
    result.imag = np.arctan2(y, x + 1)
    return result
