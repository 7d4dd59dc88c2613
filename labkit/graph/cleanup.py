"""Dead code and common subexpressions.

Source   torch/fx/graph.py  Graph.eliminate_dead_code
         torch/_functorch/compile_utils.py  fx_graph_cse
"""

from collections.abc import Hashable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from labkit.graph.rewrite import Rewrite, begin
from labkit.graph.storages import Storages


def remove_dead(graph: GraphModule) -> Rewrite:
    """Nodes that nothing reads and that write nothing are gone; inputs stay."""
    rewrite = begin(graph)
    names = [node.name for node in rewrite.graph.graph.nodes]
    rewrite.graph.graph.eliminate_dead_code()
    left = {node.name for node in rewrite.graph.graph.nodes}
    rewrite.done = [f"{name} is read by nobody" for name in names if name not in left]
    return rewrite.finish()


def share_common(graph: GraphModule) -> Rewrite:
    """A call that an earlier node has made with the same arguments is made once.

    Refused where either draws random numbers, or memory that it reads or makes is written to.
    """
    rewrite = begin(graph)
    storages = Storages(rewrite.graph)
    known: dict[Hashable, Node] = {}
    for node in list(rewrite.graph.graph.nodes):
        if node.op not in ("call_function", "get_attr"):
            continue
        first = known.setdefault(_key(node), node)
        if first is node:
            continue
        why = _why_not(first, node, storages)
        if why:
            rewrite.refuse(first, node, why)
            continue
        node.replace_all_uses_with(first)
        rewrite.graph.graph.erase_node(node)
        rewrite.done.append(f"{node.name} is {first.name}")
    return rewrite.finish()


def _key(node: Node) -> Hashable:
    """Equal for calls of the same operator with the same arguments."""
    return node.op, node.target, _frozen(node.args), _frozen(tuple(sorted(node.kwargs.items())))


def _frozen(value: Any) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(one) for one in value)
    if isinstance(value, (bool, int, float)):
        return type(value), repr(value)  # 1, 1.0 and True are equal, and -0.0 is 0.0
    return value if isinstance(value, Hashable) else id(value)


def _why_not(first: Node, node: Node, storages: Storages) -> str:
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return "each call draws its own random numbers"
    for value in (first, node, *node.all_input_nodes):
        if storages.is_written(value):
            return f"the memory of {value.name} is written to"
    if node.op == "call_function" and any(
        user.op == "output" for one in (first, node) for user in one.users
    ):
        return "the caller gets both, and may write to one"
    return ""
