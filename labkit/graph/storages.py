"""Which values of a graph share memory, and which of them an operator overwrites.

Both stand in an operator's schema: `Tensor(a)` may share memory with what else is marked `a`,
`Tensor(a!)` is overwritten.

Source   torch/_library/utils.py, torch/fx/node.py  Node.is_impure
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

FRESH = {
    "conv1d", "conv2d", "linear", "matmul", "batch_norm", "layer_norm", "max_pool2d",
    "adaptive_avg_pool2d",
}  # fmt: skip
"""Composite operators that always return new memory. Others, such as dropout in evaluation, may
hand back an input without saying so in their schema."""


def operator_name(node: Node) -> str:
    """`relu` for `aten.relu.default`; another function's, method's or module's; "" for no call."""
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target._schema.name.split("::")[1])
    if node.op == "call_function":
        return str(getattr(node.target, "__name__", node.target))
    return str(node.target) if node.op in ("call_module", "call_method") else ""


def arguments(node: Node) -> Iterator[tuple[Any, Any]]:
    """(argument of the schema, its value in this call), for those that are given."""
    assert isinstance(node.target, torch._ops.OpOverload)
    for place, argument in enumerate(node.target._schema.arguments):
        if place < len(node.args):
            yield argument, node.args[place]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def overwritten(node: Node) -> list[Node]:
    """The inputs that the call writes to."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    return [
        value
        for argument, value in arguments(node)
        if argument.is_write and isinstance(value, Node)
    ]


def shared(node: Node) -> list[Node]:
    """The inputs whose memory the result may share."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    given = [(one, value) for one, value in arguments(node) if isinstance(value, Node)]
    if any(argument.alias_info for argument, _ in given):
        return [value for argument, value in given if argument.alias_info]
    composite = node.target.has_kernel_for_dispatch_key(
        torch._C.DispatchKey.CompositeImplicitAutograd
    )
    return [v for _, v in given] if composite and operator_name(node) not in FRESH else []


class Storages:
    """Every value of a graph in one set with those whose memory it may share."""

    def __init__(self, graph: GraphModule) -> None:
        self.order = {node: place for place, node in enumerate(graph.graph.nodes)}
        self._set = {node: {node} for node in self.order}
        owners: dict[int, Node] = {}
        for node in graph.graph.find_nodes(op="get_attr"):  # each use of a weight is a node
            storage = getattr(graph, str(node.target)).untyped_storage()
            self._join(node, owners.setdefault(storage._cdata, node))
        for node in self.order:
            for other in shared(node):
                self._join(node, other)
        self.written = {value for node in self.order for value in overwritten(node)}

    def _join(self, a: Node, b: Node) -> None:
        together = self._set[a] | self._set[b]
        for node in together:
            self._set[node] = together

    def of(self, node: Node) -> set[Node]:
        """All values that may share memory with this one, itself among them."""
        return self._set[node]

    def is_written(self, node: Node) -> bool:
        """True when some call of the graph writes to the value's memory."""
        return not self.of(node).isdisjoint(self.written)

    def reads_of(self, node: Node) -> list[tuple[Node, Node]]:
        """(value, reader) for all reads of the value's memory, in the order they happen."""
        edges = [(value, reader) for value in self.of(node) for reader in value.users]
        return sorted(edges, key=lambda edge: (self.order[edge[1]], self.order[edge[0]]))
