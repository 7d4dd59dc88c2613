"""The rules of element types of element-wise operators: which types PyTorch has loops for.

Each answers the type of the computation and that of the result.
"""

from collections.abc import Sequence
from typing import Any

from labkit.core import dtype as dtypes
from labkit.core import promotion
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.pointwise.pointwise import Pointwise, Types

BAREBONES = (dtypes.uint16, dtypes.uint32, dtypes.uint64)


def not_implemented(op: Pointwise, dtype: DType) -> NotImplementedError:
    """The error of an operator that has no loop for an element type.

    Source   aten/src/ATen/Dispatch.h  AT_DISPATCH_SWITCH
    """
    return NotImplementedError(f"{op.base!r} not implemented for {dtype.name}")


def common_dtype(op: Pointwise, operands: Sequence[TensorImpl]) -> DType:
    """The promoted type of all operands; no operator computes in a one-byte float."""
    first = operands[0]
    common = first.dtype if len(operands) == 1 else promotion.result_type(*operands)
    if common.is_float8:
        raise not_implemented(op, common)
    return common


def ARITHMETIC(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> Types:
    """Compute and answer in the promoted type."""
    common = common_dtype(op, operands)
    return common, common


def FLOAT(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> Types:
    """Likewise, whole numbers in the default floating type."""
    common = common_dtype(op, operands)
    if not (common.is_floating_point or common.is_complex):
        common = promotion.get_default_dtype()
    return common, common


def COMPARISON(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> Types:
    """Compute in the promoted type, answer in bool."""
    return common_dtype(op, operands), dtypes.bool_


def REAL_COMPARISON(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> Types:
    """Likewise; complex numbers have no order."""
    common = common_dtype(op, operands)
    if common.is_complex:
        raise not_implemented(op, common)
    return common, dtypes.bool_


def WHOLE(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> Types:
    """Whole numbers and bool only."""
    common = common_dtype(op, operands)
    if common.is_floating_point or common.is_complex:
        raise not_implemented(op, common)
    return common, common


def MAGNITUDE(op: Pointwise, operands: Sequence[TensorImpl], _: Any) -> Types:
    """Compute in the type, answer in its real type."""
    common = common_dtype(op, operands)
    return common, dtypes.to_real(common)


def WITH_COMPLEX(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """Whole numbers in the default floating type; no complex numbers of half size."""
    compute, result = FLOAT(op, operands, others)
    if compute is dtypes.complex32:
        raise not_implemented(op, compute)
    return compute, result


def REAL_FLOAT(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """Whole numbers in the default floating type; no complex numbers."""
    compute, result = FLOAT(op, operands, others)
    if compute.is_complex:
        raise not_implemented(op, compute)
    return compute, result


def FLOATING_ONLY(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """Real floating numbers and nothing else."""
    common = common_dtype(op, operands)
    if not common.is_floating_point:
        raise not_implemented(op, common)
    return common, common


def FLOATING_OR_COMPLEX(
    op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]
) -> Types:
    """Floating and complex numbers, but no whole ones."""
    common = common_dtype(op, operands)
    if not (common.is_floating_point or common.is_complex) or common is dtypes.complex32:
        raise not_implemented(op, common)
    return common, common


def REAL(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """Anything with an order, bool included."""
    common = common_dtype(op, operands)
    if common.is_complex or common in BAREBONES:
        raise not_implemented(op, common)
    return common, common


def REAL_NUMBERS(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """Whole and floating numbers."""
    common, _ = REAL(op, operands, others)
    if common.kind == "bool":
        raise not_implemented(op, common)
    return common, common


def NUMBERS(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """Whole, floating and complex numbers."""
    common = common_dtype(op, operands)
    if common.kind == "bool" or common in BAREBONES or common is dtypes.complex32:
        raise not_implemented(op, common)
    return common, common


def WHOLE_NUMBERS(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """Whole numbers."""
    common = common_dtype(op, operands)
    if not common.is_integral or common in BAREBONES:
        raise not_implemented(op, common)
    return common, common


def LOGICAL(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """Compute in the promoted type, answer in bool."""
    common = common_dtype(op, operands)
    if common in BAREBONES or common is dtypes.complex32:
        raise not_implemented(op, common)
    return common, dtypes.bool_


def QUESTION(op: Pointwise, operands: Sequence[TensorImpl], others: dict[str, Any]) -> Types:
    """Any type, answered in bool."""
    return operands[0].dtype, dtypes.bool_
