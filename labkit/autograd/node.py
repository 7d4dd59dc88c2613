"""One step of a backward graph, and the edges that lead on from it.

A node stands for one operator call of the forward pass. Gradients of the call's outputs are its
inputs; `apply` turns them into gradients of the call's inputs, and each goes along one edge to
input number `input_nr` of the next node.

Source   torch/csrc/autograd/node.h  Node
         torch/csrc/autograd/edge.h  Edge
"""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from labkit.autograd.handles import Hooks, RemovableHandle

ACCUMULATE_GRAD_PRIORITY = (1 << 64) - 1
"""Sequence number of every AccumulateGrad: always the first of the ready nodes."""

_sequence = itertools.count()
next_sequence_nr: Callable[[], int] = _sequence.__next__
"""The number of the next node; later nodes have larger numbers, and run earlier.

Differs  PyTorch counts per thread.
"""

Edge = tuple["Node", int]
"""The node a gradient goes to, and which of that node's inputs it is.

In `Node.next_edges` a missing edge (its input needs no gradient) is None or an empty tuple.
"""


@dataclass(slots=True, eq=False, repr=False)
class InputMetadata:
    """What the gradient for one input of a node must look like.

    Source   torch/csrc/autograd/input_metadata.h  InputMetadata
    """

    shape: Any
    dtype: Any
    device: Any

    @property
    def is_undefined(self) -> bool:
        """No gradient will ever come: the output is no tensor, or has no derivative."""
        return self.shape is None

    def fits(self, grad: Any) -> bool:
        """The gradient looks like this already."""
        return bool(
            grad.sizes == self.shape and grad.dtype is self.dtype and grad.device == self.device
        )

    def __repr__(self) -> str:
        shape = None if self.is_undefined else list(self.shape)
        return f"InputMetadata(shape={shape}, dtype={self.dtype}, device={self.device})"


class Node:
    """A function of gradients with edges to where its results go.

    Attributes that a node rarely has are defaults of the class, so that making one sets only
    what differs.

    Source   torch/csrc/autograd/node.h  Node
    """

    sequence_nr: int = 0
    next_edges: tuple[Any, ...] = ()
    input_metadata: tuple[InputMetadata, ...] = ()
    """Per gradient that this node takes, which is that of one output of the forward call."""
    has_saved = False
    """`release_variables` has something to do."""
    pre_hooks: Hooks | None = None
    post_hooks: Hooks | None = None
    tensor_pre_hooks: list[tuple[Hooks, int]] | None = None
    """(hooks of a tensor, which input of this node is its gradient)."""
    retains_grad_hooks: dict[int, Callable[[Any], None]] | None = None
    """Input number -> what keeps the gradient of a tensor that asked for it."""
    forward_stack: str | None = None
    """Where the forward call was made; noted in anomaly mode only."""
    parent: "Node | None" = None
    """The node during whose `apply` this one was made; noted in anomaly mode only."""
    _metadata: dict[str, Any] | None = None

    # -- what a graph looks like ----------------------------------------------------------

    @classmethod
    def name(cls) -> str:
        """The node's name, as PyTorch names it."""
        return cls.__name__

    @classmethod
    def forward_name(cls) -> str:
        """The call the node stands for, as error messages name it: Mul for MulBackward0."""
        return re.sub(r"Backward\d*$", "", cls.name())

    @property
    def next_functions(self) -> tuple[tuple["Node | None", int], ...]:
        """Per result: (node, its input number); (None, 0) where no gradient is needed.

        Source   torch/csrc/autograd/python_cpp_function.cpp  THPCppFunction_next_functions
        """
        return tuple(edge if edge else (None, 0) for edge in self.next_edges)

    @property
    def num_inputs(self) -> int:
        """How many gradients this node takes."""
        return len(self.input_metadata)

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        return self.input_metadata

    def _sequence_nr(self) -> int:
        return self.sequence_nr

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for whoever wants to note something about this node."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    # -- running --------------------------------------------------------------------------

    def apply(self, grads: list[Any], needs: tuple[Any, ...]) -> Any:
        """One gradient per edge, None where it is not needed or zero.

        grads   per input of this node, None for a gradient that is zero
        needs   per edge, something true when that gradient is wanted

        Source   torch/csrc/autograd/node.h  Node::apply
        """
        raise NotImplementedError(self.name())

    def release_variables(self) -> None:
        """What was saved for backward is gone."""

    def __call__(self, *grads: Any) -> Any:
        """Apply the node to gradients by hand."""
        results = self.apply(list(grads), self.next_edges)
        return results[0] if len(results) == 1 else tuple(results)

    # -- hooks ----------------------------------------------------------------------------

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Before the node runs, `hook(grad_outputs)` sees its inputs and may replace them.

        Source   torch/autograd/graph.py  Node.register_prehook
        """
        if self.pre_hooks is None:
            self.pre_hooks = Hooks()
        return RemovableHandle(self.pre_hooks, hook)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """After the node ran, `hook(grad_inputs, grad_outputs)` may replace its results.

        Source   torch/autograd/graph.py  Node.register_hook
        """
        if self.post_hooks is None:
            self.post_hooks = Hooks()
        return RemovableHandle(self.post_hooks, hook)

    def tensor_hooks(self) -> list[tuple[Hooks, int]] | None:
        """The hooks of the tensors whose gradients this node takes."""
        return self.tensor_pre_hooks


def nodes_from(*roots: Node | None) -> Iterator[Node]:
    """Every node that can be reached, each once; never recursive.

    The order is depth first, along the edges from left to right.
    """
    seen: set[Node] = set()
    stack = [root for root in reversed(roots) if root is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend(edge[0] for edge in reversed(node.next_edges) if edge)
