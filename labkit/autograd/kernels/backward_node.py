"""The node of a call whose operator has a row: `apply` evaluates the row's formulas.

Source   tools/autograd/gen_autograd_functions.py
Differs  PyTorch writes a C++ class per row; here one class reads the row.
"""

from collections.abc import Sequence
from typing import Any

from labkit.autograd.kernels.differentiation import (
    METHODS,
    PROPERTIES,
    Differentiation,
    Formula,
    output_names,
)
from labkit.autograd.node import Node, next_sequence_nr
from labkit.autograd.variables.saved_variable import SavedVariable, save, save_output
from labkit.autograd.variables.variable import collect_next_edges, geometry
from labkit.ops.aten import aten


class BackwardNode(Node):
    """What one call saved, and the formulas that turn its gradients into those of its arguments.

    differentiation   the row and its schema, of all nodes of the class
    counts            per differentiated argument, how many edges a list has, None where it is no
                      list; empty if none is
    saved             name -> tensor kept for backward, or a list of those
    values            name -> what else is kept: numbers, and `self_sizes`, `other_dtype`, ...
    """

    differentiation: Differentiation
    counts: Sequence[int | None] = ()
    saved: dict[str, Any]
    values: dict[str, Any]

    # -- forward --------------------------------------------------------------------------

    @classmethod
    def after(cls, tensors: Sequence[Any]) -> "BackwardNode":
        """A node with the edges of these tensors, which keeps nothing yet."""
        node = cls()
        node.sequence_nr = next_sequence_nr()  # first: an edge may make the node of a view anew
        node.next_edges = collect_next_edges(tensors)
        return node

    def save_inputs(self, stack: Sequence[Any]) -> None:
        """What the formulas mention of the arguments is kept.

        stack   one value per argument of the schema

        Source   tools/autograd/gen_variable_type.py  save_variables
        """
        differentiation = self.differentiation
        if differentiation.has_list:
            given = [stack[i] for i in differentiation.positions]
            self.counts = [len(each) if isinstance(each, list | tuple) else None for each in given]
        position, edges = differentiation.position, self.next_edges
        saved: dict[str, Any] = {}
        for name, guard in differentiation.guards.items():
            value = stack[position[name]]
            if guard is not None and not edges[guard]:
                saved[name] = None
            elif name in differentiation.lists:
                saved[name] = [save(each) for each in value]
            elif name == "self" and differentiation.schema.is_mutable:
                saved[name] = save(aten.clone.default(value))  # it is written next
            else:
                saved[name] = save(value)
        self.saved = saved
        if differentiation.values or differentiation.properties:
            self.values = {name: stack[position[name]] for name in differentiation.values}
        for name, attribute in differentiation.properties:
            self.values[f"{name}_{attribute}"] = _property(stack[position[name]], attribute)

    def save_results(self, result: Any) -> None:
        """What the formulas mention of the outputs is kept; their history must be set already."""
        schema = self.differentiation.schema
        several = result if len(schema.returns) > 1 else (result,)
        for number in self.differentiation.results:
            output = several[number]
            is_written_view = schema.is_mutable and output.base is not None
            self.saved[output_names(schema)[number]] = save_output(output, is_written_view)

    # -- backward -------------------------------------------------------------------------

    def apply(self, grads: list[Any], needs: tuple[Any, ...]) -> list[Any]:
        """One gradient per edge, by the formulas whose arguments want one.

        Everything is unpacked, wanted or not: it is an error to have changed any of it.
        """
        known = {name: self._unpacked(name) for name in self.saved}
        if all(grad is None for grad in grads):
            return [None] * len(self.next_edges)
        known.update(self.values, grad=grads[0], grads=grads)
        for name, number in self.differentiation.gradients.items():
            known[name] = grads[number]
        needed = self._per_argument(needs) if self.counts else needs
        found: list[Any] = [None] * len(needed)
        for formula in self.differentiation.formulas:
            if len(formula.places) > 1:
                self._several(formula, known, needed, found)
            elif needed[formula.places[0]]:
                found[formula.places[0]] = formula(known)
        return self._per_edge(found) if self.counts else found

    def _several(
        self, formula: Formula, known: dict[str, Any], needed: Sequence[Any], found: list[Any]
    ) -> None:
        """The gradients of several arguments, by a formula that is told which are wanted."""
        known["needs"] = wanted = [bool(needed[place]) for place in formula.places]
        if any(wanted):
            for place, gradient in zip(formula.places, formula(known), strict=True):
                found[place] = gradient

    def _per_argument(self, needs: tuple[Any, ...]) -> list[bool]:
        """Is a gradient wanted: of an argument, or of any tensor of a list."""
        rest = iter(needs)
        sizes = [1 if count is None else count for count in self.counts]
        return [any([next(rest) for _ in range(size)]) for size in sizes]

    def _per_edge(self, found: list[Any]) -> list[Any]:
        """One gradient after the other; a list that wants none has one None for each tensor."""
        gradients: list[Any] = []
        for count, gradient in zip(self.counts, found, strict=True):
            if count is None:
                gradients.append(gradient)
            else:
                gradients += [None] * count if gradient is None else gradient
        return gradients

    def _unpacked(self, name: str) -> Any:
        saved = self.saved[name]
        if isinstance(saved, list):
            return [None if each is None else each.unpack(self) for each in saved]
        return None if saved is None else saved.unpack(self)

    def release_variables(self) -> None:
        """The saved tensors are gone; the numbers stay."""
        for saved in self.saved.values():
            for each in saved if isinstance(saved, list) else (saved,):
                if each is not None:
                    each.release()


def _property(tensor: Any, name: str) -> Any:
    """Sizes, strides, ... of a tensor; of each of several."""
    if tensor is None:
        return None
    if isinstance(tensor, list | tuple):
        return [_property(each, name) for each in tensor]
    if name == "geometry":
        return geometry(tensor)
    value = getattr(tensor, name)
    return value() if name in METHODS else value


def node_class(differentiation: Differentiation) -> type[BackwardNode]:
    """The class of the row's nodes, under PyTorch's name and with PyTorch's attributes.

    `_saved_other` is the tensor, `_raw_saved_other` what keeps it, `_saved_self_sym_sizes` sizes.
    """
    row, schema = differentiation.row, differentiation.schema
    attributes: dict[str, Any] = {"__doc__": f"Backward of {row.operator}."}
    attributes["differentiation"] = differentiation
    attributes["values"] = {}  # of a node whose formulas mention tensors alone
    outputs = [output_names(schema)[number] for number in differentiation.results]
    for name in (*differentiation.tensors, *outputs):
        attributes[f"_raw_saved_{name}"] = property(_raw_saved(name))
        attributes[f"_saved_{name}"] = property(_saved(name))
    for name in differentiation.values:
        attributes[f"_saved_{name}"] = property(_value(name))
    for argument, name in differentiation.properties:
        shown = f"_saved_{argument}_{PROPERTIES[name]}"
        attributes[shown] = property(_value(f"{argument}_{name}"))
    attributes["has_saved"] = bool(differentiation.tensors or outputs)
    assert row.node is not None
    return type(row.node, (BackwardNode,), attributes)


def _raw_saved(name: str) -> Any:
    def raw(self: BackwardNode) -> SavedVariable | list[SavedVariable | None] | None:
        found: SavedVariable | list[SavedVariable | None] | None = self.saved.get(name)
        return found

    return raw


def _saved(name: str) -> Any:
    def unpacked(self: BackwardNode) -> Any:
        found = self._unpacked(name)
        return tuple(found) if isinstance(found, list) else found

    return unpacked


def _value(name: str) -> Any:
    return lambda self: self.values[name]
