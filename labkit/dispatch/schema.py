"""What an operator's schema says: argument types, defaults, and who may alias or write whom.

Printing any schema gives PyTorch's text of it, character by character.

Source   aten/src/ATen/core/function_schema.h  FunctionSchema, Argument
         aten/src/ATen/core/alias_info.h  AliasInfo
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class AliasInfo:
    """Which alias sets a value is in, before and after the call, and whether it is written.

    before    set names, ("*",) for any; `Tensor(a! -> b)` has ("a",)
    is_write  the exclamation mark
    after     sets after the call, None when unchanged
    """

    before: tuple[str, ...]
    is_write: bool = False
    after: tuple[str, ...] | None = None

    def __str__(self) -> str:
        before = "|".join(self.before) + ("!" if self.is_write else "")
        after = "" if self.after is None else f" -> {'|'.join(self.after)}"
        return f"({before}{after})"


@dataclass(frozen=True)
class Type:
    """One type with its annotation, as written: Tensor, int[2], Tensor(a!)?, Dict(str, Tensor).

    name      the base name, or "list", "optional", "tuple", "Dict", "Future", "RRef", ...
    elements  the types inside; empty for a base type
    size      a list's fixed size, None when it is not fixed
    """

    name: str
    elements: tuple["Type", ...] = ()
    size: int | None = None
    alias: AliasInfo | None = None

    def __str__(self) -> str:
        alias = "" if self.alias is None else str(self.alias)
        if self.name == "list":
            return f"{self.elements[0]}[{'' if self.size is None else self.size}]{alias}"
        if self.name == "optional":
            return f"{self.elements[0]}?{alias}"
        inside = ", ".join(map(str, self.elements))
        if self.name == "tuple":
            return f"({inside}){alias}"
        return f"{self.name}({inside}){alias}" if self.elements else self.name + alias

    @property
    def is_optional(self) -> bool:
        """True when None is a value of this type."""
        return self.name in ("optional", "NoneType", "Any")

    @property
    def is_tensor_like(self) -> bool:
        """True for the types whose values contribute a key set: Tensor, Tensor?, Tensor[],
        Tensor?[]. A `Tensor[]?` does not.

        Source   aten/src/ATen/core/dispatch/DispatchKeyExtractor.h  isDispatchType
        """
        if self.name == "list":
            (element,) = self.elements
            return element.name == "Tensor" or str(element.without_alias()) == "Tensor?"
        if self.name == "optional":
            return self.elements[0].name == "Tensor"
        return self.name == "Tensor"

    def without_alias(self) -> "Type":
        """The same type with no annotation at any depth."""
        return Type(self.name, tuple(e.without_alias() for e in self.elements), self.size)

    def alias_infos(self) -> tuple[AliasInfo, ...]:
        """The annotations at every depth, outermost first."""
        inner = tuple(info for element in self.elements for info in element.alias_infos())
        return inner if self.alias is None else (self.alias, *inner)


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED: Any = _Required()
"""The default of an argument that has none; None is a default like any other."""


@dataclass(frozen=True)
class Argument:
    """One parameter or one result."""

    type: Type
    name: str = ""
    default: Any = REQUIRED
    kwarg_only: bool = False

    def __str__(self) -> str:
        text = f"{self.type} {self.name}" if self.name else str(self.type)
        if self.default is REQUIRED:
            return text
        return f"{text}={_print_default(self.default, self.type)}"

    @property
    def is_write(self) -> bool:
        """True when the call may change this value."""
        return any(info.is_write for info in self.type.alias_infos())


@dataclass(frozen=True)
class Schema:
    """An operator's signature.

    is_vararg, is_varret  the schema ends with `...`

    Source   aten/src/ATen/core/function_schema.h  FunctionSchema
    """

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    is_vararg: bool = False
    is_varret: bool = False

    @property
    def operator_name(self) -> str:
        """`aten::add.Tensor`, or `aten::relu` for the overload without a name."""
        return f"{self.name}.{self.overload_name}" if self.overload_name else self.name

    @property
    def namespace(self) -> str:
        """What comes before the double colon."""
        return self.name.partition("::")[0]

    def __str__(self) -> str:
        parts = []
        seen_kwarg_only = False
        for argument in self.arguments:
            if argument.kwarg_only and not seen_kwarg_only:
                parts.append("*")
                seen_kwarg_only = True
            parts.append(str(argument))
        parts += ["..."] * self.is_vararg
        return f"{self.operator_name}({', '.join(parts)}) -> {self._print_returns()}"

    def _print_returns(self) -> str:
        results = [str(result) for result in self.returns] + ["..."] * self.is_varret
        single = len(results) == 1 and not results[0].startswith("(")
        return results[0] if single else f"({', '.join(results)})"

    @cached_property
    def dispatch_positions(self) -> tuple[int, ...]:
        """Positions of the arguments whose key sets decide where a call goes."""
        return tuple(i for i, a in enumerate(self.arguments) if a.type.is_tensor_like)

    @cached_property
    def is_mutable(self) -> bool:
        """True when some argument is written, as in add_ and in out= overloads."""
        return any(argument.is_write for argument in self.arguments)

    @cached_property
    def is_view(self) -> bool:
        """True when a result may share memory with an argument that is only read."""
        read = {
            name
            for argument in self.arguments
            for info in argument.type.alias_infos()
            if not info.is_write
            for name in info.before
        }
        return any(
            name in read
            for result in self.returns
            for info in result.type.alias_infos()
            for name in info.before
        )

    def stack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """One value per argument, in schema order: given, then defaults.

        Raises   TypeError   too many, too few, twice, or unknown; the schema is shown
        """
        if len(args) > self.positional_count and not self.is_vararg:
            raise TypeError(
                f"{self.operator_name} takes {self.positional_count} positional arguments, "
                f"got {len(args)}\n  schema: {self}"
            )
        if len(args) == len(self.arguments) and not kwargs:
            return list(args)
        values = list(args[: len(self.arguments)])
        left = dict(kwargs)
        for argument in self.arguments[len(values) :]:
            if argument.name in left:
                values.append(left.pop(argument.name))
            elif argument.default is REQUIRED:
                raise TypeError(
                    f"{self.operator_name} is missing argument {argument.name!r} of type "
                    f"{argument.type}\n  schema: {self}"
                )
            else:
                values.append(argument.default)
        if left:
            twice = [name for name in left if name in {a.name for a in self.arguments}]
            problem = (
                f"got {twice[0]!r} twice" if twice else f"has no argument {next(iter(left))!r}"
            )
            raise TypeError(f"{self.operator_name} {problem}\n  schema: {self}")
        return values + list(args[len(self.arguments) :])

    def unstack(self, stack: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A stack as a call would be written: without the defaults at its end.

        Source   torch/csrc/autograd/python_variable.h  parseIValuesToPyArgsKwargs
        """
        values = zip(self.arguments, stack, strict=True)
        given = [(argument, value, not _is_default(argument, value)) for argument, value in values]
        positional = given[: self.positional_count]
        while positional and not positional[-1][2]:
            positional.pop()
        keywords = {a.name: value for a, value, wanted in given[self.positional_count :] if wanted}
        return tuple(value for _, value, _ in positional), keywords

    @cached_property
    def positional_count(self) -> int:
        """How many arguments may be given without their names."""
        return sum(not argument.kwarg_only for argument in self.arguments)


def _is_default(argument: Argument, value: Any) -> bool:
    if argument.default is None or value is None:
        return argument.default is value
    return type(value) is type(argument.default) and bool(value == argument.default)


def _print_default(value: Any, of_type: Type) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return _print_float(value)
    if isinstance(value, str):
        return _print_string(value)
    if isinstance(value, list | tuple):
        is_int_list = of_type.name == "list" and of_type.elements[0].name == "int"
        if is_int_list and len(value) > 1 and len(set(value)) == 1:
            return str(value[0])  # int[2] stride=1; for SymInt[2] PyTorch prints the list
        return f"[{', '.join(_print_default(item, of_type) for item in value)}]"
    return str(value)


def _print_float(value: float) -> str:
    """As C++ streams print it: 17 significant digits, and a bare point after whole numbers.

    Source   aten/src/ATen/core/ivalue.cpp  operator<<(std::ostream&, const IValue&)
    """
    if math.isfinite(value) and abs(value) < 2**63 and value == int(value):
        return f"{int(value)}."
    return f"{value:.17g}"


_ESCAPES = {
    "\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r",
    "\f": "\\f", "\v": "\\v", "\a": "\\a", "\b": "\\b", "'": "\\'",
}  # fmt: skip


def _print_string(value: str) -> str:
    out = []
    for char in value:
        printable = " " <= char <= "~"
        out.append(_ESCAPES.get(char) or (char if printable else f"\\{ord(char):03o}"))
    return '"' + "".join(out) + '"'
