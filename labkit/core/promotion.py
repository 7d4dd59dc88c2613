"""Which element type an operator computes in: the lattice of types, and the three categories.

Operands fall into three categories: tensors with dimensions, 0-dim tensors, and wrapped numbers
(Python's own). Types are promoted inside a category; a lower category changes the answer only
when it is of a higher kind, so `int8 tensor + 200` stays int8 and `int8 tensor + 1.5` does not.
"""

from collections.abc import Iterable
from typing import Protocol

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.memory_format import Ints

_LADDER = [
    dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64,
    dtypes.complex32, dtypes.complex64, dtypes.complex128,
]  # fmt: skip
_RANK = {dtype: rank for rank, dtype in enumerate(_LADDER)}
_BAREBONES_UNSIGNED = {dtypes.uint16, dtypes.uint32, dtypes.uint64}

_default_dtype = dtypes.float32


class Operand(Protocol):
    """What promotion needs to know of an operand; a `TensorImpl` has it."""

    dtype: DType
    sizes: Ints
    is_wrapped_number: bool


class WrappedNumber:
    """A Python number as an operand: a 0-dim value whose type says only its kind.

    Source   c10/core/TensorImpl.h  TensorImpl::set_wrapped_number
    """

    __slots__ = ("dtype", "is_wrapped_number", "sizes")

    def __init__(self, number: complex | bool) -> None:
        self.dtype = dtype_of_number(number)
        self.sizes: Ints = ()
        self.is_wrapped_number = True


def dtype_of_number(number: complex | bool) -> DType:
    """The element type that holds any Python number of that class.

    Raises   TypeError   not a bool, int, float or complex
    """
    if isinstance(number, bool):
        return dtypes.bool_
    if isinstance(number, int):
        return dtypes.int64
    if isinstance(number, float):
        return dtypes.float64
    if isinstance(number, complex):
        return dtypes.complex128
    raise TypeError(f"expected a bool, int, float or complex, got {type(number).__name__}")


def get_default_dtype() -> DType:
    """The floating type of new tensors and of promoted Python floats."""
    return _default_dtype


def set_default_dtype(dtype: DType) -> None:
    """Make `dtype` the default.

    Raises   TypeError   it is not a floating type that can compute

    Source   c10/core/DefaultDtype.cpp  set_default_dtype
    """
    global _default_dtype
    if not dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {dtype}")
    _default_dtype = dtype


def default_complex_dtype() -> DType:
    """The complex type of promoted Python complex numbers."""
    return complex_dtype_for(_default_dtype)


def complex_dtype_for(floating: DType) -> DType:
    """The complex type with the range of a floating one: bfloat16 reaches as far as float32.

    Source   c10/core/ScalarType.h  toComplexType
    """
    if floating is dtypes.bfloat16:
        return dtypes.complex64
    return dtypes.to_complex(floating)


def promote_types(a: DType, b: DType) -> DType:
    """The smallest type at least as high as both that holds the kinds of both.

    Raises   RuntimeError   uint16, uint32 or uint64 with another type that is not floating

    Source   c10/core/ScalarType.cpp  promoteTypes
    """
    if a is b:
        return a
    for one, other in ((a, b), (b, a)):
        if one in _BAREBONES_UNSIGNED:
            if other.is_floating_point:
                return other
            raise RuntimeError(
                "Promotion for uint16, uint32, uint64 types is not supported, attempted to "
                f"promote {a.name} and {b.name}"
            )
    low, high = sorted((a, b), key=_RANK.__getitem__)
    if high.is_complex and not low.is_integral and low.kind != "bool":
        low_complex = complex_dtype_for(low)
        return low_complex if _RANK[low_complex] > _RANK[high] else high
    # The two pairs of equal size where neither holds both: one step up.
    if (low, high) == (dtypes.uint8, dtypes.int8):
        return dtypes.int16
    if (low, high) == (dtypes.float16, dtypes.bfloat16):
        return dtypes.float32
    return high


def result_type(*operands: "Operand | complex") -> DType:
    """The element type an operator computes these operands in.

    operands  anything with dtype, sizes and is_wrapped_number, or Python numbers

    Raises   RuntimeError   two types that have no common one
             ValueError     no operands

    Source   aten/src/ATen/native/TypeProperties.cpp  result_type
    """
    if not operands:
        raise ValueError("result_type needs at least one operand")
    dimensioned, zero_dim, wrapped = categories(operands)
    result = _combine(dimensioned, _combine(zero_dim, wrapped))
    assert result is not None
    return result


def categories(
    operands: "Iterable[Operand | complex]",
) -> tuple[DType | None, DType | None, DType | None]:
    """The promoted type of each category: with dimensions, 0-dim, wrapped; None for an empty one.

    Source   aten/src/ATen/native/TypeProperties.cpp  update_result_type_state
    """
    state: list[DType | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, bool | int | float | complex):
            operand = WrappedNumber(operand)
        dtype = operand.dtype
        if operand.is_wrapped_number and dtype.is_complex:
            dtype = default_complex_dtype()
        elif operand.is_wrapped_number and dtype.is_floating_point:
            dtype = _default_dtype
        category = 0 if operand.sizes else 2 if operand.is_wrapped_number else 1
        state[category] = _promote_present(state[category], dtype)
    return state[0], state[1], state[2]


def _promote_present(a: DType | None, b: DType | None) -> DType | None:
    return b if a is None else a if b is None else promote_types(a, b)


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    """The higher category's type, unless the lower one is of a higher kind.

    Source   aten/src/ATen/native/TypeProperties.cpp  combine_categories
    """
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return complex_dtype_for(higher) if lower.is_complex else higher
    if lower.is_complex:
        return lower
    if higher.kind == "bool" or lower.is_floating_point:
        return promote_types(higher, lower)
    return higher


def can_cast(source: DType, target: DType) -> bool:
    """True when an in-place operator may store `source` results in a `target` tensor.

    Source   c10/core/ScalarType.h  canCast
    """
    if source.is_complex and not target.is_complex:
        return False
    if source.is_floating_point and (target.is_integral or target.kind == "bool"):
        return False
    return source.kind == "bool" or target.kind != "bool"
