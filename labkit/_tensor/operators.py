"""What `x + y`, `2 - x`, `x @ y`, `x += 1` and `-x` call.

Source   torch/_tensor.py  Tensor.__rsub__, __rdiv__, __rpow__
         tools/autograd/templates/python_variable_methods.cpp
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.operator import OperatorHandle
from labkit.ops.aten import aten
from labkit.ops.pointwise import pointwise

_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "mod": "remainder",
    "floordiv": "floor_divide", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip
"""Python's name of an operator -> the operator it calls, on two tensors."""
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_UNARY = {"neg": "neg", "invert": "bitwise_not", "abs": "abs"}
_WITH_NUMBERS = _COMPARISONS | {"remainder", "bitwise_and", "bitwise_or", "bitwise_xor"}
"""Operators with an overload of its own for a number; the others take it as a 0-dim tensor."""
_COMMUTATIVE = {"add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"}
_OVERLOADS = {"floor_divide": "default"}  # all others are called `name.Tensor`


def operand(value: Any) -> TensorImpl | None:
    """A number as a wrapped 0-dim tensor; None for what is neither number nor tensor."""
    if isinstance(value, TensorImpl):
        return value
    plain = number(value)
    return None if plain is None else pointwise.wrapped_number(plain)


def number(value: Any) -> Any:
    """A Python number, or None."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, bool | int | float | complex) else None


def _infix(op: OperatorHandle) -> Callable[[Any, Any], Any]:
    def method(self: TensorImpl, other: Any) -> Any:
        right = operand(other)
        return NotImplemented if right is None else op(self, right)

    return method


def _with_scalar(op: OperatorHandle, scalar: OperatorHandle) -> Callable[[Any, Any], Any]:
    def method(self: TensorImpl, other: Any) -> Any:
        if isinstance(other, TensorImpl):
            return op(self, other)
        right = number(other)
        return NotImplemented if right is None else scalar(self, right)

    return method


def _reflected(op: OperatorHandle, commutes: bool) -> Callable[[Any, Any], Any]:
    def method(self: TensorImpl, other: Any) -> Any:
        left = operand(other)
        if left is None:
            return NotImplemented
        return op(self, left) if commutes else op(left, self)  # as PyTorch records them

    return method


def _rtruediv(self: TensorImpl, other: Any) -> Any:
    left = operand(other)
    return NotImplemented if left is None else aten.mul.Tensor(aten.reciprocal.default(self), left)


def _rpow(self: TensorImpl, other: Any) -> Any:
    if isinstance(other, TensorImpl):
        return aten.pow.Tensor_Tensor(other, self)
    base = number(other)
    return NotImplemented if base is None else aten.pow.Scalar(base, self)


def _matmul(self: TensorImpl, other: Any) -> Any:
    return aten.matmul.default(self, other) if isinstance(other, TensorImpl) else NotImplemented


def _rmatmul(self: TensorImpl, other: Any) -> Any:
    return aten.matmul.default(other, self) if isinstance(other, TensorImpl) else NotImplemented


def _prefix(op: OperatorHandle) -> Callable[[Any], Any]:
    return lambda self: op(self)


def _methods() -> dict[str, Callable[..., Any]]:
    """All of them, under Python's names."""
    made: dict[str, Callable[..., Any]] = {
        f"__{symbol}__": _prefix(getattr(aten, name).default) for symbol, name in _UNARY.items()
    }
    made["__pos__"] = lambda self: self
    for symbol, name in _BINARY.items():
        packet = getattr(aten, name)
        op = getattr(packet, _OVERLOADS.get(name, "Tensor"))
        if name in _WITH_NUMBERS:
            made[f"__{symbol}__"] = _with_scalar(op, packet.Scalar)
        else:
            made[f"__{symbol}__"] = _infix(op)
        if symbol not in _COMPARISONS:
            made[f"__r{symbol}__"] = _reflected(op, name in _COMMUTATIVE)
            made[f"__i{symbol}__"] = _infix(getattr(aten, f"{name}_").Tensor)
    special = {
        "rsub": _with_scalar(aten.rsub.Tensor, aten.rsub.Scalar),
        "pow": _with_scalar(aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar),
        "ipow": _with_scalar(aten.pow_.Tensor, aten.pow_.Scalar),
        "rpow": _rpow, "rtruediv": _rtruediv, "matmul": _matmul, "rmatmul": _rmatmul,
    }  # fmt: skip
    return made | {f"__{symbol}__": method for symbol, method in special.items()}


def install_operators(tensor: type) -> None:
    """Give the class every operator of Python that PyTorch gives a meaning."""
    for name, method in _methods().items():
        method.__name__ = name
        method.__qualname__ = f"{tensor.__name__}.{name}"
        setattr(tensor, name, method)
