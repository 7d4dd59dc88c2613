"""Functions of two numbers beyond arithmetic.

Source   aten/src/ATen/native/BinaryOps.cpp, Pow.cpp
         aten/src/ATen/native/cpu/BinaryOpsKernel.cpp
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core import promotion
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.pointwise import special_functions as special
from labkit.ops.pointwise.dtype_rules import (
    BAREBONES,
    LOGICAL,
    NUMBERS,
    REAL_FLOAT,
    REAL_NUMBERS,
    WITH_COMPLEX,
    common_dtype,
    not_implemented,
)
from labkit.ops.pointwise.pointwise import (
    OPERATORS,
    Array,
    Pointwise,
    Types,
    define_in_place,
    pointwise,
    wrapped_number,
)
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

_BINARY = "(Tensor self, Tensor other) -> Tensor"


def _refuse_zero(name: str, x: Array, divisor: Array) -> None:
    if special.is_whole(divisor) and x.size and not np.all(divisor):
        raise RuntimeError(f"ZeroDivisionError: {name} of whole numbers by 0")


pointwise(f"atan2{_BINARY}", REAL_FLOAT)(np.arctan2)


@pointwise(f"fmod.Tensor{_BINARY}", REAL_NUMBERS, out="Tensor_out")
def fmod(x: Array, y: Array) -> Array:
    """What is left of dividing towards 0; it has the sign of the dividend."""
    _refuse_zero("fmod", x, y)
    return np.asarray(np.fmod(x, y))


def _floor(x: Array, y: Array) -> Array:
    _refuse_zero("floor division", x, y)
    return np.asarray(np.floor_divide(x, y))


pointwise(f"floor_divide{_BINARY}", REAL_NUMBERS, inplace=False)(_floor)
define_in_place("floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", "floor_divide")


def _mode(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    mode = others["rounding_mode"]
    if mode is None:
        return WITH_COMPLEX(op, operands, others)
    if mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'"
        )
    return REAL_NUMBERS(op, operands, others)


@pointwise(
    "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
    _mode,
    out="out_mode",
)
def div_mode(x: Array, y: Array, rounding_mode: str | None) -> Array:
    """The quotient, as it is or rounded down or towards 0.

    Differs  quotients of two-byte floats are not rounded to their type before they are cut off
    """
    if rounding_mode is None:
        return np.asarray(np.true_divide(x, y))
    if rounding_mode == "floor":
        return _floor(x, y)
    _refuse_zero("division", x, y)
    if not special.is_whole(x):
        return np.asarray(np.trunc(x / y))
    quotient = np.floor_divide(x, y)
    uneven = (quotient * y != x) & ((x < 0) != (y < 0))
    return np.asarray(quotient + uneven.astype(quotient.dtype))


def _ordered(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    common = common_dtype(operands)
    if any(operand.dtype.is_complex for operand in operands):
        raise RuntimeError(f"{op.base} not implemented for complex tensors.")
    if common in BAREBONES:
        raise not_implemented(op, common)
    return common, common


for _name, _loop in {
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin
}.items():  # fmt: skip
    pointwise(f"{_name}{_BINARY}", _ordered, inplace=False)(_loop)


@composite("max.other(Tensor self, Tensor other) -> Tensor")
def max_other(self: TensorImpl, other: TensorImpl) -> Any:
    """The larger one."""
    return aten.maximum.default(self, other)


@composite("min.other(Tensor self, Tensor other) -> Tensor")
def min_other(self: TensorImpl, other: TensorImpl) -> Any:
    """The smaller one."""
    return aten.minimum.default(self, other)


@pointwise(f"logical_and{_BINARY}", LOGICAL)
def logical_and(x: Array, y: Array) -> Array:
    """Whether neither is 0."""
    return np.asarray((x != 0) & (y != 0))


@pointwise(f"logical_or{_BINARY}", LOGICAL)
def logical_or(x: Array, y: Array) -> Array:
    """Whether not both are 0."""
    return np.asarray((x != 0) | (y != 0))


@pointwise(f"logical_xor{_BINARY}", LOGICAL)
def logical_xor(x: Array, y: Array) -> Array:
    """Whether exactly one is 0."""
    return np.asarray((x != 0) != (y != 0))


# -- powers ---------------------------------------------------------------------------------------


def _power(x: Array, y: Array) -> Array:
    if not special.is_whole(x):
        return np.asarray(np.power(x, y))
    # A negative exponent leaves 1 of 1 and a sign of -1, and nothing of any other whole number.
    odd = y % 2 != 0
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0)).astype(x.dtype)
    return np.where(y < 0, inverse, np.power(x, np.where(y < 0, 0, y)))


pointwise(
    "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", NUMBERS,
    inplace=False, out="Tensor_Tensor_out",
)(_power)  # fmt: skip


def _power_of(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    exponent = others["exponent"]
    common = promotion.result_type(operands[0], exponent)
    negative = isinstance(exponent, int) and exponent < 0
    if negative and (operands[0].dtype.is_integral or operands[0].dtype.kind == "bool"):
        raise RuntimeError(
            f"Integers to negative integer powers are not allowed: exponent {exponent}"
        )
    computes = exponent not in (0, 1)  # to the power 0 it is filled with 1, to 1 copied
    if computes and (common.kind == "bool" or common in BAREBONES or common is dtypes.complex32):
        raise not_implemented(op, common)
    return common, common


def _raised(x: Array, exponent: complex) -> Array:
    if exponent == 0:
        return np.ones_like(x)
    if exponent == 1:
        return x.copy()
    if exponent == 2:
        return np.asarray(x * x)
    if exponent == 0.5 and not special.is_whole(x):
        return np.asarray(np.sqrt(x))
    if exponent == -1 and not special.is_whole(x):
        return np.asarray(1 / x)
    return _power(x, np.asarray(exponent).astype(x.dtype))


pointwise(
    "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", _power_of,
    inplace=False, out="Tensor_Scalar_out",
)(_raised)  # fmt: skip
define_in_place("pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)", "pow.Tensor_Scalar")
define_in_place("pow_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)", "pow.Tensor_Tensor")


@kernel("pow.Scalar(Scalar self, Tensor exponent) -> Tensor", "CompositeExplicitAutograd")
def pow_scalar(self: complex, exponent: TensorImpl) -> TensorImpl:
    """A number to the powers of a tensor."""
    dtype = promotion.result_type(self, exponent)
    result = copy.empty_like(exponent, copy.contiguous_format, dtype)
    return OPERATORS["pow.Tensor_Tensor"].filling(result, wrapped_number(self), exponent)


@composite("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, "
           "bool equal_nan=False) -> Tensor")  # fmt: skip
def isclose(
    self: TensorImpl,
    other: TensorImpl,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Any:
    """Whether the difference is at most atol, plus rtol of the other number.

    Source   aten/src/ATen/native/TensorCompare.cpp  isclose
    """
    if self.dtype is not other.dtype:
        raise RuntimeError(f"{self.dtype.name} did not match {other.dtype.name}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"rtol and atol must not be negative, but got {rtol} and {atol}")
    close = aten.eq.Tensor(self, other)
    if equal_nan and self.dtype.is_inexact:
        both = aten.logical_and.default(aten.isnan.default(self), aten.isnan.default(other))
        close = aten.logical_or.default(close, both)
    if rtol == 0 and atol == 0:
        return close
    if not self.dtype.is_inexact:
        default = promotion.get_default_dtype()
        self, other = aten.to.dtype(self, default), aten.to.dtype(other, default)
    allowed = aten.add.Scalar(aten.abs.default(aten.mul.Scalar(other, rtol)), atol)
    actual = aten.abs.default(aten.sub.Tensor(self, other))
    near = aten.logical_and.default(aten.isfinite.default(actual), aten.le.Tensor(actual, allowed))
    return aten.logical_or.default(close, near)


@kernel("allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, "
        "bool equal_nan=False) -> bool", "CompositeExplicitAutograd")  # fmt: skip
def allclose(
    self: TensorImpl,
    other: TensorImpl,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> bool:
    """Whether `isclose` holds everywhere."""
    close = aten.isclose.default(self, other, rtol, atol, equal_nan)
    return bool(copy.item(aten.all.default(close)))
