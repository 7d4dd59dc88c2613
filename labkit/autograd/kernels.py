"""The kernel of an operator at the Autograd key, generated from its row.

It asks which arguments need a gradient, makes a node if one does, calls the kernel below, and
tells the result where it came from.

Source   tools/autograd/gen_variable_type.py
         tools/autograd/gen_inplace_or_view_type.py
"""

import keyword
from collections.abc import Callable
from typing import Any

from labkit.autograd import forward_rules, history, views
from labkit.autograd.anomaly import note_forward
from labkit.autograd.formula import METHODS as PROPERTY_METHODS
from labkit.autograd.formula import Differentiation, node_class, property_name, saved_output_name
from labkit.autograd.inplace_or_view import check_write
from labkit.autograd.meta import AutogradMeta
from labkit.autograd.node import next_sequence_nr
from labkit.autograd.saved_variable import SavedVariable, save, save_output
from labkit.autograd.state import ANOMALY, SPECIAL, STATE
from labkit.autograd.variable import can_require_grad, kernel_edge, number_before
from labkit.core.device import CPU
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch.layer_keys import AFTER_ADINPLACEORVIEW
from labkit.dispatch.operator import OperatorHandle
from labkit.dispatch.schema import REQUIRED, Argument
from labkit.ops.aten import aten

Kernel = Callable[..., Any]


def _identifier(name: str) -> str:
    """An argument's name as Python can say it: `from` of `uniform_` is a word of its own."""
    return f"{name}_" if keyword.iskeyword(name) else name


class Generator:
    """Writes the source of one kernel."""

    def __init__(self, op: OperatorHandle, differentiation: Differentiation) -> None:
        self.op = op
        self.row = differentiation.row
        self.differentiation = differentiation
        self.schema = op.schema
        self.lines: list[str] = []
        returned = self.schema.returns[0].type if self.schema.returns else None
        self.is_inplace = self.schema.is_mutable
        self.is_view = self.schema.is_view and not self.is_inplace
        self.returns_list = returned is not None and returned.name == "list"
        self.flags = self.row.differentiable_outputs or (True,) * len(self.schema.returns)

    def build(self) -> Kernel:
        """The kernel; `kernel.source` is its text."""
        made = node_class(self.differentiation)
        namespace: dict[str, Any] = {
            "STATE": STATE, "SPECIAL": SPECIAL, "ANOMALY": ANOMALY, "CPU": CPU,
            "SavedVariable": SavedVariable, "clone": aten.clone.default,
            "NodeClass": made, "Meta": AutogradMeta,
            "next_sequence_nr": next_sequence_nr, "kernel_edge": kernel_edge,
            "number_before": number_before,
            "save": save, "save_output": save_output, "note_forward": note_forward,
            "below": self.op._on_redispatch, "AFTER": AFTER_ADINPLACEORVIEW.raw, "history": history,
            "views": views, "can_require_grad": can_require_grad, "op": self.op,
            "FORWARD": forward_rules.FORWARD, "row": self.row,
            "set_tangents": forward_rules.set_tangents, "check_write": check_write,
            "AD_INPLACE_OR_VIEW": DispatchKeySet("ADInplaceOrView").raw,
        }  # fmt: skip
        source = self.source(namespace)
        namespace["__name__"] = __name__  # warnings are told to whoever called the lab
        exec(compile(source, f"<autograd kernel of {self.op.name}>", "exec"), namespace)
        kernel: Kernel = namespace["kernel"]
        kernel.source = source  # type: ignore[attr-defined]
        kernel.node_class = made  # type: ignore[attr-defined]
        return kernel

    def source(self, namespace: dict[str, Any]) -> str:
        """The kernel's text."""
        self.lines = [f"def kernel(keys, {self._parameters(namespace)}):"]
        if self.is_inplace:
            self._add("if not self._key_set.raw & AD_INPLACE_OR_VIEW: check_write(self)")
        self._edges()
        self._without_node()
        self._make_node()
        self._call()
        self._after_call()
        return "\n".join(self.lines)

    def _add(self, line: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + line)

    def _parameters(self, namespace: dict[str, Any]) -> str:
        parts, star = [], False
        for i, argument in enumerate(self.schema.arguments):
            if argument.kwarg_only and not star:
                parts.append("*")
                star = True
            if argument.default is REQUIRED:
                parts.append(_identifier(argument.name))
            else:
                namespace[f"default{i}"] = argument.default
                parts.append(f"{_identifier(argument.name)}=default{i}")
        return ", ".join(parts)

    @property
    def arguments(self) -> str:
        """The call's arguments, as the kernel below gets them."""
        return ", ".join(
            f"{each.name}={each.name}" if each.kwarg_only else _identifier(each.name)
            for each in self.schema.arguments
        )

    def _edges(self) -> None:
        count = len(self.differentiation.differentiated)
        self._add("if STATE.grad:")
        if self.is_inplace:  # asked before any edge is, which may be an error of its own
            names = [_identifier(each.name) for each in self.differentiation.differentiated]
            self._add(f"history.check_inplace(self, {', '.join(names)})", 2)
        for number, argument in enumerate(self.differentiation.differentiated):
            self._edge(number, argument)
        self._add("else: " + " = ".join(f"e{i}" for i in range(count)) + " = None")

    def _edge(self, number: int, argument: Argument) -> None:
        name = argument.name
        if argument.type.name == "list":
            self._add(f"e{number} = [kernel_edge(t) for t in {name}]", 2)
            self._add(f"if not any(e is not None for e in e{number}): e{number} = None", 2)
            return
        if argument.type.name == "optional":
            self._add(f"m = None if {name} is None else {name}.autograd_meta", 2)
        else:
            self._add(f"m = {name}.autograd_meta", 2)
        self._add(f"e{number} = None if m is None else m.edge or kernel_edge({name})", 2)

    def _no_edges(self) -> str:
        return " and ".join(
            f"e{i} is None" for i in range(len(self.differentiation.differentiated))
        )

    def _without_node(self) -> None:
        call = f"below[keys.raw & AFTER]({self.arguments})"
        self._add(f"if {self._no_edges()}:")
        if self.is_view:
            first = self.schema.arguments[0].name
            several = "_list" if self.returns_list else ""
            self._add(f"result = {call}", 2)
            self._add(f"views.link{several}({first}, result, None{self._view_call()})", 2)
            self._forward(2)
            self._add("return result", 2)
        else:
            self._add(f"if not (SPECIAL.count and FORWARD.level): return {call}", 2)
            self._original(2)
            self._add(f"result = {call}", 2)
            self._forward(2)
            self._add("return result", 2)

    def _original(self, depth: int) -> None:
        """The tangent of an in-place call needs the values from before it."""
        if self.is_inplace:
            self._add("original = history.original_for_forward(self)", depth)

    def _view_call(self) -> str:
        if self.op.schema.name not in views.OTHER_ELEMENTS:
            return ""
        rest = self.schema.arguments[1:]
        more = "".join(f", {each.name}" for each in rest)
        return f", lambda base: op(base{more})"

    def _make_node(self) -> None:
        add = self._add
        add("special = SPECIAL.count")
        add("node = NodeClass()")
        add("node.sequence_nr = next_sequence_nr()")
        add("if special: number_before(node)")
        if self.differentiation.has_list:
            parts = [
                f"*(e{i} or [None] * len({each.name}))" if each.type.name == "list" else f"e{i}"
                for i, each in enumerate(self.differentiation.differentiated)
            ]
            add(f"node.next_edges = ({', '.join(parts)},)")
        else:
            count = len(self.differentiation.differentiated)
            add("node.next_edges = (" + "".join(f"e{i}, " for i in range(count)) + ")")
        add("if special and ANOMALY.enabled: note_forward(node)")
        self._save_inputs()

    def _save_inputs(self) -> None:
        add, differentiation = self._add, self.differentiation
        for argument in differentiation.differentiated:
            if argument.type.name == "list":
                add(f"node.count_{argument.name} = len({argument.name})")
        for name in differentiation.tensors:
            if differentiation.is_list(name):
                add(f"node._raw_saved_{name} = [save(t) for t in {name}]")
                continue
            value = name
            if self.is_inplace and name == "self":
                value = "clone(self)"
            guard = differentiation.guard(name)
            depth = 1
            if guard is not None:
                add(f"if e{guard}:")
                depth = 2
            self._save(name, value, depth)
        for name in differentiation.values:
            add(f"node._saved_{name} = {name}")
        for argument_name, name in differentiation.properties:
            call = "()" if name in PROPERTY_METHODS else ""
            kind = next(a.type.name for a in self.schema.arguments if a.name == argument_name)
            value = f"{argument_name}.{name}{call}"
            if name == "geometry":
                value = f"views.geometry({argument_name})"
            if kind == "list":
                value = f"[t.{name}{call} for t in {argument_name}]"
            elif kind == "optional":
                value = f"None if {argument_name} is None else {value}"
            add(f"node.{property_name(argument_name, name)} = {value}")

    def _save(self, name: str, value: str, depth: int) -> None:
        """What `save` does, written out for the usual case: a call costs as much as the rest."""
        kind = next(each.type.name for each in self.schema.arguments if each.name == name)
        if value != name or kind != "Tensor":
            self._add(f"node._raw_saved_{name} = save({value})", depth)
            return
        self._add(f"if special or not {name}._key_set.raw & AD_INPLACE_OR_VIEW:", depth)
        self._add(f"node._raw_saved_{name} = save({name})", depth + 1)
        self._add("else:", depth)
        self._add(f"node._raw_saved_{name} = s = SavedVariable()", depth + 1)
        self._add(f"s.data = {name}; c = {name}._version_counter", depth + 1)
        self._add("s.version = 0 if c is None else c.version", depth + 1)

    def _call(self) -> None:
        if self.is_inplace:
            self._add(
                "original = history.original_for_forward(self) if special and FORWARD.level "
                "else None"
            )
        self._add(f"result = below[keys.raw & AFTER]({self.arguments})")

    def _after_call(self) -> None:
        add = self._add
        if self.is_inplace:
            add("history.rebase(self, node)")
        elif self.is_view:
            first = self.schema.arguments[0].name
            several = "_list" if self.returns_list else ""
            add(f"views.link{several}({first}, result, node{self._view_call()})")
        elif len(self.schema.returns) == 1 and not self.returns_list:
            self._single_history()
        else:
            flags = "None" if self.returns_list else repr(tuple(self.flags))
            add(f"history.set_histories(node, result, {flags})")
        self._save_results()
        self._forward(1)
        add("return result")

    def _single_history(self) -> None:
        depth = 1
        if any(str(each.type).startswith("ScalarType") for each in self.schema.arguments):
            self._add("if can_require_grad(result.dtype):")
            depth = 2
        self._add("s = result._storage", depth)
        self._add(
            "node.inputs = (result.sizes, result.dtype, CPU if s is None else s.device)", depth
        )
        self._add("result.autograd_meta = m = Meta()", depth)
        self._add("m.edge = (node, 0)", depth)

    def _save_results(self) -> None:
        for number in self.differentiation.results:
            name = saved_output_name(self.schema, number)
            if self.is_inplace:
                value = "self, self.base is not None"
            elif len(self.schema.returns) == 1:
                value = "result"
            else:
                value = f"result[{number}]"
            self._add(f"node._raw_saved_{name} = save_output({value})")

    def _forward(self, depth: int) -> None:
        names = ", ".join(
            f"'{each.name}': {_identifier(each.name)}" for each in self.schema.arguments
        )
        original = ", original" if self.is_inplace else ""
        self._add(
            "if SPECIAL.count and FORWARD.level: "
            f"set_tangents(op, row, {{{names}}}, result{original})",
            depth,
        )
