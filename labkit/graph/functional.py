"""`functionalise`: calls that write to their input become calls that make a new value.

Source   torch/_functorch/_aot_autograd/functional_utils.py
Differs  one storage at a time; a write that a view would show is refused, not replayed
"""

import torch
from torch.fx import GraphModule, Node

from labkit.graph.rewrite import Rewrite, begin
from labkit.graph.storages import Storages, operator_name, overwritten


def functionalise(graph: GraphModule) -> Rewrite:
    """`relu_(x)` is `relu(x)`, and whoever read `x` after it reads the new value."""
    rewrite = begin(graph)
    for node in list(rewrite.graph.graph.nodes):
        if not overwritten(node):
            continue
        (value,) = overwritten(node)
        why, makes = _why_not(node, value, Storages(rewrite.graph)), _new_value(node)
        if why or makes is None:
            rewrite.refuse(value, node, why or f"{node.target} has no twin that makes a new value")
            continue
        node.target = makes
        later = [user for user in value.users if user is not node and node < user]
        for user in later:
            user.replace_input_with(value, node)
        rewrite.done.append(f"{node.name} makes a new value")
    return rewrite.finish()


def _new_value(node: Node) -> torch._ops.OpOverload | None:
    assert isinstance(node.target, torch._ops.OpOverload)
    packet = getattr(torch.ops.aten, operator_name(node).removesuffix("_"), None)
    return getattr(packet, node.target._overloadname, None)


def _why_not(node: Node, value: Node, storages: Storages) -> str:
    others = storages.of(value) - {value, node}
    if value.op in ("placeholder", "get_attr"):
        return f"whoever owns {value.name} sees the write"
    for other in sorted(others, key=lambda one: storages.order[one]):
        if overwritten(other) != [value]:
            return f"{other.name} shares the memory, and shows the write"
    return ""
