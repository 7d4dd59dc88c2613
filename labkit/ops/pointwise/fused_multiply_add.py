"""a * b + c with one rounding, which NumPy has no operation for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def fused_multiply_add(a: Any, b: Any, c: Any, dtype: Any = np.float32) -> Array:
    """The value of a * b + c, rounded once, as one instruction of the processor gives it.

    dtype  float32 or float64, of the operands and of the result

    Source   S. Boldo, G. Melquiond, Emulation of a FMA and correctly rounded sums (2008)
    """
    a, b, c = (np.asarray(each, dtype) for each in (a, b, c))
    if dtype == np.float32:
        product = a.astype(np.float64) * b  # exact
        return _add_to_odd(product, c.astype(np.float64)).astype(np.float32)
    high, low = _two_product(a, b)
    addend_high, addend_low = _two_sum(c, low)
    total, rest = _two_sum(high, addend_high)
    result: Array = total + _add_to_odd(addend_low, rest)
    return result


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum, and what rounding lost."""
    total = a + b
    from_b = total - a
    return total, (a - (total - from_b)) + (b - from_b)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product of float64 numbers, and what rounding lost."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, lost


def _halves(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0  # 2 to the 27, and 1
    high = scaled - (scaled - a)
    return high, a - high


def _add_to_odd(a: Array, b: Array) -> Array:
    """The sum, an inexact one rounded to the neighbour with an odd last bit.

    Rounding such a number once more, to fewer bits, is as good as rounding the exact sum.
    """
    total, lost = _two_sum(a, b)
    even = total.view(np.int64) & 1 == 0
    odd = np.nextafter(total, np.copysign(np.inf, lost))
    return np.where((lost != 0) & even, odd, total)
