"""`reinplace`: an operator writes over its first input when nobody needs that one any more.

Source   torch/_inductor/fx_passes/reinplace.py
"""

from collections.abc import Collection

import torch
from torch.fx import GraphModule, Node

from labkit.graph.rewrite import Rewrite, begin
from labkit.graph.storages import Storages, operator_name


def reinplace(graph: GraphModule, saved: Collection[str] = ()) -> Rewrite:
    """`relu(x)` is `relu_(x)` where this is the last read of x's memory.

    saved   names of nodes whose values backward will read: nobody may write over them

    What decides is the memory, not the node: every view of it counts as a reader, and so does
    whoever holds it from outside.
    """
    rewrite = begin(graph)
    storages = Storages(rewrite.graph)
    for node in rewrite.graph.graph.nodes:
        twin = in_place_twin(node)
        if twin is None or not isinstance(node.args[0], Node):
            continue
        value = node.args[0]
        why = why_not_in_place(node, value, storages, saved)
        if why:
            rewrite.refuse(value, node, why)
            continue
        node.target = twin
        rewrite.done.append(f"{node.name} writes over {value.name}")
    return rewrite.finish()


def in_place_twin(node: Node) -> torch._ops.OpOverload | None:
    """`aten.relu_.default` for `aten.relu.default`; None for what is not element-wise."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.pointwise not in target.tags:
        return None
    packet = getattr(torch.ops.aten, operator_name(node) + "_", None)
    twin = getattr(packet, target._overloadname, None)
    return twin if isinstance(twin, torch._ops.OpOverload) else None


def why_not_in_place(
    node: Node, value: Node, storages: Storages, saved: Collection[str] = ()
) -> str:
    """Why `node` may not write over `value`, as a clause; "" when it may."""
    for one in sorted(storages.of(value), key=lambda other: storages.order[other]):
        if one.op in ("placeholder", "get_attr"):
            return f"the memory of {one.name} belongs to the caller"
        if one.name in saved:
            return f"backward reads {one.name}"
    for alias, reader in storages.reads_of(value):
        if reader is node and alias is not value:
            return f"{node.name} also reads {alias.name}, another view of this memory"
        if storages.order[reader] > storages.order[node]:
            return f"{reader.name} reads {alias.name} later"
    return _why_no_room(node.meta["val"], value.meta["val"])


def _why_no_room(result: torch.Tensor, memory: torch.Tensor) -> str:
    for what in ("dtype", "shape"):
        made, there = getattr(result, what), getattr(memory, what)
        if made != there:
            return f"the result's {what} is {made}, the memory's {there}"
    if result.stride() != memory.stride():
        return f"the result's strides are {result.stride()}, the memory's {memory.stride()}"
    return ""
