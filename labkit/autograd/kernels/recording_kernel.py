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
from labkit.autograd.state import ANOMALY, STATE
from labkit.autograd.variables import history, views
from labkit.autograd.variables.variable import compute_requires_grad
from labkit.dispatch.layer_keys import AFTER_ADINPLACEORVIEW
from labkit.dispatch.operator import OperatorHandle


class RecordingKernel:
    """The Autograd kernel of one operator."""

    def __init__(self, op: OperatorHandle, row: Row) -> None:
        self.op = op
        self.row = row
        self.schema = op.schema
        self.is_inplace = self.schema.is_mutable
        self.is_view = op.schema.is_view and not self.schema.is_mutable
        self.returns_list = any(each.type.name == "list" for each in self.schema.returns)
        self.returns_several = self.returns_list or len(self.schema.returns) > 1

    @cached_property
    def differentiation(self) -> Differentiation:
        """The row, taken apart when the operator is first called."""
        return Differentiation(self.row, self.schema)

    @cached_property
    def node_class(self) -> type[BackwardNode]:
        """The class of the operator's nodes."""
        return node_class(self.differentiation)

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        """The operator's result, which knows where it came from.

        Raises   RuntimeError   the call writes what must not be written
        """
        below = self.op._on_redispatch[keys.raw & AFTER_ADINPLACEORVIEW.raw]
        if not (STATE.grad or self.is_inplace or self.is_view):
            return below(*args, **kwargs)
        values = self.schema.stack(args, kwargs)
        if self.is_inplace:
            check_write(values[0])
        node = None
        if STATE.grad:
            tensors = self.differentiation.inputs(values)
            if self.is_inplace:  # asked before any edge is, which may be an error of its own
                history.check_inplace(values[0], *tensors)
            if compute_requires_grad(tensors):
                node = self.node_class.after(tensors)
                if ANOMALY.enabled:
                    note_forward(node)
                node.save_inputs(values)
        result = below(*args, **kwargs)
        if self.is_view:
            self.link(values, result, node)
        elif node is not None:
            self.set_history(result, node)
        if node is not None and self.differentiation.results:
            node.save_results(result)
        return result

    def link(self, values: Sequence[Any], result: Any, node: BackwardNode | None) -> None:
        """The result is a view of the first argument."""
        parent, *rest = values
        again = None
        if self.schema.name in views.OTHER_ELEMENTS:

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
