"""Functions of three numbers: clamp, lerp, addcmul, addcdiv, where.

Source   aten/src/ATen/native/TensorCompare.cpp, Lerp.cpp, PointwiseOps.cpp
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core import promotion, tensor_impl
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.iterator.iteration_order import output_strides
from labkit.ops.iterator.tensor_iterator import common_device
from labkit.ops.pointwise.dtype_rules import (
    BAREBONES,
    FLOATING_OR_COMPLEX,
    NUMBERS,
    not_implemented,
)
from labkit.ops.pointwise.pointwise import (
    OPERATORS,
    Array,
    Pointwise,
    Types,
    pointwise,
    replace_kernels,
    wrapped_number,
)
from labkit.ops.pointwise.special_functions import like
from labkit.ops.registration import composite
from labkit.ops.tensors import copy


def _clamp_rule(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    bounds = [others[name] for name in ("min", "max") if others.get(name) is not None]
    if len(operands) + len(bounds) < 2:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    common = promotion.result_type(*operands, *bounds)
    if common.is_complex or any(operand.dtype.is_complex for operand in operands):
        raise RuntimeError("clamp is not supported for complex types")
    if common in BAREBONES:
        raise not_implemented(op, common)
    # one bound that is a tensor makes it a maximum or a minimum
    if common.kind == "bool" and (bounds or len(operands) > 2):
        raise not_implemented(op, common)
    return common, common


def _clamped(x: Array, low: Any, high: Any) -> Array:
    """NaN in any of the three is the answer; of crossed bounds the upper one wins."""
    if low is not None:
        x = np.maximum(x, like(x, low))
    return np.asarray(x if high is None else np.minimum(x, like(x, high)))


def _clamp_min(x: Array, low: Any) -> Array:
    return _clamped(x, low, None)


def _clamp_max(x: Array, high: Any) -> Array:
    return _clamped(x, None, high)


pointwise("clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", _clamp_rule)(_clamped)
pointwise(
    "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    _clamp_rule, out="Tensor_out",
)(_clamped)  # fmt: skip
pointwise("clamp_min(Tensor self, Scalar min) -> Tensor", _clamp_rule)(_clamp_min)
pointwise("clamp_max(Tensor self, Scalar max) -> Tensor", _clamp_rule)(_clamp_max)
pointwise("clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", _clamp_rule, out="Tensor_out")(
    _clamp_min
)
pointwise("clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", _clamp_rule, out="Tensor_out")(
    _clamp_max
)


def _blend(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """One type for both ends, and for a weight that is not a single number.

    Source   aten/src/ATen/native/Lerp.cpp  lerp_Tensor
    """
    x = operands[0]
    for name, other in zip(("end", "weight"), operands[1:], strict=False):
        if other.dtype is not x.dtype and (name == "end" or other.sizes):
            raise RuntimeError(
                f"expected dtype {x.dtype.name} for `{name}` but got dtype {other.dtype.name}"
            )
    return FLOATING_OR_COMPLEX(op, operands, others)


def _lerp(x: Array, end: Array, weight: Any) -> Array:
    """From whichever end is nearer: exact at both."""
    weight = np.asarray(weight).astype(np.result_type(x, weight) if np.iscomplexobj(x) else x.dtype)
    step = end - x
    return np.where(np.abs(weight) < 0.5, x + weight * step, end - step * (1 - weight))


pointwise(
    "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", _blend, out="Scalar_out"
)(_lerp)
pointwise(
    "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", _blend, out="Tensor_out"
)(_lerp)


def _quotient(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    first, second = (operand.dtype for operand in operands[1:])
    if all(not each.is_inexact for each in (first, second)):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future release addcdiv "
            "will perform a true division of tensor1 and tensor2"
        )
    return NUMBERS(op, operands, others)


@pointwise(
    "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", NUMBERS
)
def addcmul(x: Array, first: Array, second: Array, value: complex = 1) -> Array:
    """The sum with a scaled product."""
    return np.asarray(x + like(x, value) * first * second)


@pointwise(
    "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", _quotient
)
def addcdiv(x: Array, first: Array, second: Array, value: complex = 1) -> Array:
    """The sum with a scaled quotient."""
    return np.asarray(x + like(x, value) * first / second)


def _chosen(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    condition = operands[0].dtype
    if condition not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.name}"
        )
    common = promotion.result_type(*operands[1:])
    return common, common


def _where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition != 0, x, y)


pointwise(
    "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", _chosen,
    inplace=False, out="self_out",
)(_where)  # fmt: skip


def _where_as_laid_out(condition: TensorImpl, self: TensorImpl, other: TensorImpl) -> TensorImpl:
    """The condition is read as it lies; only the other two may be copied to a common type."""
    op = OPERATORS["where.self"]
    operands = [condition, self, other]
    device = common_device(operands)
    _, dtype = _chosen(op, operands, {})
    shape = broadcast_shapes(*[each.sizes for each in operands])
    geometry = []
    for each, read_as in ((condition, dtypes.bool_), (self, dtype), (other, dtype)):
        strides = each.strides if each.dtype is read_as else copy.empty_like(each).strides
        geometry.append((each.sizes, strides))
    result = tensor_impl.empty_strided(shape, output_strides(shape, geometry), dtype, device)
    return op.filling(result, condition, self, other)


replace_kernels("where.self", _where_as_laid_out)


@composite("where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor")
def where_scalar_other(condition: TensorImpl, self: TensorImpl, other: complex) -> Any:
    """A number where the condition does not hold."""
    return aten.where.self(condition, self, wrapped_number(other))


@composite(
    "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", variants="function"
)
def where_scalar_self(condition: TensorImpl, self: complex, other: TensorImpl) -> Any:
    """A number where the condition holds."""
    return aten.where.self(condition, wrapped_number(self), other)


@composite(
    "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", variants="function"
)
def where_scalars(condition: TensorImpl, self: complex, other: complex) -> Any:
    """One of two numbers."""
    return aten.where.self(condition, wrapped_number(self), wrapped_number(other))
