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
from labkit.core import promotion
from labkit.core.dtype import DType
from labkit.core.formats import largest_finite
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.pointwise import special_functions as special
from labkit.ops.pointwise.dtype_rules import (
    BAREBONES,
    FLOAT,
    FLOATING_ONLY,
    LOGICAL,
    QUESTION,
    REAL,
    REAL_FLOAT,
    WITH_COMPLEX,
    common_dtype,
    refuse,
)
from labkit.ops.pointwise.layouts import like_the_input, register
from labkit.ops.pointwise.pointwise import OPERATORS, Array, Loop, Pointwise, Types, pointwise
from labkit.ops.registration import composite
from labkit.ops.tensors import copy

_UNARY = "(Tensor self) -> Tensor"


def _is_whole(x: Array) -> bool:
    return x.dtype.kind in "iub"


_WITH_COMPLEX: dict[str, Loop] = {
    "exp": np.exp, "log": np.log, "log10": np.log10, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "expm1": np.expm1, "log1p": special.log1p, "sigmoid": special.sigmoid,
    "rsqrt": special.rsqrt, "reciprocal": special.reciprocal,
}  # fmt: skip
for _name, _loop in _WITH_COMPLEX.items():
    pointwise(f"{_name}{_UNARY}", WITH_COMPLEX, fast=_loop)(_loop)
for _name, _loop in {"exp2": special.exp2, "log2": special.log2, "sinc": special.sinc}.items():
    pointwise(f"{_name}{_UNARY}", WITH_COMPLEX)(_loop)
for _name, _loop in {
    "erf": special.erf, "erfc": special.erfc, "erfinv": special.erfinv, "lgamma": special.lgamma,
    "digamma": special.digamma,
}.items():  # fmt: skip
    pointwise(f"{_name}{_UNARY}", REAL_FLOAT)(_loop)


def _degrees(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    compute, result = FLOAT(op, operands, {})
    if compute.is_complex:
        raise RuntimeError(f"{op.base} is not supported for complex tensors.")
    return compute, result


@pointwise(f"deg2rad{_UNARY}", _degrees)
def deg2rad(x: Array) -> Array:
    """Degrees as radians."""
    return np.asarray(x * x.dtype.type(math.pi / 180))


@pointwise(f"rad2deg{_UNARY}", _degrees)
def rad2deg(x: Array) -> Array:
    """Radians as degrees."""
    return np.asarray(x * x.dtype.type(180 / math.pi))


@pointwise("logit(Tensor self, float? eps=None) -> Tensor", REAL_FLOAT)
def logit(x: Array, eps: float | None = None) -> Array:
    """The logarithm of the odds; of numbers clamped to [eps, 1 - eps] when `eps` is given."""
    if eps is not None:
        low = x.dtype.type(eps)
        x = np.where(x < low, low, np.where(x > 1 - low, 1 - low, x))
    return np.asarray(np.log(x / (1 - x)))


def _polygamma(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    if others["n"] < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n: {others['n']}")
    return REAL_FLOAT(op, operands, others)


@pointwise("polygamma(int n, Tensor self) -> Tensor", _polygamma, inplace=False)
def polygamma(n: int, x: Array) -> Array:
    """The n-th derivative of `digamma`."""
    if n == 0:
        return special.digamma(x)
    return special.trigamma(x) if n == 1 else special.polygamma(n, x)


# -- signs and rounding ---------------------------------------------------------------------------


@pointwise(f"sign{_UNARY}", REAL, keeps_dtype=True)
def sign(x: Array) -> Array:
    """-1, 0 or 1; NaN has no sign and gives 0."""
    return x if x.dtype == np.bool_ else np.asarray((x > 0).astype(x.dtype) - (x < 0))


def _sgn(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    common = common_dtype(op, operands)
    if common in BAREBONES:
        raise refuse(op, common)
    return common, common


@pointwise(f"sgn{_UNARY}", _sgn, keeps_dtype=True)
def sgn(z: Array) -> Array:
    """The direction of a complex number, 0 for 0; `sign` of a real one."""
    if z.dtype.kind != "c":
        return sign(z)
    length = np.abs(z)
    return np.where(length == 0, 0, z / np.where(length == 0, 1, length))


def _sign_bit(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    common = common_dtype(op, operands)
    if common.is_complex:
        raise refuse(op, common)
    return common, dtypes.bool_


@pointwise(f"signbit{_UNARY}", _sign_bit, inplace=False, keeps_dtype=True)
def signbit(x: Array) -> Array:
    """Whether the sign bit is set, as it is for -0.0."""
    return np.asarray(x < 0 if _is_whole(x) else np.signbit(x))


def _rounding(name: str, loop: Any) -> None:
    def rounded(x: Array) -> Array:
        return x if _is_whole(x) else loop(x)

    pointwise(f"{name}{_UNARY}", _whole_too, keeps_dtype=True)(rounded)


def _whole_too(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    common = common_dtype(op, operands)
    if common.is_complex or common.kind == "bool":
        raise refuse(op, common)
    return common, common


for _name, _loop in {
    "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "round": np.rint
}.items():  # fmt: skip
    _rounding(_name, _loop)


@pointwise(
    "round.decimals(Tensor self, *, int decimals) -> Tensor",
    FLOATING_ONLY,
    out="decimals_out",
    keeps_dtype=True,
)
def round_decimals(x: Array, decimals: int) -> Array:
    """Rounded to a number of decimal places, or to tens and hundreds for a negative one."""
    power = x.dtype.type(10.0 ** abs(decimals))
    if decimals < 0:
        return np.asarray(np.rint(x / power) * power)
    return np.asarray(np.rint(x * power) / power)


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
    return np.zeros(x.shape, bool) if _is_whole(x) else np.isinf(x)


def _signed_infinity(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    if operands[0].dtype.is_complex:
        raise RuntimeError(f"{op.base} does not support complex inputs.")
    return operands[0].dtype, dtypes.bool_


@pointwise(f"isposinf{_UNARY}", _signed_infinity, inplace=False, keeps_dtype=True)
def isposinf(x: Array) -> Array:
    """Whether it is +infinity."""
    return np.zeros(x.shape, bool) if _is_whole(x) else x == np.inf


@pointwise(f"isneginf{_UNARY}", _signed_infinity, inplace=False, keeps_dtype=True)
def isneginf(x: Array) -> Array:
    """Whether it is -infinity."""
    return np.zeros(x.shape, bool) if _is_whole(x) else x == -np.inf


@pointwise(f"logical_not{_UNARY}", LOGICAL)
def logical_not(x: Array) -> Array:
    """Whether it is 0."""
    return np.asarray(x == 0)


@composite(f"isfinite{_UNARY}")
def isfinite(self: TensorImpl) -> Any:
    """Whether it is neither infinite nor NaN.

    Source   aten/src/ATen/native/TensorCompare.cpp  isfinite
    """
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
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


def _angle(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    compute, _ = WITH_COMPLEX(op, operands, {})
    return compute, dtypes.to_real(compute)


@pointwise(f"angle{_UNARY}", _angle, inplace=False)
def angle(z: Array) -> Array:
    """The angle of a complex number; of a real one 0 or pi, or NaN."""
    if z.dtype.kind == "c":
        return np.angle(z)
    return np.where(np.isnan(z), z, np.where(z < 0, z.dtype.type(math.pi), z.dtype.type(0)))


def _not_half_complex(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> tuple[DType, DType]:
    common = common_dtype(op, operands)
    if common is dtypes.complex32:
        raise refuse(op, common)
    return common, common


_NAN_TO_NUM = "(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"


@pointwise(f"nan_to_num{_NAN_TO_NUM}", _not_half_complex)
def nan_to_num(
    x: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """Numbers in the places of NaN and of the infinities."""
    if _is_whole(x):
        return x
    if x.dtype.kind == "c":
        result = np.empty_like(x)
        result.real = nan_to_num(x.real, nan, posinf, neginf)
        result.imag = nan_to_num(x.imag, nan, posinf, neginf)
        return result
    found = np.where(np.isnan(x), x.dtype.type(0 if nan is None else nan), x)
    found = np.where(x == np.inf, x.dtype.type(posinf), found)
    return np.where(x == -np.inf, x.dtype.type(neginf), found)


def _as_float(dtype: DType) -> DType:
    if dtype.is_complex:
        raise RuntimeError(f"angles in degrees are real: {dtype.name} is not supported")
    return dtype if dtype.is_floating_point else promotion.get_default_dtype()


def _contiguous_angle(self: TensorImpl) -> TensorImpl:
    op = OPERATORS["angle"]
    if not self.dtype.is_complex:
        return op.functional(self)
    _, dtype = _angle(op, [self], {})
    result = copy.empty_like(self, copy.contiguous_format, dtype)
    op.into(self, out=result)
    result.version_counter.version = 0
    return result


def _any_isinf(self: TensorImpl) -> TensorImpl:
    whole = not (self.dtype.is_floating_point or self.dtype.is_complex)
    return whole_isinf(self) if whole else OPERATORS["isinf"].functional(self)


for _name in ("deg2rad", "rad2deg"):
    like_the_input(_name, _as_float)
whole_isinf = like_the_input("isinf", lambda _: dtypes.bool_)
register("isinf", _any_isinf)
register("angle", _contiguous_angle)


def _with_limits(name: str, function: Any) -> None:
    """Infinities become the largest numbers of the tensor's own type, unless others are given."""

    def limited(
        self: TensorImpl,
        nan: float | None = None,
        posinf: float | None = None,
        neginf: float | None = None,
        **out: TensorImpl,
    ) -> TensorImpl:
        if self.dtype.is_floating_point or self.dtype.is_complex:
            largest = largest_finite(self.dtype)
            posinf = largest if posinf is None else posinf
            neginf = -largest if neginf is None else neginf
        result: TensorImpl = function(self, nan, posinf, neginf, **out)
        return result

    register(name, limited)


_with_limits("nan_to_num", like_the_input("nan_to_num"))
_with_limits("nan_to_num_", OPERATORS["nan_to_num"].in_place)
_with_limits("nan_to_num.out", OPERATORS["nan_to_num"].into)


@composite(f"square{_UNARY}")
def square(self: TensorImpl) -> Any:
    """The number times itself."""
    return aten.pow.Tensor_Scalar(self, 2)


@composite("square_(Tensor(a!) self) -> Tensor(a!)", variants="method")
def square_(self: TensorImpl) -> Any:
    """The number times itself, in place."""
    return aten.pow_.Scalar(self, 2)


@composite("positive(Tensor(a) self) -> Tensor(a)")
def positive(self: TensorImpl) -> Any:
    """The tensor itself; a bool tensor is refused."""
    if self.dtype.kind == "bool":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


_ALIASES = {
    "absolute": "abs", "negative": "neg", "fix": "trunc", "arccos": "acos", "arcsin": "asin",
    "arctan": "atan", "arccosh": "acosh", "arcsinh": "asinh", "arctanh": "atanh",
}  # fmt: skip


def _alias(name: str, target: str, schema: str, variants: str) -> None:
    def same(self: TensorImpl) -> Any:
        return getattr(aten, target).default(self)

    composite(f"{name}{schema}", variants=variants)(same)


for _name, _target in _ALIASES.items():
    _alias(_name, _target, _UNARY, "function, method")
    _alias(f"{_name}_", f"{_target}_", "(Tensor(a!) self) -> Tensor(a!)", "method")
for _name, _target in {
    "special_expit": "sigmoid", "special_erf": "erf", "special_erfc": "erfc",
    "special_erfinv": "erfinv", "special_exp2": "exp2", "special_expm1": "expm1",
    "special_digamma": "digamma", "special_psi": "digamma", "special_gammaln": "lgamma",
    "special_log1p": "log1p", "special_sinc": "sinc",
}.items():  # fmt: skip
    _alias(_name, _target, _UNARY, "")
