"""What formulas of functions of each element share.

Source   torch/csrc/autograd/FunctionsManual.cpp
"""

import math
from collections.abc import Sequence
from typing import Any

from labkit.autograd.formulas.basics import conj, zeros, zeros_like
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten


def power(a: Any, exponent: float) -> Any:
    """A tensor to a number's power."""
    return aten.pow.Tensor_Scalar(a, exponent)


def zero_where(mask: Any, grad: Any) -> Any:
    """The gradient, zero where the mask is true."""
    if mask.dim() > grad.dim() or mask.sizes != grad.sizes:
        zero = zeros((), grad.dtype, grad.device)
        return aten.where.self(mask, zero, grad)
    return aten.masked_fill.Scalar(grad, mask, 0)


def halved_where(mask: Any, grad: Any) -> Any:
    """Half the gradient where the mask is true."""
    return aten.where.self(mask, grad / 2, grad)


def takes_first(a: Any, b: Any, larger: bool) -> Any:
    """True where fmax or fmin takes a."""
    mine = aten.ge(a, b) if larger else aten.le(a, b)
    return aten.logical_or.default(mine, aten.isnan.default(b))


def clamp_self(grad: Any, self: Any, low: Any, high: Any) -> Any:
    """The gradient where the value was inside the bounds, both included.

    Source   torch/csrc/autograd/FunctionsManual.cpp  clamp_backward
    """
    if low is None and high is None:
        return grad
    if high is None:
        inside = aten.ge(self, low)
    elif low is None:
        inside = aten.le(self, high)
    else:
        inside = aten.logical_and.default(aten.ge(self, low), aten.le(self, high))
    return zero_where(aten.logical_not.default(inside), grad)


def clamp_min_max(grad: Any, self: Any, low: Any, high: Any, needs: Sequence[bool]) -> Any:
    """The gradients of the bounds: where they were taken.

    Source   torch/csrc/autograd/FunctionsManual.cpp  clamp_backward_min_max
    """
    of_low = of_high = None
    if low is not None and needs[0]:
        taken = aten.lt(self, low)
        if high is not None:
            taken = aten.logical_and.default(taken, aten.lt(low, high))
        of_low = zero_where(aten.logical_not.default(taken), grad)
    if high is not None and needs[1]:
        taken = aten.gt(self, high)
        if low is not None:
            taken = aten.logical_or.default(taken, aten.lt(high, low))
        of_high = zero_where(aten.logical_not.default(taken), grad)
    return of_low, of_high


def masked_fill_value(grad: Any, mask: Any) -> Any:
    """The gradients of all places that got the value, summed.

    Source   torch/csrc/autograd/FunctionsManual.cpp  masked_fill_backward
    """
    return aten.sum.default(zero_where(aten.logical_not.default(mask), grad))


def pow_self(grad: Any, self: Any, exponent: complex) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  pow_backward."""
    if exponent == 0.0:
        return zeros_like(self)
    factor = exponent * aten.pow.Tensor_Scalar(self, exponent - 1)
    return grad * conj(factor)


def pow_self_tensor(grad: Any, self: Any, exponent: Any) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  pow_backward_self."""
    factor = exponent * aten.pow.Tensor_Tensor(self, exponent - 1)
    return zero_where(aten.eq(exponent, 0.0), grad * conj(factor))


def pow_exponent(grad: Any, self: Any, exponent: Any, result: Any) -> Any:
    """Zero where zero was raised to what is not negative, as in PyTorch.

    Source   torch/csrc/autograd/FunctionsManual.cpp  pow_backward_exponent
    """
    if exponent.dtype.is_complex:
        size = aten.real.default(exponent)
        allowed = aten.logical_and.default(
            aten.eq.Scalar(aten.imag.default(exponent), 0), aten.ge(size, 0)
        )
    else:
        allowed = aten.ge(exponent, 0)
    mask = aten.logical_and.default(aten.eq(self, 0), allowed)
    factor = conj(result * aten.log.default(self))
    return zero_where(mask, grad * factor)


def pow_scalar_exponent(grad: Any, self: complex, exponent: Any, result: Any) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  pow_backward_exponent."""
    if self == 0:
        factor = conj(result * -math.inf)
        return zero_where(aten.ge(exponent, 0), grad * factor)
    base = math.log(self) if not isinstance(self, complex) and self > 0 else None
    if base is None:
        number = aten.full.default([], self, dtype=result.dtype, device=result.device)
        return grad * conj(result * aten.log.default(number))
    return grad * conj(result * base)


def div_mode_self(grad: Any, other: Any, dtype: Any, rounding_mode: str | None) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  div_tensor_self_backward."""
    if rounding_mode is not None:
        return zeros_like(grad)
    return grad / (conj(other) if isinstance(other, TensorImpl) else other)


def div_mode_other(grad: Any, self: Any, other: Any, rounding_mode: str | None) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  div_tensor_other_backward."""
    if rounding_mode is not None:
        return zeros_like(grad)
    return -grad * conj((self / other) / other)


def acosh_self(grad: Any, self: Any) -> Any:
    """On one branch for complex numbers, on the real line otherwise."""
    if self.dtype.is_complex:
        product = aten.rsqrt.default(self + 1) * aten.rsqrt.default(self - 1)
        return grad * conj(product)
    return grad * aten.rsqrt.default(self * self - 1)


def sgn_self(grad: Any, self: Any, result: Any) -> Any:
    """Zero for real numbers; a complex sign moves along its circle.

    Source   torch/csrc/autograd/FunctionsManual.cpp  sgn_backward
    """
    if not self.dtype.is_complex:
        return zeros_like(grad)
    size = aten.abs.default(self)
    along = aten.real.default(grad / result) * result
    return zero_where(aten.eq(size, 0.0), (grad - along) / size)


def atan2_backward(grad: Any, self: Any, other: Any, needs: Sequence[bool]) -> Any:
    """Source   torch/csrc/autograd/FunctionsManual.cpp  atan2_backward."""
    square = self * self + other * other
    inverse = zero_where(aten.eq(square, 0), aten.reciprocal.default(square))
    return (
        grad * other * inverse if needs[0] else None,
        grad * -self * inverse if needs[1] else None,
    )
