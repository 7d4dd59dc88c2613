"""`lab.name(...)` and `x.name(...)`: Python faces made from the schemas of the operators.

A call tries the overloads in the order they were defined and runs the first whose parameters take
the arguments, converted: a number for a 0-dim tensor where PyTorch takes one, `x.sum(0)` and
`x.permute(1, 0)` for lists of sizes, `axis=` for `dim=`.

Source   torch/csrc/utils/python_arg_parser.cpp  PythonArgParser, FunctionSignature::parse
         tools/autograd/gen_python_functions.py
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

import labkit.ops.all  # noqa: F401  every operator has to be defined by now
from labkit._tensor.arguments import integer
from labkit._tensor.devices import ready
from labkit.core.device import Device
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.schema import REQUIRED, Argument, Type
from labkit.ops.aten import aten
from labkit.ops.pointwise.pointwise import wrapped_number
from labkit.ops.registration import FUNCTION, METHOD, names_of

_ALSO_CALLED = {"dim": ("axis",), "keepdim": ("keepdims",), "self": ("input",), "other": ("x2",)}
"""Parameter -> other names callers use for it, as NumPy's users do.

Source   torch/csrc/utils/python_arg_parser.cpp  numpy_compatibility_arg_names
"""

NUMBERS_AS_TENSORS = {
    "add", "sub", "mul", "div", "subtract", "multiply", "divide", "true_divide", "floor_divide"
}  # fmt: skip
"""Operators whose tensor arguments, `self` aside, may be Python numbers.

Source   torch/csrc/utils/python_arg_parser.cpp  should_allow_numbers_as_tensors
"""
_IGNORED = ("layout", "pin_memory")


class _Refused(TypeError):
    """The arguments do not fit this overload."""


class PythonFunction:
    """All overloads of one operator as one Python function."""

    def __init__(self, name: str, *, method: bool) -> None:
        self.name = name
        self.method = method
        self.__name__ = self.__qualname__ = name
        self.__doc__ = None
        self._signatures: list[_Signature] | None = None

    @property
    def signatures(self) -> "list[_Signature]":
        """One per overload, in the order they are tried."""
        if self._signatures is None:
            packet = getattr(aten, self.name)
            handles = [getattr(packet, overload) for overload in packet.overloads()]
            self._signatures = [_Signature(handle, self.name, self.method) for handle in handles]
        return self._signatures

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out", 0) is None:
            del kwargs["out"]
        if "requires_grad" in kwargs and not self.method:  # a factory: the result is a new leaf
            wanted = kwargs.pop("requires_grad")
            return self(*args, **kwargs).requires_grad_(wanted)
        refusals = []
        for signature in self.signatures:
            try:
                positional, named = signature.match(args, kwargs)
            except _Refused as refusal:
                refusals.append((signature, str(refusal)))  # its traceback holds this frame
            else:
                result = signature.handle(*positional, **named)
                if isinstance(result, list):
                    return tuple(result)
                return result if signature.results is None else signature.results(*result)
        given = ", ".join(
            [type(each).__name__ for each in args]
            + [f"{name}={type(each).__name__}" for name, each in kwargs.items()]
        )
        raise TypeError(
            f"{self.name}() received an invalid combination of arguments - got ({given}), but "
            "expected one of:\n    "
            + "\n    ".join([f"{each.handle.schema}\n      {why}" for each, why in refusals])
        )

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else _Bound(self, instance)

    def __repr__(self) -> str:
        return f"<{'method' if self.method else 'function'} {self.name} of labkit>"


class _Bound:
    __slots__ = ("function", "instance")

    def __init__(self, function: PythonFunction, instance: Any) -> None:
        self.function = function
        self.instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.instance, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<bound {self.function!r}>"


class _Signature:
    """The parameters of one overload, ready to be matched."""

    def __init__(self, handle: OperatorHandle, name: str, method: bool) -> None:
        self.handle = handle
        self.method = method
        self.numbers_as_tensors = name.rstrip("_") in NUMBERS_AS_TENSORS
        arguments = handle.schema.arguments
        self.positional = [each for each in arguments if not each.kwarg_only]
        self.named = [each for each in arguments if each.kwarg_only]
        self.outputs = [each.name for each in self.named if each.is_write]
        names = [each.name for each in handle.schema.returns]
        self.results = namedtuple(name, names) if len(names) > 1 and all(names) else None
        """What several results are returned as: a tuple with the names the schema gives them.

        Source   torch/csrc/utils/structseq.h, tools/autograd/gen_python_functions.py
        """

    def match(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments that were given, as this overload takes them.

        Raises   _Refused   it does not
        """
        args, kwargs = self._gather_sizes(args), dict(kwargs)
        if bool(self.outputs) != ("out" in kwargs) and not kwargs.keys() & self.outputs:
            raise _Refused("out= is given" if "out" in kwargs else "out= is missing")
        if len(self.outputs) > 1 and isinstance(kwargs.get("out"), tuple | list):
            kwargs.update(zip(self.outputs, kwargs.pop("out"), strict=False))
        if len(args) > len(self.positional):
            raise _Refused(f"{len(args)} positional arguments are too many")
        positional = [self.convert(a, v) for a, v in zip(self.positional, args, strict=False)]
        named = {}
        for argument in [*self.positional[len(args) :], *self.named]:
            given = kwargs.keys() & {argument.name, *_ALSO_CALLED.get(argument.name, ())}
            if given:
                named[argument.name] = self.convert(argument, kwargs.pop(min(given)))
            elif argument.default is REQUIRED:
                raise _Refused(f"{argument.name} is missing")
        for ignored in _IGNORED:
            kwargs.pop(ignored, None)
        if kwargs:
            raise _Refused(f"unexpected {', '.join(kwargs)}")
        return positional, named

    def _gather_sizes(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """x.permute(1, 0) as x.permute((1, 0)): sizes that are the only thing to be given.

        Source   torch/csrc/utils/python_arg_parser.cpp  FunctionSignature::parse
        """
        place = int(self.method)
        if len(self.positional) != place + 1 or not _is_int_list(self.positional[place].type):
            return args
        rest = args[place:]
        if rest and all(_is_size(each) for each in rest):
            return (*args[:place], tuple(rest))
        return args

    def convert(self, argument: Argument, value: Any) -> Any:
        """The value as the parameter's type.

        Raises   _Refused   it is no such thing
        """
        numbers = self.numbers_as_tensors and argument.name != "self"
        try:
            return _convert(argument.type, value, numbers)
        except (TypeError, ValueError, OverflowError):
            shown = repr(value)
            raise _Refused(
                f"{argument.name} must be {argument.type}, not {type(value).__name__} "
                f"{shown if len(shown) < 60 else shown[:57] + '...'}"
            ) from None


def _is_int_list(kind: Type) -> bool:
    if kind.name == "optional":
        kind = kind.elements[0]
    return kind.name == "list" and kind.elements[0].name in ("int", "SymInt")


def _is_size(value: Any) -> bool:
    if isinstance(value, TensorImpl):
        return not value.sizes and value.dtype.is_integral
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _convert(kind: Type, value: Any, numbers: bool) -> Any:
    if kind.name == "optional":
        return None if value is None else _convert(kind.elements[0], value, numbers)
    if kind.name == "list":
        return _list(kind, value, numbers)
    converter = _CONVERTERS.get(kind.name)
    if kind.name == "Tensor" and numbers and isinstance(value, bool | int | float | complex):
        return wrapped_number(value)
    return value if converter is None else converter(value)


def _list(kind: Type, value: Any, numbers: bool) -> Any:
    (element,) = kind.elements
    if kind.size is not None and not isinstance(value, tuple | list):
        return [_convert(element, value, numbers)] * kind.size
    if isinstance(value, TensorImpl) or not isinstance(value, tuple | list):
        raise TypeError
    return tuple([_convert(element, each, numbers) for each in value])


def _only(kind: type) -> Callable[[Any], Any]:
    """The value itself, where it is of that class."""

    def checked(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return checked


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if _is_plain_number(value):
        return aten._local_scalar_dense.default(value)
    if not isinstance(value, bool | int | float | complex):
        raise TypeError
    return value


def _int(value: Any) -> int:
    return integer(value, "")


def _is_plain_number(value: Any) -> bool:
    """A 0-dim tensor that no gradient flows through counts as its number."""
    return isinstance(value, TensorImpl) and not value.sizes and not value.requires_grad  # type: ignore[attr-defined]


def _float(value: Any) -> float:
    if _is_plain_number(value):
        value = aten._local_scalar_dense.default(value)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError
    return float(value)


def _bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError
    return bool(value)


def _device(value: Any) -> Device:
    if not isinstance(value, str | Device | int):
        raise TypeError
    return ready(value)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "Tensor": _only(TensorImpl), "Scalar": _scalar, "int": _int, "SymInt": _int, "float": _float,
    "bool": _bool, "str": _only(str), "ScalarType": _only(DType), "Device": _device,
}  # fmt: skip


def function(name: str) -> PythonFunction | None:
    """`lab.name`, where an operator has that face."""
    return PythonFunction(name, method=False) if name in names_of(FUNCTION) else None


def install_methods(tensor: type) -> None:
    """Give the class a method for every operator that has that face and is not written out."""
    written = set(dir(tensor))
    for name in names_of(METHOD):
        if name not in written:
            setattr(tensor, name, PythonFunction(name, method=True))
