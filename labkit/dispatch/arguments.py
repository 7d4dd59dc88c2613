"""Checks a call's arguments against the schema, and ORs the key sets of its tensors.

Anything with a `_key_set` or `key_set` is a tensor here. A PyTorch tensor gives the set
PyTorch keeps for it.

Source   torch/csrc/jit/python/pybind_utils.h  createStackForSchema
         aten/src/ATen/core/dispatch/DispatchKeyExtractor.h  getDispatchKeySetBoxed
"""

import numbers
import sys
from collections.abc import Callable
from typing import Any

from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.schema import REQUIRED, Argument, Schema, Type


def key_set_of(tensor: Any) -> DispatchKeySet | None:
    """The tensor's own key set; None for what is not a tensor."""
    found = getattr(tensor, "_key_set", None)
    if found is None:
        found = getattr(tensor, "key_set", None)
        if callable(found):
            found = found()
    if isinstance(found, DispatchKeySet):
        return found
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        from labkit.dispatch.torch_keys import key_set_of_tensor  # labkit alone needs no torch

        return key_set_of_tensor(tensor)
    return None


def plain_tensor_count(schema: Schema) -> int:
    """How many leading arguments are plain tensors when all the others have defaults; else -1.

    A call with exactly these needs no checks beyond having key sets.
    """
    plain = 0
    for argument in schema.arguments:
        if argument.type.name != "Tensor" or argument.kwarg_only:
            break
        plain += 1
    rest = schema.arguments[plain:]
    return plain if all(argument.default is not REQUIRED for argument in rest) else -1


def key_bits_of(schema: Schema, values: list[Any]) -> int:
    """The OR of the key sets of every tensor in a call, its arguments checked.

    values  one for each argument of the schema, as `Schema.stack` gives them

    Raises   TypeError   a value does not fit the schema
    """
    for argument, value in zip(schema.arguments, values, strict=False):
        check(schema, argument, value)
    return joined([values[position] for position in schema.dispatch_positions])


def joined(values: list[Any]) -> int:
    """The OR of the key sets of every tensor among the values and in their lists."""
    bits = 0
    for value in values:
        for tensor in value if isinstance(value, list | tuple) else (value,):
            keys = key_set_of(tensor)
            bits |= 0 if keys is None else keys.raw
    return bits


def check(schema: Schema, argument: Argument, value: Any) -> None:
    """Nothing, if the value is of the argument's type.

    Raises   TypeError   it is not; names operator, argument, type and value
    """
    if not fits(argument.type, value):
        shown = repr(value)
        raise TypeError(
            f"{schema.operator_name}: argument {argument.name!r} must be {argument.type}, got "
            f"{shown if len(shown) < 80 else shown[:77] + '...'} of type {type(value).__name__}"
            f"\n  schema: {schema}"
        )


def check_result(schema: Schema, result: Any) -> None:
    """Nothing, if a kernel's answer is what the schema returns.

    Raises   RuntimeError   another type, or another number of results; names the schema
    """
    returns = schema.returns
    if schema.is_varret:
        return
    if len(returns) == 1:
        answers: Any = (result,)
    else:
        answers = (
            result if isinstance(result, tuple | list) else () if result is None else (result,)
        )
    if len(answers) != len(returns):
        raise RuntimeError(
            f"{schema.operator_name}: the kernel must return {len(returns)} values, got "
            f"{len(answers)}\n  schema: {schema}"
        )
    for promised, answer in zip(returns, answers, strict=True):
        if not fits(promised.type, answer) and answer is not None:
            raise RuntimeError(
                f"{schema.operator_name}: Unable to cast {answer!r} to {promised.type}: the kernel "
                f"returned a {type(answer).__name__}\n  schema: {schema}"
            )


def fits(kind: Type, value: Any) -> bool:
    """True when PyTorch would take the value for this type."""
    if kind.name == "optional":
        return value is None or fits(kind.elements[0], value)
    if kind.name == "list":
        (element,) = kind.elements
        if kind.size is not None and not isinstance(value, list | tuple):
            return fits(element, value)  # int[2] takes 3 for [3, 3]
        if not isinstance(value, list | tuple):
            return False
        return all(fits(element, item) for item in value)
    if kind.name == "tuple":
        return isinstance(value, tuple) and len(value) == len(kind.elements)
    accepts = _ACCEPTS.get(kind.name)
    return accepts is None or accepts(value)


def _is_int(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_float(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda value: key_set_of(value) is not None,
    "int": _is_int,
    "SymInt": _is_int,
    "float": _is_float,
    "SymFloat": _is_float,
    "complex": lambda value: isinstance(value, numbers.Complex),
    "Scalar": lambda value: isinstance(value, numbers.Number),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "NoneType": lambda value: value is None,
    "Dict": lambda value: isinstance(value, dict),
}
"""Base type -> what it takes; types not listed (dtype, Device, Generator, classes) take anything:
the kernel knows them better."""
