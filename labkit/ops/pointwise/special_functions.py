"""Functions that NumPy lacks: error function, gamma function and their kin, element by element.

`erf`, `erfc` and `lgamma` are the C library's. `erfinv` and `digamma` agree with PyTorch's float64
to a few units in the last place; float32 is computed in float64 and rounded.

Source   aten/src/ATen/native/Math.h
         W. J. Cody, M. Giles: rational approximations of erf and its inverse
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


def erf(x: Array) -> Array:
    """The error function."""
    return _each(math.erf, x)


def erfc(x: Array) -> Array:
    """One minus the error function, without cancellation."""
    return _each(math.erfc, x)


def lgamma(x: Array) -> Array:
    """The logarithm of the absolute value of the gamma function; infinite at its poles."""
    return _each(_lgamma, x)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


_HALF_ERFINV = ([0.886226899, -1.645349621, 0.914624893, -0.140543331],
                [1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801])  # fmt: skip
_TAIL_ERFINV = ([-1.970840454, -1.624906493, 3.429567803, 1.641345311],
                [1.0, 3.543889200, 1.637067800])  # fmt: skip


def erfinv(y: Array) -> Array:
    """The number whose error function is y: a rational guess, then two steps of Newton's method."""
    y = y.astype(np.float64)
    with np.errstate(all="ignore"):
        magnitude = np.abs(y)
        square = y * y
        central = y * _rational(_HALF_ERFINV, square)
        tail = np.sqrt(-np.log((1.0 - magnitude) / 2.0))
        x = np.where(magnitude <= 0.7, central, np.copysign(_rational(_TAIL_ERFINV, tail), y))
        for _ in range(2):
            x = x - (erf(x) - y) / (2.0 / math.sqrt(math.pi) * np.exp(-x * x))
        x = np.where(magnitude == 1.0, np.copysign(np.inf, y), x)
        return np.where(magnitude > 1.0, np.nan, x)


def _rational(coefficients: tuple[list[float], list[float]], x: Array) -> Array:
    top, bottom = coefficients
    result: Array = np.polyval(top[::-1], x) / np.polyval(bottom[::-1], x)
    return result


_BERNOULLI = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12]
"""B(2n) / 2n of the asymptotic series of digamma."""


def digamma(x: Array) -> Array:
    """The logarithmic derivative of the gamma function."""
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        whole = np.trunc(x)
        # Below zero the reflection formula leads to a positive argument.
        reflected = np.where(x < 0, math.pi / np.tan(math.pi * (x - whole)), 0.0)
        argument = np.where(x < 0, 1.0 - x, x)
        result = np.where(argument == 0, np.copysign(np.inf, -x), _digamma_positive(argument))
        result = result - reflected
        return np.where((x < 0) & (x == whole), np.nan, result)


def _digamma_positive(x: Array) -> Array:
    result = np.zeros_like(x)
    for _ in range(10):  # up to where the series is exact
        small = x < 10
        result = np.where(small, result - 1.0 / np.where(small, x, 1.0), result)
        x = np.where(small, x + 1.0, x)
    inverse_square = 1.0 / (x * x)
    series = inverse_square * np.polyval(_BERNOULLI[::-1], inverse_square)
    series = np.where(np.isinf(x), 0.0, series)
    return np.asarray(result + (np.log(x) - 0.5 / x - series))


def trigamma(x: Array) -> Array:
    """The derivative of `digamma`."""
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        reflected = x < 0.5
        sine = np.where(reflected, np.sin(math.pi * x), 1.0)
        argument = np.where(reflected, 1.0 - x, x)
        found = np.zeros_like(argument)
        for _ in range(8):
            found = found + 1.0 / (argument * argument)
            argument = argument + 1.0
        inverse_square = 1.0 / (argument * argument)
        series = 1 / 6 - inverse_square * (1 / 30 - inverse_square * (1 / 42 - inverse_square / 30))
        found = found + (1.0 + 0.5 / argument + inverse_square * series) / argument
        return np.where(reflected, -found + (math.pi / sine) ** 2, found)


_EULER_MACLAURIN = [
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
    -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
    1.8152105401943546773e17, -7.1661652561756670113e18,
]  # fmt: skip
"""(2k)! over the Bernoulli number B(2k)."""


def zeta(exponent: float, q: Array) -> Array:
    """The sum of 1 / (q + k) ** exponent over k from 0; infinite at the poles, which are whole."""
    q = q.astype(np.float64)
    with np.errstate(all="ignore"):
        total, a = np.power(q, -exponent), q
        term = np.zeros_like(q)
        for step in range(9 + int(max(-np.nanmin(np.where(np.isfinite(q), q, 0.0), initial=0), 0))):
            going = (a <= 9) | (step < 9)
            a = np.where(going, a + 1.0, a)
            term = np.where(going, np.power(a, -exponent), term)
            total = np.where(going, total + term, total)
        total = total + term * a / (exponent - 1.0) - 0.5 * term
        factor, power = 1.0, term
        for k, divisor in enumerate(_EULER_MACLAURIN):
            factor *= exponent + 2 * k
            power = power / a
            total = total + factor * power / divisor
            factor *= exponent + 2 * k + 1
            power = power / a
        pole = (q <= 0) & (q == np.floor(q))
        return np.where(pole, np.inf, total)


def polygamma(order: int, x: Array) -> Array:
    """The derivative of `digamma` of that order, from 2 on."""
    sign = 1.0 if order % 2 else -1.0
    return np.asarray(sign * math.factorial(order) * zeta(order + 1.0, x))


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


def sinc(x: Array) -> Array:
    """sin(pi x) / (pi x), and 1 at 0."""
    scaled = x * x.dtype.type(math.pi)
    return np.where(x == 0, x.dtype.type(1), np.sin(scaled) / np.where(x == 0, 1, scaled))
