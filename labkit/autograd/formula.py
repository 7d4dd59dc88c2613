"""A row's formulas as code: the node class whose `apply` evaluates them.

What a formula names decides what the forward call saves. A formula that mentions `other` has
`other` saved; one that mentions only `self.sizes` has the sizes saved and the tensor not.

Source   tools/autograd/gen_autograd_functions.py
         tools/autograd/load_derivatives.py  saved_variables
"""

import ast
import builtins
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from labkit.autograd import formulas
from labkit.autograd.derivatives.row import Row
from labkit.autograd.direct_calls import with_direct_calls
from labkit.autograd.node import Node
from labkit.dispatch.schema import Argument, Schema
from labkit.ops.aten import aten

PROPERTIES = {
    "sizes": "sym_sizes", "strides": "sym_strides", "dtype": "scalar_type", "device": "device",
    "dim": "dim", "numel": "sym_numel", "storage_offset": "sym_storage_offset",
    "geometry": "geometry",
}  # fmt: skip
"""Attribute or method of a tensor argument -> the name PyTorch saves it under."""
METHODS = {"dim", "numel", "storage_offset"}


@dataclass
class Formula:
    """One formula, taken apart.

    arguments    whose gradients it gives
    code         Python, names prefixed so that nothing collides: a_<argument>, r_<output>, ...
    tensors      tensor arguments it saves
    values       other arguments it saves
    properties   (argument, property): what it saves instead of the tensor
    results      outputs it saves, by number
    """

    arguments: tuple[str, ...]
    code: str = ""
    tensors: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    properties: list[tuple[str, str]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)


class Names(ast.NodeTransformer):
    """Renames what a formula mentions, and notes what that means for saving."""

    def __init__(self, into: Formula, row: Row, schema: Schema) -> None:
        self.into = into
        self.arguments = {argument.name: argument for argument in schema.arguments}
        self.outputs = output_names(schema)
        self.flags = row.differentiable_outputs or (True,) * len(schema.returns)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """`self.sizes` is saved by itself; `aten.mul.Tensor` is looked up once."""
        value = node.value
        if isinstance(value, ast.Name) and value.id in self.arguments:
            argument = self.arguments[value.id]
            if argument.type.is_tensor_like and node.attr in PROPERTIES:
                return self._property(value.id, node.attr)
        if (
            isinstance(value, ast.Attribute)
            and isinstance(value.value, ast.Name)
            and value.value.id == "aten"
        ):
            name = f"aten_{value.attr}_{node.attr}"
            self.into.constants[name] = (value.attr, node.attr)
            return ast.Name(name, ast.Load())
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """`self.dim()` is saved by itself."""
        function = node.func
        if (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id in self.arguments
            and self.arguments[function.value.id].type.is_tensor_like
            and function.attr in METHODS
        ):
            return self._property(function.value.id, function.attr)
        return self.generic_visit(node)  # type: ignore[return-value]

    def _property(self, argument: str, name: str) -> ast.expr:
        _append(self.into.properties, (argument, name))
        return ast.Name(f"p_{argument}_{name}", ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """An argument, an output, a gradient; anything else is a helper's name."""
        name = node.id
        if name in self.arguments:
            kind = self.arguments[name].type
            _append(self.into.tensors if kind.is_tensor_like else self.into.values, name)
            return ast.Name(f"a_{name}", ast.Load())
        if name in self.outputs:
            number = self.outputs.index(name)
            _append(self.into.results, number)
            return ast.Name(f"r_{number}", ast.Load())
        if name.startswith("grad_") and name[5:] in self.outputs:
            number = self.outputs.index(name[5:])
            return ast.parse(f"grads[{sum(self.flags[:number])}]", mode="eval").body
        return node


def _append(items: list[Any], item: Any) -> None:
    if item not in items:
        items.append(item)


def output_names(schema: Schema) -> list[str]:
    """What formulas call the outputs: `result`, or the schema's names, or result0, result1."""
    if len(schema.returns) == 1:
        return [schema.returns[0].name or "result"]
    return [each.name or f"result{i}" for i, each in enumerate(schema.returns)]


class Differentiation:
    """A row together with the schema of its operator, taken apart.

    Raises   ValueError   the row names arguments that the schema does not have
    """

    def __init__(self, row: Row, schema: Schema) -> None:
        self.row = row
        self.schema = schema
        by_name = {argument.name: argument for argument in schema.arguments}
        self.formulas: list[Formula] = []
        order = list(by_name)
        for names, text in row.formulas.items():
            if not text:
                continue
            arguments = tuple(re.split(r",\s*", names))
            unknown = [name for name in arguments if name not in by_name]
            if unknown:
                raise ValueError(f"the row of {row.operator} differentiates {unknown}; the schema "
                                 f"is {schema}")  # fmt: skip
            self.formulas.append(self._parse(arguments, text))
        self.formulas.sort(key=lambda formula: order.index(formula.arguments[0]))
        differentiated = {name for formula in self.formulas for name in formula.arguments}
        self.differentiated: list[Argument] = [
            by_name[name] for name in order if name in differentiated
        ]
        self.has_list = any(a.type.name == "list" for a in self.differentiated)

    def _parse(self, arguments: tuple[str, ...], text: str) -> Formula:
        formula = Formula(arguments)
        tree = ast.parse(text.strip(), mode="eval")
        tree = Names(formula, self.row, self.schema).visit(tree)
        formula.code = ast.unparse(ast.fix_missing_locations(tree))
        return formula

    def edge_of(self, argument: str) -> int:
        """Which of the node's edges is the argument's (without lists)."""
        return [each.name for each in self.differentiated].index(argument)

    def _all(self, kind: str) -> list[Any]:
        found: list[Any] = []
        for formula in self.formulas:
            for item in getattr(formula, kind):
                _append(found, item)
        return found

    @cached_property
    def tensors(self) -> list[str]:
        """Tensor arguments that are saved, in the order they are: by name, as in PyTorch."""
        return sorted(self._all("tensors"))

    @cached_property
    def values(self) -> list[str]:
        """Other arguments that are saved."""
        return self._all("values")

    @cached_property
    def properties(self) -> list[tuple[str, str]]:
        """(tensor argument, property) that are saved."""
        return self._all("properties")

    @cached_property
    def results(self) -> list[int]:
        """Outputs that are saved."""
        return self._all("results")

    def guard(self, tensor: str) -> int | None:
        """The edge that alone needs this tensor saved; None when it is saved in any case.

        Source   tools/autograd/gen_variable_type.py  guard_for
        """
        if self.has_list or "backward" in self.row.operator or len(self.differentiated) <= 1:
            return None
        if self._argument(tensor).type.name != "Tensor":
            return None
        users = [formula for formula in self.formulas if tensor in formula.tensors]
        if len(users) != 1 or len(users[0].arguments) != 1:
            return None
        return self.edge_of(users[0].arguments[0])

    def _argument(self, name: str) -> Argument:
        return next(each for each in self.schema.arguments if each.name == name)

    def is_list(self, name: str) -> bool:
        """True for an argument that is a list of tensors."""
        return self._argument(name).type.name == "list"


def property_name(argument: str, name: str) -> str:
    """`_saved_self_sym_sizes`, as PyTorch calls it."""
    return f"_saved_{argument}_{PROPERTIES[name]}"


def saved_output_name(schema: Schema, number: int) -> str:
    """`result`, or the schema's name of the output."""
    return output_names(schema)[number]


def node_class(differentiation: Differentiation) -> type[Node]:
    """The class of the row's nodes."""
    row, schema = differentiation.row, differentiation.schema
    names: dict[str, Any] = {"__doc__": f"Backward of {row.operator}.", "row": row}
    for tensor in differentiation.tensors:
        names[f"_raw_saved_{tensor}"] = None
        names[f"_saved_{tensor}"] = _unpacking(f"_raw_saved_{tensor}")
    for number in differentiation.results:
        name = saved_output_name(schema, number)
        names[f"_raw_saved_{name}"] = None
        names[f"_saved_{name}"] = _unpacking(f"_raw_saved_{name}")
    raw = [name for name in names if name.startswith("_raw_saved_")]
    if raw:
        names["release_variables"] = _releasing(raw, differentiation)
        names["has_saved"] = True
    assert row.node is not None
    made: type[Node] = type(row.node, (Node,), names)
    made.apply = _late_apply(made, differentiation)  # type: ignore[method-assign]
    return made


def _unpacking(raw: str) -> property:
    def unpack(self: Any) -> Any:
        saved = getattr(self, raw)
        if isinstance(saved, list):
            return tuple(None if each is None else each.unpack(self) for each in saved)
        return None if saved is None else saved.unpack(self)

    return property(unpack)


def _releasing(raw: list[str], differentiation: Differentiation) -> Any:
    lists = {f"_raw_saved_{name}" for name in differentiation.tensors
             if differentiation.is_list(name)}  # fmt: skip
    lines = ["def release_variables(node):"]
    for name in raw:
        lines.append(f"    s = node.{name}")
        if name in lists:
            lines.append("    for each in s or ():")
            lines.append("        if each is not None: each.release()")
        else:
            lines.append("    if s is not None: s.release()")
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    return namespace["release_variables"]


def _late_apply(made: type[Node], differentiation: Differentiation) -> Any:
    """`apply` compiles itself when the first node of the class runs."""

    def apply(self: Any, grads: list[Any], needs: tuple[Any, ...]) -> Any:
        compiled = compile_apply(differentiation)
        made.apply = compiled  # type: ignore[method-assign]
        return compiled(self, grads, needs)

    return apply


def compile_apply(differentiation: Differentiation) -> Any:
    """The `apply` of a row, from source that `apply.source` shows."""
    namespace = formulas.namespace()
    for formula in differentiation.formulas:
        for name, (operator, overload) in formula.constants.items():
            namespace[name] = getattr(getattr(aten, operator), overload)
    for formula in differentiation.formulas:
        add_operators(formula.code, namespace)
        formula.code = with_direct_calls(formula.code, differentiation, namespace)
    source = apply_source(differentiation)
    code = compile(source, f"<derivative of {differentiation.row.operator}>", "exec")
    namespace["__name__"] = __name__
    exec(code, namespace)
    function = namespace["apply"]
    function.source = source
    return function


def add_operators(code: str, namespace: dict[str, Any], known: Collection[str] = ()) -> None:
    """Names that are no helper are operators: `cos(self)` is aten.cos.default.

    Raises   NameError   neither
    """
    names = [each for each in ast.walk(ast.parse(code)) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}  # by a comprehension
    for name in sorted({each.id for each in names} - bound):
        local = re.match(r"(a|p|r)_|(grad|grads|needs|wanted|node)$", name)
        if name in namespace or name in known or local or hasattr(builtins, name):
            continue
        try:
            packet = getattr(aten, name)
        except AttributeError:
            raise NameError(
                f"the formula {code!r} calls {name}, which is neither in "
                "labkit.autograd.formulas nor an operator of labkit"
            ) from None
        namespace[name] = packet.default if "default" in packet.overloads() else packet


def apply_source(differentiation: Differentiation) -> str:
    """The source of `apply`: unpack what was saved, evaluate the formulas that are wanted.

    Everything is unpacked, wanted or not: it is an error to have changed any of it.
    """
    row, schema = differentiation.row, differentiation.schema
    lines = ["def apply(node, grads, needs):", *_unpacked(differentiation)]
    add = lines.append
    count = len(differentiation.differentiated)
    single = sum(row.differentiable_outputs or (True,) * len(schema.returns)) == 1
    add("    grad = grads[0]")
    if single and schema.returns[0].type.name != "list":
        none = "(None,) * len(needs)" if differentiation.has_list else f"({'None, ' * count})"
        add(f"    if grad is None: return {none}")
    else:
        none = "(None,) * len(needs)"
        add(f"    if not any(each is not None for each in grads): return {none}")
    if differentiation.has_list:
        return "\n".join(lines + _with_lists(differentiation))
    add("    " + " = ".join(f"g{i}" for i in range(count)) + " = None")
    for formula in differentiation.formulas:
        edges = [differentiation.edge_of(name) for name in formula.arguments]
        add("    if " + " or ".join(f"needs[{edge}]" for edge in edges) + ":")
        lines += [f"        {line}" for line in _values(formula)]
        if len(edges) == 1:
            add(f"        g{edges[0]} = {formula.code}")
        else:
            wanted = ", ".join(f"not not needs[{edge}]" for edge in edges)
            add(f"        wanted = ({wanted})")
            code = re.sub(r"\bneeds\b", "wanted", formula.code)
            add("        " + ", ".join(f"g{edge}" for edge in edges) + f" = {code}")
    add("    return (" + "".join(f"g{i}, " for i in range(count)) + ")")
    return "\n".join(lines)


def _unpacked(differentiation: Differentiation) -> list[str]:
    lines = []
    for name in differentiation.tensors:
        saved = f"node._raw_saved_{name}"
        if differentiation.is_list(name):
            lines.append(f"    a_{name} = [s and s.unpack(node) for s in {saved}]")
        else:
            lines.append(f"    s = {saved}; a_{name} = None if s is None else s.unpack(node)")
    for number in differentiation.results:
        saved = f"node._raw_saved_{saved_output_name(differentiation.schema, number)}"
        lines.append(f"    s = {saved}; r_{number} = None if s is None else s.unpack(node)")
    return lines


def _values(formula: Formula) -> list[str]:
    return [f"a_{name} = node._saved_{name}" for name in formula.values] + [
        f"p_{argument}_{name} = node.{property_name(argument, name)}"
        for argument, name in formula.properties
    ]


def _with_lists(differentiation: Differentiation) -> list[str]:
    """Edges of a list of tensors are as many as the list had."""
    lines = ["    out, start = [], 0"]
    for formula in differentiation.formulas:
        (name,) = formula.arguments  # no formula gives gradients of a list and of something else
        size = f"node.count_{name}" if differentiation.is_list(name) else "1"
        lines += [
            f"    size = {size}",
            "    if any(needs[start:start + size]):",
            *[f"        {line}" for line in _values(formula)],
            f"        g = {formula.code}",
            f"        out += {'g' if differentiation.is_list(name) else '[g]'}",
            "    else:",
            "        out += [None] * size",
            "    start += size",
        ]
    return [*lines, "    return out"]
