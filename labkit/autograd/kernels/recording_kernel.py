"""The kernel of an operator at the Autograd key: a call is computed below, and recorded.

It asks which arguments need a gradient, makes a node if one does, calls the kernel below, and
tells the result where it came from.

Source   tools/autograd/gen_variable_type.py
         tools/autograd/gen_inplace_or_view_type.py
Differs  PyTorch writes a C++ function per operator; here one class reads the operator's row.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from labkit.autograd.anomaly import note_forward
from labkit.autograd.derivatives.row import Row
from labkit.autograd.kernels.backward_node import BackwardNode, node_class
from labkit.autograd.kernels.differentiation import Differentiation
from labkit.autograd.kernels.inplace_or_view import check_write
from labkit.autograd.node import next_sequence_nr
from labkit.autograd.state import ANOMALY, STATE
from labkit.autograd.variables import history, views
from labkit.autograd.variables.variable import collect_next_edges, compute_requires_grad
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch.layer_keys import AFTER_ADINPLACEORVIEW
from labkit.dispatch.operator import OperatorHandle


class RecordingKernel:
    """The Autograd kernel of one operator."""

    def __init__(self, op: OperatorHandle, row: Row) -> None:
        self.op = op
        self.row = row
        self.names = [each.name for each in op.schema.arguments]
        self.is_inplace = op.schema.is_mutable
        self.is_view = op.schema.is_view and not op.schema.is_mutable
        self.returns_list = any(each.type.name == "list" for each in op.schema.returns)
        self.returns_several = self.returns_list or len(op.schema.returns) > 1

    @cached_property
    def differentiation(self) -> Differentiation:
        """The row, taken apart when the operator is first called."""
        return Differentiation(self.row, self.op.schema)

    @cached_property
    def node_class(self) -> type[BackwardNode]:
        """The class of the operator's nodes."""
        return node_class(self.differentiation)

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        """The operator's result, which knows where it came from."""
        below = self.op._on_redispatch[keys.raw & AFTER_ADINPLACEORVIEW.raw]
        if not (STATE.grad or self.is_inplace or self.is_view):
            return below(*args, **kwargs)
        stack = args if len(args) == len(self.names) else self.op.schema.stack(args, kwargs)
        if self.is_inplace:
            check_write(stack[0])
        node = self.new_node(stack) if STATE.grad else None
        result = below(*args, **kwargs)
        if self.is_view:
            self.link(stack, result, node)
        elif node is not None:
            self.set_history(result, node)
        if node is not None and self.differentiation.results:
            node.save_results(result)
        return result

    def new_node(self, stack: Sequence[Any]) -> BackwardNode | None:
        """The node of the call, which keeps what backward needs; None if nothing needs gradients.

        stack   one value per argument of the schema

        Raises   RuntimeError   the call writes what must not be written
        """
        differentiation = self.differentiation
        given = [stack[position] for position in differentiation.positions]
        if differentiation.has_list:
            given, counts = _flat(given)
        if self.is_inplace:  # asked before any edge is, which may be an error of its own
            history.check_inplace(stack[0], *given)
        if not compute_requires_grad(given):
            return None
        node = self.make_node(given)
        if differentiation.has_list:
            node.counts = counts
        if ANOMALY.enabled:
            note_forward(node)
        node.save_inputs(stack)
        return node

    def make_node(self, tensors: Sequence[TensorImpl | None]) -> BackwardNode:
        """A node with the edges of these tensors, which keeps nothing yet."""
        node = self.node_class()
        node.sequence_nr = next_sequence_nr()  # first: an edge may make the node of a view anew
        node.next_edges = collect_next_edges(tensors)
        return node

    def link(self, stack: Sequence[Any], result: Any, node: BackwardNode | None) -> None:
        """The result is a view of the first argument."""
        parent, *rest = stack
        again = None
        if self.op.schema.name in views.OTHER_ELEMENTS:

            def again(base: Any) -> Any:
                return self.op(base, *rest)

        if self.returns_list:
            views.link_list(parent, result, node)
        else:
            views.link(parent, result, node, again)

    def set_history(self, result: Any, node: BackwardNode) -> None:
        """The result is the node's output; what was written has a new history."""
        if self.is_inplace:
            history.rebase(result, node)
        elif self.returns_several:
            flags = None if self.returns_list else self.row.differentiable_outputs
            history.set_histories(node, result, flags)
        else:
            history.set_output(result, node)


def _flat(values: list[Any]) -> tuple[list[Any], list[int | None]]:
    """Tensors, and the tensors of lists; per value, how many a list has, None for a tensor."""
    flat: list[Any] = []
    counts: list[int | None] = []
    for value in values:
        is_list = isinstance(value, list | tuple)
        flat += value if is_list else (value,)
        counts.append(len(value) if is_list else None)
    return flat, counts
