"""Functions of one number.

Source   aten/src/ATen/native/UnaryOps.cpp
         aten/src/ATen/native/cpu/UnaryOpsKernel.cpp
Differs  the functions are NumPy's and the C library's, PyTorch's are SLEEF's: the last bits differ
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.pointwise import special_functions as special
from labkit.ops.pointwise.dtype_rules import (
    ALL_REAL_NUMBERS,
    COMMON,
    FLOATING_ONLY,
    LOGICAL,
    QUESTION,
    REAL,
    REAL_FLOAT,
    WITH_COMPLEX,
)
from labkit.ops.pointwise.pointwise import (
    OPERATORS,
    Array,
    Loop,
    Pointwise,
    Types,
    pointwise,
    replace_kernels,
)
from labkit.ops.registration import composite
from labkit.ops.tensors import copy

_UNARY = "(Tensor self) -> Tensor"


_WITH_COMPLEX: dict[str, Loop] = {
    "exp": np.exp, "log": np.log, "log10": np.log10, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "expm1": np.expm1, "log1p": special.log1p, "sigmoid": special.sigmoid,
    "rsqrt": special.rsqrt, "reciprocal": special.reciprocal,
}  # fmt: skip
for _name, _loop in _WITH_COMPLEX.items():
    pointwise(f"{_name}{_UNARY}", WITH_COMPLEX, fast=_loop)(_loop)
for _name, _loop in {"exp2": special.exp2, "log2": special.log2}.items():
    pointwise(f"{_name}{_UNARY}", WITH_COMPLEX)(_loop)
for _name, _loop in {"erf": special.erf, "erfc": special.erfc}.items():
    pointwise(f"{_name}{_UNARY}", REAL_FLOAT)(_loop)


# -- signs and rounding ---------------------------------------------------------------------------


@pointwise(f"sign{_UNARY}", REAL, keeps_dtype=True)
def sign(x: Array) -> Array:
    """-1, 0 or 1; NaN has no sign and gives 0."""
    return x if x.dtype == np.bool_ else np.asarray((x > 0).astype(x.dtype) - (x < 0))


@pointwise(f"sgn{_UNARY}", COMMON, keeps_dtype=True)
def sgn(z: Array) -> Array:
    """The direction of a complex number, 0 for 0; `sign` of a real one."""
    if z.dtype.kind != "c":
        return sign(z)
    length = np.abs(z)
    return np.where(length == 0, 0, z / np.where(length == 0, 1, length))


def _rounding(name: str, loop: Any) -> None:
    def rounded(x: Array) -> Array:
        return x if special.is_whole(x) else loop(x)

    pointwise(f"{name}{_UNARY}", ALL_REAL_NUMBERS, keeps_dtype=True)(rounded)


for _name, _loop in {
    "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "round": np.rint
}.items():  # fmt: skip
    _rounding(_name, _loop)


@pointwise(f"frac{_UNARY}", FLOATING_ONLY, keeps_dtype=True)
def frac(x: Array) -> Array:
    """What is behind the decimal point."""
    return np.asarray(x - np.trunc(x))


# -- questions ------------------------------------------------------------------------------------


@pointwise(f"isnan{_UNARY}", QUESTION, inplace=False)
def isnan(x: Array) -> Array:
    """Whether it is not a number."""
    return np.asarray(x != x)


@pointwise(f"isinf{_UNARY}", QUESTION, inplace=False)
def isinf(x: Array) -> Array:
    """Whether it, or a part of it, is infinite."""
    return np.zeros(x.shape, bool) if special.is_whole(x) else np.isinf(x)


def _signed_infinity(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> Types:
    if operands[0].dtype.is_complex:
        raise RuntimeError(f"{op.base} does not support complex inputs.")
    return operands[0].dtype, dtypes.bool_


@pointwise(f"isposinf{_UNARY}", _signed_infinity, inplace=False, keeps_dtype=True)
def isposinf(x: Array) -> Array:
    """Whether it is +infinity."""
    return np.zeros(x.shape, bool) if special.is_whole(x) else x == np.inf


@pointwise(f"isneginf{_UNARY}", _signed_infinity, inplace=False, keeps_dtype=True)
def isneginf(x: Array) -> Array:
    """Whether it is -infinity."""
    return np.zeros(x.shape, bool) if special.is_whole(x) else x == -np.inf


@pointwise(f"logical_not{_UNARY}", LOGICAL)
def logical_not(x: Array) -> Array:
    """Whether it is 0."""
    return np.asarray(x == 0)


@composite(f"isfinite{_UNARY}")
def isfinite(self: TensorImpl) -> Any:
    """Whether it is neither infinite nor NaN.

    Source   aten/src/ATen/native/TensorCompare.cpp  isfinite
    """
    if not self.dtype.is_inexact:
        return aten.ones_like.default(self, dtype=dtypes.bool_)
    if self.dtype.is_complex:
        return aten.logical_and.default(
            aten.isfinite.default(aten.real.default(self)),
            aten.isfinite.default(aten.imag.default(self)),
        )
    return aten.mul.Tensor(
        aten.eq.Tensor(self, self), aten.ne.Scalar(aten.abs.default(self), math.inf)
    )


# -- the rest -------------------------------------------------------------------------------------


def _isinf(self: TensorImpl) -> TensorImpl:
    """A result of whole numbers lies as `empty_like` of them, not as an iterator's output does."""
    if self.dtype.is_complex:
        parts = aten.real.default(self), aten.imag.default(self)
        either: TensorImpl = aten.logical_or.default(*map(aten.isinf.default, parts))
        return either
    if self.dtype.is_floating_point:
        return OPERATORS["isinf"].functional(self)
    return OPERATORS["isinf"].filling(copy.empty_like(self, dtype=dtypes.bool_), self)


replace_kernels("isinf", _isinf)


@composite(f"square{_UNARY}")
def square(self: TensorImpl) -> Any:
    """The number times itself."""
    return aten.pow.Tensor_Scalar(self, 2)
