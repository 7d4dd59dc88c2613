"""Schema text to Schema, with PyTorch's grammar.

    schema    name(arguments) -> returns
    name      [ns::]base[.overload]
    argument  type name[=default], with `*` before the keyword-only ones and `...` for varargs
    type      base [(alias)] then any of ? [] [N] (alias); also Dict(k, v), Future(t), (t, t)
    alias     a  a!  a|b  *  a -> *

Source   torch/csrc/jit/frontend/function_schema_parser.cpp  SchemaParser
         torch/csrc/jit/frontend/schema_type_parser.cpp  SchemaTypeParser
"""

import re
from functools import lru_cache
from typing import Any

from labkit.dispatch.schema import REQUIRED, AliasInfo, Argument, Schema, Type

_TOKEN = re.compile(
    r"""\s*(?P<token>
        "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*'
      | -?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?
      | -> | \.\.\. | ::
      | [A-Za-z_][A-Za-z_0-9]*
      | [()\[\],=*!?.|:-]
    )""",
    re.VERBOSE,
)

_GENERIC = {"Dict", "Future", "RRef", "Await", "Union"}
_BASE = {
    "Tensor", "int", "float", "bool", "str", "complex", "Scalar", "ScalarType", "SymInt", "SymBool",
    "Device", "Layout", "MemoryFormat", "QScheme", "Quantizer", "ConstQuantizerPtr", "Generator",
    "Storage", "Stream", "Capsule", "Any", "AnyClassType", "AnyEnumType", "NoneType", "None",
}  # fmt: skip
_CLASSES = "__torch__.torch.classes."

_CONSTANTS = {
    "None": None, "True": True, "False": False,
    "none": 0, "Mean": 1, "mean": 1, "Sum": 2,
    "strided": 0, "contiguous_format": 0, "preserve_format": 1, "channels_last": 2,
    "byte": 0, "uint8": 0, "char": 1, "int8": 1, "short": 2, "int16": 2, "int": 3, "int32": 3,
    "long": 4, "int64": 4, "half": 5, "float16": 5, "float": 6, "float32": 6,
    "double": 7, "float64": 7, "complex64": 9, "cfloat": 9, "complex128": 10, "cdouble": 10,
    "bool": 11, "bfloat16": 15,
}  # fmt: skip
"""Names a default may use; enumerations become the numbers PyTorch stores."""


class SchemaError(ValueError):
    """A schema that cannot be read: says what was expected, with a caret under the place."""


class _Parser:
    def __init__(self, text: str, known_types: bool) -> None:
        self.text = text
        self.known_types = known_types
        self.tokens: list[tuple[str, int]] = []
        position = 0
        end = len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._error("a schema token", position)
            self.tokens.append((match["token"], match.start("token")))
            position = match.end()
        self.at = 0

    def _error(self, expected: str, position: int) -> SchemaError:
        return SchemaError(f"expected {expected}\n  {self.text}\n  {' ' * position}^ here")

    def error(self, expected: str) -> SchemaError:
        position = self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text)
        return self._error(expected, position)

    @property
    def next(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.next
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.next != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(repr(token))

    def identifier(self, what: str) -> str:
        if not self.next.isidentifier():
            raise self.error(what)
        return self.take()

    # -- schema ---------------------------------------------------------------------------

    def schema(self) -> Schema:
        name = self.identifier("an operator name")
        if self.accept("::"):
            name = f"{name}::{self.identifier('an operator name')}"
        overload = self.identifier("an overload name") if self.accept(".") else ""
        if overload == "default":
            raise SchemaError("the overload name 'default' means no overload name; leave it out")
        arguments, is_vararg = self.arguments()
        self.expect("->")
        returns, is_varret = self.returns()
        if self.next:
            raise self.error("the end of the schema")
        _check_defaults(name, arguments)
        return Schema(name, overload, arguments, returns, is_vararg, is_varret)

    def arguments(self) -> tuple[tuple[Argument, ...], bool]:
        self.expect("(")
        found: list[Argument] = []
        kwarg_only = is_vararg = False
        while not self.accept(")"):
            if (found or kwarg_only) and not self.accept(","):
                raise self.error("',' or ')'")
            if self.accept("*"):
                kwarg_only = True
            elif self.accept("..."):
                is_vararg = True
                self.expect(")")
                break
            else:
                found.append(self.argument(kwarg_only))
        return tuple(found), is_vararg

    def argument(self, kwarg_only: bool) -> Argument:
        kind = self.type()
        name = self.identifier("an argument name")
        if self.accept("["):  # int self[3]: an older spelling of the fixed size
            size = int(self.take())
            self.expect("]")
            kind = Type("list", (kind,), size)
        default = self.default(kind) if self.accept("=") else REQUIRED
        return Argument(kind, name, default, kwarg_only)

    def returns(self) -> tuple[tuple[Argument, ...], bool]:
        if self.accept("..."):
            return (), True
        if not self.accept("("):
            return (self.result(),), False
        found: list[Argument] = []
        is_varret = False
        while not self.accept(")"):
            if found and not self.accept(","):
                raise self.error("',' or ')'")
            if self.accept("..."):
                is_varret = True
                self.expect(")")
                break
            found.append(self.result())
        return tuple(found), is_varret

    def result(self) -> Argument:
        kind = self.type()
        return Argument(kind, self.take() if self.next.isidentifier() else "")

    # -- types ----------------------------------------------------------------------------

    def type(self) -> Type:
        if self.accept("("):
            kind = Type("tuple", self.type_list())
        else:
            name = self.type_name()
            if name in _GENERIC:
                self.expect("(")
                kind = Type(name, self.type_list())
            else:
                kind = Type(name)
        kind = self.with_alias(kind)
        while True:
            if self.accept("?"):
                kind = self.with_alias(Type("optional", (kind,)))
            elif self.next == "[":
                self.take()
                size = None if self.next == "]" else int(self.take())
                self.expect("]")
                kind = self.with_alias(Type("list", (kind,), size))
            else:
                return kind

    def type_name(self) -> str:
        """The name of a type; with `known_types`, of one that an operator may have."""
        start = self.at
        name = self.identifier("a type")
        while self.accept("."):
            name = f"{name}.{self.identifier('a class name')}"
        known = name in _BASE or name in _GENERIC or name.startswith(_CLASSES)
        if known or not self.known_types:
            return name
        self.at = start
        raise self.error("a type such as Tensor, SymInt, int, float, bool or Scalar")

    def type_list(self) -> tuple[Type, ...]:
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        self.expect(")")
        return tuple(found)

    def with_alias(self, kind: Type) -> Type:
        if self.next != "(":
            return kind
        self.take()
        before = self.alias_sets()
        is_write = self.accept("!")
        while self.accept("|"):
            before += self.alias_sets()
        after = self.alias_sets() if self.accept("->") else None
        while after is not None and self.accept("|"):
            after += self.alias_sets()
        self.expect(")")
        return Type(kind.name, kind.elements, kind.size, AliasInfo(before, is_write, after))

    def alias_sets(self) -> tuple[str, ...]:
        return ("*",) if self.accept("*") else (self.identifier("an alias set name"),)

    # -- defaults -------------------------------------------------------------------------

    def default(self, kind: Type) -> Any:
        if kind.name != "list":
            return self.constant(kind)
        element = kind.elements[0]
        if not self.accept("["):
            if kind.size is None:
                raise self.error(f"a list as the default of {kind}")
            return [self.constant(element)] * kind.size  # int[2] stride=1 means [1, 1]
        values: list[Any] = []
        while self.next != "]":
            if values:
                self.expect(",")
            values.append(self.constant(element))
        self.expect("]")
        return values

    def constant(self, kind: Type) -> Any:
        token = self.take()
        if token[:1] in ('"', "'"):
            return _unquote(token)
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        try:
            whole = int(token)
        except ValueError:
            try:
                return float(token)
            except ValueError:
                self.at -= 1
                raise self.error(f"a default of type {kind}") from None
        return float(whole) if kind.name == "float" else whole


_UNESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "b": "\b"}


def _unquote(token: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8)) if code.isdigit() else _UNESCAPES.get(code, code)

    return re.sub(r"\\([0-7]{3}|.)", plain, token[1:-1], flags=re.DOTALL)


def _check_defaults(name: str, arguments: tuple[Argument, ...]) -> None:
    seen_default = None
    for argument in arguments:
        if argument.kwarg_only:
            continue
        if argument.default is not REQUIRED:
            seen_default = argument.name
        elif seen_default is not None and not argument.type.is_optional:
            raise SchemaError(
                f"{name}: argument {argument.name!r} has no default but follows "
                f"{seen_default!r}, which has one"
            )


@lru_cache(maxsize=8192)
def parse_schema(text: str, known_types: bool = False) -> Schema:
    """The schema this text describes; `str()` of it is PyTorch's text again.

    known_types   refuse types that no operator of a library can have; what PyTorch prints has
                  more, such as the type variable `t` of an interpreter's own operator

    Raises   SchemaError   the text does not follow the grammar, or names such a type; the place is
                           shown
    """
    return _Parser(text, known_types).schema()
