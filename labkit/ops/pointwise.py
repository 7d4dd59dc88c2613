"""Element-wise arithmetic and comparison: PyTorch's broadcasting, promotion, strides and overlap
rules around NumPy's loops.

Source   aten/src/ATen/native/BinaryOps.cpp
Differs  on the host every loop is NumPy's, so speed says nothing about PyTorch; on a device the
         kernels are those of `labkit.ops.device_kernels`
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.core import dtype as dtypes
from labkit.core import promotion, tensor_impl
from labkit.core.device import CPU, Device
from labkit.core.dtype import DType
from labkit.core.formats import encode
from labkit.core.memory_overlap import assert_no_internal_overlap, assert_no_partial_overlap
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops import copy, device_kernels, fallback
from labkit.ops.iteration_order import output_strides

Array = NDArray[Any]
Loop = Callable[..., Any]


def wrapped_number(number: complex | bool) -> TensorImpl:
    """A Python number as a 0-dim tensor that does not widen the type of others."""
    dtype = promotion.dtype_of_number(number)
    impl = tensor_impl.empty((), dtype)
    copy.store(impl, copy.scalar_raw(number, dtype))
    impl.is_wrapped_number = True
    return impl


def _remainder(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu" and not np.all(b):
        raise RuntimeError("ZeroDivisionError: remainder of whole numbers by 0")
    result: Array = np.remainder(a, b)
    return result


ARITHMETIC: dict[str, Loop] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "remainder": _remainder,
}
FLOATING: dict[str, Loop] = {"div": np.true_divide}
COMPARISON: dict[str, Loop] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
BITWISE: dict[str, Loop] = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor
}  # fmt: skip
UNARY: dict[str, Loop] = {"neg": np.negative, "bitwise_not": np.invert, "abs": np.abs}
BINARY = ARITHMETIC | FLOATING | COMPARISON | BITWISE
"""Operator name -> loop. Floating ones compute in the default dtype when given integers;
comparisons answer in bool."""
LOOPS = BINARY | UNARY


def _result_dtype(name: str, compute: DType) -> DType:
    if name in COMPARISON:
        return dtypes.bool_
    return dtypes.to_real(compute) if name == "abs" else compute


def _compute_dtype(name: str, *operands: TensorImpl) -> DType:
    common = promotion.result_type(*operands)
    if name == "sub" and any(operand.dtype.kind == "bool" for operand in operands):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. Use the `^`, the "
            "`~` or the `logical_xor()` operator instead."
        )
    if name in FLOATING and not (common.is_floating_point or common.is_complex):
        common = promotion.get_default_dtype()
    if name in BITWISE and (common.is_floating_point or common.is_complex):
        raise RuntimeError(f"{name!r} not implemented for {common}")
    if name in ("lt", "le", "gt", "ge") and common.is_complex:
        raise RuntimeError(f"{name!r} not implemented for {common}")
    if common.is_float8 or (name == "remainder" and (common.is_complex or common.kind == "bool")):
        raise RuntimeError(f"{name!r} not implemented for {common}")
    return common


def _common_device(*operands: TensorImpl, out: TensorImpl | None = None) -> Device:
    """Where the operator runs: one 0-dim operand may stay on the host, unless it is the output.

    Source   aten/src/ATen/TensorIterator.cpp  TensorIteratorBase::compute_types
    """
    common = next((each.device for each in operands if each.device.type != "cpu"), CPU)
    for operand in operands:
        is_scalar = operand.device.type == "cpu" and not operand.sizes and operand is not out
        if operand.device != common and not is_scalar:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{common} and {operand.device}!"
            )
    return common


def _converted(operand: TensorImpl, compute: DType) -> TensorImpl:
    """The operand in the element type of the loop; a copy is laid out before strides are chosen."""
    if operand.dtype is compute:
        return operand
    return copy.to_copy(operand, compute, operand.device)


def _run(name: str, compute: DType, out: TensorImpl, *operands: TensorImpl) -> None:
    """Fill `out`: with a device kernel where it is on a device that has one, else on the host."""
    if out.device.type != "cpu" and device_kernels.launch(name, compute, out, *operands):
        return
    arrays = [copy.values(_converted(copy.on_host(operand), compute)) for operand in operands]
    with np.errstate(all="ignore"):
        values = np.asarray(LOOPS[name](*arrays))
    dtype = _result_dtype(name, compute)
    copy.store(out, copy.convert(encode(values, dtype), dtype, out.dtype))


def binary(name: str, a: TensorImpl, b: TensorImpl) -> TensorImpl:
    """A new tensor of the broadcast shape, in the promoted element type.

    name  a key of `BINARY`

    Raises   RuntimeError   shapes that do not broadcast, types that have no common one, or
                            tensors on several devices
    """
    device = _common_device(a, b)
    compute = _compute_dtype(name, a, b)
    shape = broadcast_shapes(a.sizes, b.sizes)
    if device == CPU:  # a device kernel casts as it loads: there the caller's strides decide
        a, b = _converted(a, compute), _converted(b, compute)
    strides = output_strides(shape, [(a.sizes, a.strides), (b.sizes, b.strides)])
    dtype = _result_dtype(name, compute)
    result = tensor_impl.empty_strided(shape, strides, dtype, device)
    _run(name, compute, result, a, b)
    return result


def binary_(name: str, self: TensorImpl, other: TensorImpl) -> TensorImpl:
    """The result written into `self`; its shape and element type stay.

    Raises   RuntimeError   as `binary`; or the result does not fit `self`, or `self` shows an
                            element twice, or the two share part of their memory
    """
    _common_device(self, other, out=self)
    assert_no_internal_overlap(self.sizes, self.strides)
    if other is not self:
        assert_no_partial_overlap(self, other)
    shape = broadcast_shapes(self.sizes, other.sizes)
    if shape != self.sizes:
        raise RuntimeError(
            f"output with shape {list(self.sizes)} doesn't match the broadcast shape {list(shape)}"
        )
    compute = _compute_dtype(name, self, other)
    result_dtype = _result_dtype(name, compute)
    if not promotion.can_cast(result_dtype, self.dtype):
        raise RuntimeError(
            f"result type {result_dtype.name} can't be cast to the desired output type "
            f"{self.dtype.name}"
        )
    _run(name, compute, self, self, other)
    self.bump_version()
    return self


def unary(name: str, self: TensorImpl) -> TensorImpl:
    """A new tensor of the same shape: negative, inverted, or absolute values."""
    if name == "neg" and self.dtype.kind == "bool":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. Use the `~` or "
            "`logical_not()` operator instead."
        )
    if name == "bitwise_not" and not (self.dtype.is_integral or self.dtype.kind == "bool"):
        raise RuntimeError(f"{name!r} not implemented for {self.dtype}")
    strides = output_strides(self.sizes, [(self.sizes, self.strides)])
    dtype = _result_dtype(name, self.dtype)
    result = tensor_impl.empty_strided(self.sizes, strides, dtype, self.device)
    _run(name, self.dtype, result, self)
    return result


def equal(a: TensorImpl, b: TensorImpl) -> bool:
    """True when sizes and all values are equal."""
    _common_device(a, b)
    fallback.note_if_on_device("equal", a, b)
    return a.sizes == b.sizes and bool(np.array_equal(copy.values(a), copy.values(b)))
