"""A row's `jvp`, evaluated: the tangent of a call from those of its arguments.

Source   tools/autograd/load_derivatives.py  postprocess_forward_derivatives
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from labkit.autograd.derivatives.row import ELEMENTWISE, LINEAR, Row
from labkit.autograd.formulas import function_of
from labkit.autograd.formulas.basics import conj, zeros_like
from labkit.autograd.kernels.differentiation import output_names
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten


def evaluate(
    op: Any, row: Row, primals: dict[str, Any], tangents: dict[str, Any], result: Any
) -> Any:
    """The tangent of the result; one for each of several results.

    primals    the arguments by schema name
    tangents   likewise, None where there is none
    """
    if row.jvp == LINEAR:
        return _linear(op, primals, tangents)
    if row.jvp == ELEMENTWISE:
        (name,) = (names for names, text in row.formulas.items() if text)
        values = {**primals, "grad": conj(tangents[name])}
        text = row.formulas[name]
        return conj(_evaluate(text, values, op, result))
    assert row.jvp is not None
    values = dict(primals)
    for name, value in primals.items():
        if isinstance(value, TensorImpl):
            values[f"{name}_p"] = value
            values[f"{name}_t"] = _whole(value, tangents[name])
        elif isinstance(value, list | tuple) and any(isinstance(v, TensorImpl) for v in value):
            values[f"{name}_p"] = value
            values[f"{name}_t"] = [_whole(v, t) for v, t in zip(value, tangents[name], strict=True)]
        elif value is None:
            values[f"{name}_p"] = values[f"{name}_t"] = None
    return _evaluate(row.jvp, values, op, result)


def _whole(primal: TensorImpl, tangent: Any) -> Any:
    """Zeros for a tangent that is missing."""
    return zeros_like(primal) if tangent is None else tangent


def _linear(op: Any, primals: dict[str, Any], tangents: dict[str, Any]) -> Any:
    """The operator itself, called with the tangents."""
    schema = op.schema
    functional = _functional(op)
    positional, keywords = [], {}
    for argument in schema.arguments:
        value, tangent = primals[argument.name], tangents[argument.name]
        if isinstance(value, TensorImpl):
            value = _whole(value, tangent)
        elif isinstance(value, list | tuple) and isinstance(tangent, list):
            value = [
                _whole(v, t) if isinstance(v, TensorImpl) else v
                for v, t in zip(value, tangent, strict=True)
            ]
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            positional.append(value)
    return functional(*positional, **keywords)


def _functional(op: Any) -> Any:
    """The out-of-place overload of an in-place operator; any other is its own."""
    base = op.schema.name.partition("::")[2]
    if not op.schema.is_mutable or not base.endswith("_"):
        return op
    return getattr(getattr(aten, base[:-1]), op.schema.overload_name or "default")


@cache
def _function(text: str, parameters: tuple[str, ...]) -> Callable[..., Any]:
    return function_of(text, parameters, f"<tangent {text}>")


def _evaluate(text: str, values: dict[str, Any], op: Any, result: Any) -> Any:
    outputs = ["result"] if op.schema.is_mutable else output_names(op.schema)
    several = list(result) if len(outputs) > 1 else [result]
    known = {**values, **dict(zip(outputs, several, strict=True))}
    return _function(text, tuple(known))(*known.values())
