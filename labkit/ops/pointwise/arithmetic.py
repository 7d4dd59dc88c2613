"""Arithmetic, comparison and bitwise operators: one loop and one rule each.

Source   aten/src/ATen/native/BinaryOps.cpp, UnaryOps.cpp
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops import fallback
from labkit.ops.iterator.tensor_iterator import common_device
from labkit.ops.pointwise.dtype_rules import (
    ALL_REAL_NUMBERS,
    ARITHMETIC,
    COMPARISON,
    MAGNITUDE,
    REAL_COMPARISON,
    WHOLE,
    WITH_COMPLEX,
    common_dtype,
)
from labkit.ops.pointwise.pointwise import (
    OPERATORS,
    Array,
    Pointwise,
    Types,
    pointwise,
    wrapped_number,
)
from labkit.ops.registration import DEVICES, kernel
from labkit.ops.tensors import copy


def _scaled(y: Array, alpha: complex) -> Array:
    return y if alpha == 1 else y * np.asarray(alpha).astype(y.dtype)


def _with_alpha(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """The promoted type; `alpha` may not be of a higher kind than it.

    Source   aten/src/ATen/native/BinaryOps.h  alpha_check
    """
    common = common_dtype(operands)
    alpha = others["alpha"]
    if isinstance(alpha, bool) and common.kind != "bool":
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    whole = not common.is_inexact
    if whole and not isinstance(alpha, int):
        raise RuntimeError(
            f"For integral input tensors, argument alpha must not be a floating point number: "
            f"{alpha!r}"
        )
    if isinstance(alpha, complex) and not common.is_complex:
        raise RuntimeError(
            f"For non-complex input tensors, argument alpha must not be a complex number: {alpha!r}"
        )
    return common, common


def _no_bool_sub(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    if any(operand.dtype.kind == "bool" for operand in operands):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. Use the `^`, the "
            "`~` or the `logical_xor()` operator instead."
        )
    return _with_alpha(op, operands, others)


def _no_bool_neg(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    if operands[0].dtype.kind == "bool":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. Use the `~` or "
            "`logical_not()` operator instead."
        )
    return ARITHMETIC(op, operands, others)


def _add(x: Array, y: Array, alpha: complex = 1) -> Array:
    result: Array = np.add(x, _scaled(y, alpha))
    return result


def _sub(x: Array, y: Array, alpha: complex = 1) -> Array:
    result: Array = np.subtract(x, _scaled(y, alpha))
    return result


def _remainder(x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu" and x.size and not np.all(y):
        raise RuntimeError("ZeroDivisionError: remainder of whole numbers by 0")
    result: Array = np.remainder(x, y)
    if result.dtype.kind != "f":
        return result
    return np.where(result == 0, np.copysign(result, x), result)  # NumPy's zero has the sign of y


_BINARY = "(Tensor self, Tensor other) -> Tensor"
_ALPHA = "(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
pointwise(f"add.Tensor{_ALPHA}", _with_alpha, fast=np.add)(_add)
pointwise(f"sub.Tensor{_ALPHA}", _no_bool_sub, fast=np.subtract)(_sub)
pointwise(f"mul.Tensor{_BINARY}", ARITHMETIC, fast=np.multiply)(np.multiply)
pointwise(f"div.Tensor{_BINARY}", WITH_COMPLEX, fast=np.true_divide)(np.true_divide)
pointwise(f"remainder.Tensor{_BINARY}", ALL_REAL_NUMBERS, out="Tensor_out")(_remainder)
pointwise(f"eq.Tensor{_BINARY}", COMPARISON, out="Tensor_out")(np.equal)
pointwise(f"ne.Tensor{_BINARY}", COMPARISON, out="Tensor_out")(np.not_equal)
for _name, _loop in {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal
}.items():  # fmt: skip
    pointwise(f"{_name}.Tensor{_BINARY}", REAL_COMPARISON, out="Tensor_out")(_loop)
for _name, _bits in {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor
}.items():  # fmt: skip
    pointwise(f"{_name}.Tensor{_BINARY}", WHOLE, out="Tensor_out")(_bits)
pointwise("neg(Tensor self) -> Tensor", _no_bool_neg, keeps_dtype=True, fast=np.negative)(
    np.negative
)
pointwise("bitwise_not(Tensor self) -> Tensor", WHOLE, keeps_dtype=True)(np.invert)
pointwise("abs(Tensor self) -> Tensor", MAGNITUDE, keeps_dtype=True, fast=np.abs)(np.abs)


@kernel("rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", variants="function")
def rsub(self: TensorImpl, other: TensorImpl, *, alpha: complex = 1) -> TensorImpl:
    """`other - alpha * self`."""
    return OPERATORS["sub.Tensor"].functional(other, self, alpha=alpha)


@kernel("rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", variants="function")
def rsub_scalar(self: TensorImpl, other: complex, alpha: complex = 1) -> TensorImpl:
    """A number minus `alpha * self`."""
    return OPERATORS["sub.Tensor"].functional(wrapped_number(other), self, alpha=alpha)


for _key in DEVICES:
    kernel("rsub.Tensor", _key)(rsub)
    kernel("rsub.Scalar", _key)(rsub_scalar)


def equal(a: TensorImpl, b: TensorImpl) -> bool:
    """True when sizes and all values are equal."""
    common_device([a, b])
    fallback.note_if_on_device("equal", a, b)
    return a.sizes == b.sizes and bool(np.array_equal(copy.values(a), copy.values(b)))
