"""The rules of element types of element-wise operators: which types PyTorch has loops for.

Each answers the type of the computation and that of the result.
"""

from collections.abc import Callable, Sequence
from typing import Any

from labkit.core import dtype as dtypes
from labkit.core import promotion
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.pointwise.pointwise import Pointwise, Rule, Types

BAREBONES = (dtypes.uint16, dtypes.uint32, dtypes.uint64)


def not_implemented(op: Pointwise, dtype: DType) -> NotImplementedError:
    """The error of an operator that has no loop for an element type.

    Source   aten/src/ATen/Dispatch.h  AT_DISPATCH_SWITCH
    Differs  PyTorch names its kernel and the type in C++: "add_cpu" not implemented for 'Half'
    """
    return NotImplementedError(f"{op.base!r} not implemented for {dtype.name}")


def common_dtype(operands: Sequence[TensorImpl]) -> DType:
    """The promoted type of all operands."""
    return operands[0].dtype if len(operands) == 1 else promotion.result_type(*operands)


def _same(dtype: DType) -> DType:
    return dtype


def _floating(dtype: DType) -> DType:
    return promotion.get_default_dtype() if _whole(dtype) else dtype


def _truth(_: DType) -> DType:
    return dtypes.bool_


def _boolean(dtype: DType) -> bool:
    return dtype.kind == "bool"


def _complex(dtype: DType) -> bool:
    return dtype.is_complex


def _half_complex(dtype: DType) -> bool:
    return dtype is dtypes.complex32


def _whole(dtype: DType) -> bool:
    return not dtype.is_inexact


def _fractional(dtype: DType) -> bool:
    return dtype.is_inexact


def _barebones(dtype: DType) -> bool:
    return dtype in BAREBONES


def rule(
    *refused: Callable[[DType], bool],
    computes: Callable[[DType], DType] = _same,
    answers: Callable[[DType], DType] = _same,
) -> Rule:
    """The rule of an operator without loops for these types.

    computes  promoted type -> that of the computation;  answers  that -> the result's
    """

    def types(op: Pointwise, operands: Sequence[TensorImpl], _: dict[str, Any]) -> Types:
        compute = computes(common_dtype(operands))
        if any(refuses(compute) for refuses in refused):
            raise not_implemented(op, compute)
        return compute, answers(compute)

    return types


ARITHMETIC = rule()
FLOAT = rule(computes=_floating)
WITH_COMPLEX = rule(_half_complex, computes=_floating)
REAL_FLOAT = rule(_complex, computes=_floating)
MAGNITUDE = rule(answers=dtypes.to_real)
COMPARISON = rule(answers=_truth)
REAL_COMPARISON = rule(_complex, answers=_truth)
LOGICAL = rule(_barebones, _half_complex, answers=_truth)
REAL = rule(_complex, _barebones)
REAL_NUMBERS = rule(_complex, _barebones, _boolean)
ALL_REAL_NUMBERS = rule(_complex, _boolean)
NUMBERS = rule(_boolean, _barebones, _half_complex)
COMMON = rule(_barebones)
WHOLE = rule(_fractional)
FLOATING_ONLY = rule(_whole, _complex)
FLOATING_OR_COMPLEX = rule(_whole, _half_complex)


def QUESTION(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> Types:
    """Any type, answered in bool."""
    return operands[0].dtype, dtypes.bool_
