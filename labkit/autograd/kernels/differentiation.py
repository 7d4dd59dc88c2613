"""A row of the derivative table, taken apart: what it differentiates, and what it has to save.

What a formula names decides what the forward call saves. A formula that mentions `other` has
`other` saved; one that mentions only `self.sizes` has the sizes saved and the tensor not.

Source   tools/autograd/load_derivatives.py  saved_variables
"""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from labkit.autograd import formulas
from labkit.autograd.derivatives.row import Row
from labkit.dispatch.schema import Schema

PROPERTIES = {
    "sizes": "sym_sizes", "strides": "sym_strides", "dtype": "scalar_type", "device": "device",
    "dim": "dim", "numel": "sym_numel", "storage_offset": "sym_storage_offset",
    "geometry": "geometry",
}  # fmt: skip
"""Attribute or method of a tensor argument -> the name PyTorch saves it under."""
METHODS = {"dim", "numel", "storage_offset"}


@dataclass
class Formula:
    """One formula.

    arguments    whose gradients it gives
    places       which of the differentiated arguments those are
    text         Python; `self.sizes` has become `self_sizes`
    tensors      tensor arguments it mentions
    values       other arguments it mentions
    properties   (argument, property) it mentions: saved instead of the tensor
    results      outputs it mentions, by number
    gradients    name -> number of the gradient it stands for: grad_values, say
    """

    arguments: tuple[str, ...]
    operator: str
    places: tuple[int, ...] = ()
    text: str = ""
    tensors: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    properties: list[tuple[str, str]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    gradients: dict[str, int] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    """The names in the text that stand for values: what `function` takes, in this order."""

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The formula, to be called with the values of its parameters."""
        title = f"<derivative of {self.operator}: {', '.join(self.arguments)}>"
        return formulas.function_of(self.text, self.parameters, title)

    def __call__(self, values: dict[str, Any]) -> Any:
        """The gradient, or one per argument.

        values   of all parameters, by name
        """
        return self.function(*map(values.__getitem__, self.parameters))


class _Names(ast.NodeTransformer):
    """Notes what a formula mentions, and what that means for saving."""

    def __init__(self, into: Formula, row: Row, schema: Schema) -> None:
        self.into = into
        self.arguments = {argument.name: argument for argument in schema.arguments}
        self.outputs = output_names(schema)
        self.flags = row.differentiable_outputs or (True,) * len(schema.returns)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """`self.sizes` is saved by itself."""
        name = self._tensor_argument(node.value)
        if name is not None and node.attr in PROPERTIES and node.attr not in METHODS:
            return self._property(name, node.attr)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """`self.dim()` is saved by itself."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            name = self._tensor_argument(node.func.value)
            if name is not None:
                return self._property(name, node.func.attr)
        return self.generic_visit(node)  # type: ignore[return-value]

    def _tensor_argument(self, node: ast.expr) -> str | None:
        if not isinstance(node, ast.Name) or node.id not in self.arguments:
            return None
        return node.id if self.arguments[node.id].type.is_tensor_like else None

    def _property(self, argument: str, name: str) -> ast.expr:
        _append(self.into.properties, (argument, name))
        return self._parameter(f"{argument}_{name}")

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """An argument, an output, a gradient; anything else is a helper's name."""
        name = node.id
        if name in self.arguments:
            kind = self.arguments[name].type
            _append(self.into.tensors if kind.is_tensor_like else self.into.values, name)
        elif name in self.outputs:
            _append(self.into.results, self.outputs.index(name))
        elif name.startswith("grad_") and name[5:] in self.outputs:
            number = self.outputs.index(name[5:])
            self.into.gradients[name] = sum(self.flags[:number])
        elif name not in ("grad", "grads", "needs"):
            return node
        return self._parameter(name)

    def _parameter(self, name: str) -> ast.Name:
        _append(self.into.parameters, name)
        return ast.Name(name, ast.Load())


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

    formulas          in the order of their arguments
    position          argument -> which one of the schema it is
    differentiated    arguments that can have a gradient, in the order of the schema
    positions         and which ones of the schema those are
    lists             arguments that are lists
    tensors           tensor arguments that are saved: by name, as in PyTorch
    values            other arguments that are saved
    properties        (tensor argument, property) that are saved
    results           outputs that are saved, by number
    gradients         name -> number of the gradient that formulas call so
    guards            saved argument -> the edge that alone needs it, or None: see `_guard`

    Raises   ValueError   the row names arguments that the schema does not have
    """

    def __init__(self, row: Row, schema: Schema) -> None:
        self.row = row
        self.schema = schema
        order = [argument.name for argument in schema.arguments]
        self.formulas: list[Formula] = []
        for names, text in row.formulas.items():
            if not text:
                continue
            arguments = tuple(re.split(r",\s*", names))
            unknown = [name for name in arguments if name not in order]
            if unknown:
                raise ValueError(f"the row of {row.operator} differentiates {unknown}; the schema "
                                 f"is {schema}")  # fmt: skip
            self.formulas.append(_parse(arguments, text, row, schema))
        self.formulas.sort(key=lambda formula: order.index(formula.arguments[0]))
        differentiated = {name for formula in self.formulas for name in formula.arguments}
        self.differentiated = [name for name in order if name in differentiated]
        for formula in self.formulas:
            formula.places = tuple(map(self.differentiated.index, formula.arguments))
        self.position = {name: i for i, name in enumerate(order)}
        self.positions = [self.position[name] for name in self.differentiated]
        self.lists = {each.name for each in schema.arguments if each.type.name == "list"}
        self.tensors: list[str] = sorted(self._all("tensors"))
        self.values: list[str] = self._all("values")
        self.properties: list[tuple[str, str]] = self._all("properties")
        self.results: list[int] = self._all("results")
        self.gradients = {
            name: number for each in self.formulas for name, number in each.gradients.items()
        }
        self.has_list = not self.lists.isdisjoint(self.differentiated)
        self.guards = {name: self._guard(name) for name in self.tensors}

    def inputs(self, values: Sequence[Any]) -> list[Any]:
        """The tensors that can have a gradient, those of lists one after the other.

        values   one per argument of the schema
        """
        given = [values[position] for position in self.positions]
        if not self.has_list:
            return given
        return [each for one in given for each in (one if isinstance(one, list | tuple) else [one])]

    def _all(self, kind: str) -> list[Any]:
        found: list[Any] = []
        for formula in self.formulas:
            for item in getattr(formula, kind):
                _append(found, item)
        return found

    def _guard(self, tensor: str) -> int | None:
        """The edge that alone needs this tensor saved; None when it is saved in any case.

        Source   tools/autograd/gen_variable_type.py  guard_for
        """
        if self.has_list or "backward" in self.row.operator or len(self.differentiated) <= 1:
            return None
        kind = next(each.type for each in self.schema.arguments if each.name == tensor)
        if kind.name != "Tensor":
            return None
        users = [formula for formula in self.formulas if tensor in formula.tensors]
        if len(users) != 1 or len(users[0].arguments) != 1:
            return None
        return users[0].places[0]


def _parse(arguments: tuple[str, ...], text: str, row: Row, schema: Schema) -> Formula:
    formula = Formula(arguments, row.operator)
    tree = _Names(formula, row, schema).visit(ast.parse(text.strip(), mode="eval"))
    formula.text = ast.unparse(ast.fix_missing_locations(tree))
    return formula
