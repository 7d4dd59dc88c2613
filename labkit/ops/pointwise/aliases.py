"""Operators under a second name, and in-place faces made of others.

Source   aten/src/ATen/native/BinaryOps.cpp, native_functions.yaml
"""

from typing import Any

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import overwrite
from labkit.ops.aten import aten
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

_TENSOR, _SCALAR = "(Tensor self, Tensor other) -> Tensor", "(Tensor self, Scalar other) -> Tensor"
_MODE = ", *, str? rounding_mode) -> Tensor"
_ALPHA = ", *, Scalar alpha=1) -> Tensor"


def _in_place(schema: str) -> str:
    return schema.replace("Tensor self", "Tensor(a!) self").replace("-> Tensor", "-> Tensor(a!)")


def _alias(name: str, target: str, overload: str, schema: str, variants: str) -> None:
    def same(*args: Any, **kwargs: Any) -> Any:
        return getattr(getattr(aten, target), overload)(*args, **kwargs)

    named = name if overload == "default" else f"{name}.{overload}"
    composite(f"{named}{schema}", variants=variants)(same)


def _both(name: str, target: str, overload: str, schema: str) -> None:
    """The alias, and the alias of the operator in place."""
    _alias(name, target, overload, schema, "function, method")
    _alias(f"{name}_", f"{target}_", overload, _in_place(schema), "method")


for _name, _target in {
    "true_divide": "div", "divide": "div", "multiply": "mul", "greater": "gt", "less": "lt",
    "greater_equal": "ge", "less_equal": "le", "not_equal": "ne",
}.items():  # fmt: skip
    _both(_name, _target, "Tensor", _TENSOR)
    _both(_name, _target, "Scalar", _SCALAR)
_both("divide", "div", "Tensor_mode", _TENSOR.replace(") -> Tensor", _MODE))
_both("divide", "div", "Scalar_mode", _SCALAR.replace(") -> Tensor", _MODE))
_both("subtract", "sub", "Tensor", _TENSOR.replace(") -> Tensor", _ALPHA))
_both("arctan2", "atan2", "default", _TENSOR)
for _name, _target in {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}.items():
    for _overload, _text in (("Tensor", _TENSOR), ("Scalar", _SCALAR)):
        _alias(f"__{_name}__", _target, _overload, _text, "")
        _alias(f"__i{_name}__", f"{_target}_", _overload, _in_place(_text), "")


def _running(name: str) -> None:
    def in_place(self: TensorImpl, dim: int, *, dtype: Any = None) -> TensorImpl:
        result = getattr(aten, name).default(self, dim, dtype=dtype)
        return overwrite(self, copy.to_copy(result, self.dtype, self.device))

    schema = f"{name}_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!)"
    kernel(schema, variants="method")(in_place)


_running("cumsum")
_running("cumprod")


@composite("trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", variants="function")
def trapezoid(y: TensorImpl, *, dx: float = 1, dim: int = -1) -> Any:
    """The area under equally spaced points.

    Source   aten/src/ATen/native/Integration.cpp  do_trapezoid
    """
    last, first = aten.select.int(y, dim, -1), aten.select.int(y, dim, 0)
    ends = aten.mul.Scalar(aten.add.Tensor(first, last), 0.5)
    return aten.mul.Scalar(aten.sub.Tensor(aten.sum.dim_IntList(y, [dim]), ends), dx)


@composite("trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", variants="function")
def trapezoid_x(y: TensorImpl, x: TensorImpl, *, dim: int = -1) -> Any:
    """The area under points at given places."""
    if x.dim() == 1:
        shape = [1] * y.dim()
        shape[dim] = x.sizes[0]
        x = aten.view.default(x, shape)
    elif x.dim() < y.dim():
        x = aten.view.default(x, [1] * (y.dim() - x.dim()) + list(x.sizes))
    left, right = _neighbours(x, dim)
    widths = aten.sub.Tensor(right, left)
    first, last = _neighbours(y, dim)
    steps = aten.mul.Tensor(aten.add.Tensor(first, last), widths)
    return aten.div.Scalar(aten.sum.dim_IntList(steps, [dim]), 2.0)


def _neighbours(y: TensorImpl, dim: int) -> tuple[Any, Any]:
    """All points but the last, and all but the first."""
    if not y.sizes:
        raise RuntimeError("trapezoid: a 0-dim tensor has no points to join")
    length = max(y.sizes[dim] - 1, 0)
    start = min(1, y.sizes[dim])
    return aten.narrow.default(y, dim, 0, length), aten.narrow.default(y, dim, start, length)
