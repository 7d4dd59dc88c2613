"""Writing to a view changes its base: the base's history gets a node that says so.

`CopySlices` hands the part of the gradient that the view shows to the node of the write, and
copies the rest. Every view of the base is out of date then, and gets a new node when it is next
asked for one.

Source   torch/csrc/autograd/functions/tensor.h  CopySlices
         torch/csrc/autograd/variable.cpp  impl::rebase_history
"""

from collections.abc import Callable
from typing import Any

from labkit.autograd.node import Node, next_sequence_nr
from labkit.autograd.variables.saved_variable import BACKWARD_TWICE
from labkit.autograd.variables.variable import (
    add_input,
    edge_of_history,
    geometry,
    gradient_edge,
    move_hooks,
    set_gradient_edge,
)
from labkit.core.memory_format import MemoryFormat
from labkit.core.tensor_impl import TensorImpl, empty_strided
from labkit.ops.aten import aten


class CopySlices(Node):
    """The base after a write to one of its views.

    base     geometry of the base
    view     geometry of the view
    view_fn  base -> view, where `as_strided` cannot say it
    fn       the node of the write

    Source   torch/csrc/autograd/functions/tensor.cpp  CopySlices
    """

    has_saved = True

    def __init__(
        self,
        base: TensorImpl,
        view: TensorImpl,
        view_fn: Callable[[Any], Any] | None,
        fn: Node,
    ) -> None:
        self.sequence_nr = next_sequence_nr()
        self.base = geometry(base)
        self.view = geometry(view)
        self.view_fn = view_fn
        self.fn: Node | None = fn
        self.next_edges = (gradient_edge(base), *fn.next_edges[1:])
        add_input(self, base)

    @classmethod
    def name(cls) -> str:
        """As C++ prints it."""
        return "torch::autograd::CopySlices"

    def apply(self, grads: list[Any], needs: tuple[Any, ...]) -> Any:
        """The gradient of the base before the write, and those of what was written."""
        grad = grads[0]
        if grad is None:
            return [None] * len(self.next_edges)
        if self.fn is None:
            raise RuntimeError(BACKWARD_TWICE)
        sizes, strides, base_offset = self.base
        result = empty_strided(sizes, strides, grad.dtype, grad.device)
        aten.copy_.default(result, grad)
        if self.view_fn is not None:
            part = self.view_fn(result)
        else:
            view_sizes, view_strides, offset = self.view
            part = aten.as_strided.default(result, view_sizes, view_strides, offset - base_offset)
        copied = aten.clone.default(part, memory_format=MemoryFormat.contiguous_format)
        given = list(self.fn.apply([copied], needs))
        if needs and needs[0] and given[0] is not None:
            aten.copy_.default(part, given[0])
            given[0] = result
        return given

    def release_variables(self) -> None:
        """The node of the write is gone."""
        self.fn = None


def rebase_base(tensor: TensorImpl, node: Node) -> None:
    """A view was written by the node: its base has a new history, and so has it.

    Source   torch/csrc/autograd/variable.cpp  impl::rebase_history
    """
    base, meta = tensor.base, tensor.autograd_meta
    assert base is not None
    if node.num_inputs != 1:
        raise RuntimeError("Functions which modify views in-place must return a single Variable")
    old_base = edge_of_history(base)
    copy_slices = CopySlices(base, tensor, meta.view_fn, node)
    set_gradient_edge(base, (copy_slices, 0))
    move_hooks(base, old_base, (copy_slices, 0))
    edge_of_history(tensor)  # the view is out of date now, and is made again
