"""Operators of a tensor and a number: the number becomes a 0-dim tensor that widens no type.

Source   aten/src/ATen/ScalarOps.h  wrapped_scalar_tensor
"""

from typing import Any

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.pointwise.pointwise import OPERATORS, Pointwise, wrapped_number
from labkit.ops.registration import kernel

_EXPLICIT = "CompositeExplicitAutograd"


def _second(op: Pointwise, overload: str, more: str = "", inplace: bool = True) -> None:
    """Define `name.overload(Tensor self, Scalar other, more)` and the operator in place."""
    name = op.base.partition(".")[0]

    def functional(self: TensorImpl, other: complex, *args: Any, **kwargs: Any) -> TensorImpl:
        return op.functional(self, wrapped_number(other), *args, **kwargs)

    def in_place(self: TensorImpl, other: complex, *args: Any, **kwargs: Any) -> TensorImpl:
        return op.in_place(self, wrapped_number(other), *args, **kwargs)

    kernel(f"{name}.{overload}(Tensor self, Scalar other{more}) -> Tensor", _EXPLICIT)(functional)
    if inplace:
        kernel(
            f"{name}_.{overload}(Tensor(a!) self, Scalar other{more}) -> Tensor(a!)",
            _EXPLICIT,
            variants="method",
        )(in_place)


def _first(op: Pointwise, overload: str, variants: str = "function") -> None:
    """Define `name.overload(Scalar self, Tensor other)`."""
    name = op.base.partition(".")[0]

    def functional(self: complex, other: TensorImpl) -> TensorImpl:
        return op.functional(wrapped_number(self), other)

    kernel(f"{name}.{overload}(Scalar self, Tensor other) -> Tensor", _EXPLICIT, variants=variants)(
        functional
    )


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "mul", "div", "fmod", "remainder",
              "bitwise_and", "bitwise_or", "bitwise_xor"):  # fmt: skip
    _second(OPERATORS[f"{_name}.Tensor"], "Scalar")
_second(OPERATORS["floor_divide"], "Scalar")
_second(OPERATORS["div.Tensor_mode"], "Scalar_mode", ", *, str? rounding_mode")
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "remainder"):
    _first(OPERATORS[f"{_name}.Tensor"], "Scalar_Tensor")


def _with_alpha(op: Pointwise, name: str) -> None:
    """Here `alpha` is positional, where the operator of two tensors has it behind a star."""

    def functional(self: TensorImpl, other: complex, alpha: complex = 1) -> TensorImpl:
        return op.functional(self, wrapped_number(other), alpha=alpha)

    def in_place(self: TensorImpl, other: complex, alpha: complex = 1) -> TensorImpl:
        return op.in_place(self, wrapped_number(other), alpha=alpha)

    more = "Scalar other, Scalar alpha=1"
    kernel(f"{name}.Scalar(Tensor self, {more}) -> Tensor", _EXPLICIT)(functional)
    kernel(f"{name}_.Scalar(Tensor(a!) self, {more}) -> Tensor(a!)", _EXPLICIT, variants="method")(
        in_place
    )


_with_alpha(OPERATORS["add.Tensor"], "add")
_with_alpha(OPERATORS["sub.Tensor"], "sub")
