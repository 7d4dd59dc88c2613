"""Captured CUDA graphs, node by node: what each launch reads, writes and comes after."""

from collections.abc import Mapping, Sequence
from typing import Any

from labkit.cuda.operation import Node, Operation
from labkit.cuda.signature import ParamKind
from labkit.widgets.graph.graph_view import GraphView


def is_launches(root: Any) -> bool:
    """True for a graph of `labkit.cuda` or `labkit.graphed`."""
    nodes = getattr(root, "nodes", None)
    return isinstance(nodes, list | tuple) and all(isinstance(node, Node) for node in nodes)


def launches(
    graphs: Sequence[Any], names: Mapping[int, str], title: str, simple: bool
) -> GraphView:
    """The graphs side by side; an arrow runs from a node to each that comes after it.

    names   address -> name of the tensor that is there; other memory is temp 1, temp 2, ...
    """
    drawn: list[dict[str, Any]] = []
    edges: list[dict[str, int]] = []
    known = dict(names)
    for one in graphs:
        first = len(drawn)
        for place, node in enumerate(one.nodes):
            drawn.append(_drawn(node.operation, known))
            edges += [{"source": first + at, "target": first + place} for at in node.after]
    return GraphView(drawn, edges, title=title, simple=simple)


def addresses(operation: Operation) -> list[tuple[str, int]]:
    """("reads" or "writes", address) of each piece of memory the node was captured with."""
    if operation.kind == "memcpy":
        return [("reads", operation.src), ("writes", operation.dst)]
    if operation.kind == "memset":
        return [("writes", operation.dst)]
    if operation.kind != "kernel":
        return []
    found = []
    for param, packed in zip(operation.function.signature.params, operation.args, strict=False):
        address = int.from_bytes(packed, "little")
        if param.kind == ParamKind.POINTER and address:
            found.append(("reads" if param.is_const else "writes", address))
    return found


def _drawn(operation: Operation, known: dict[int, str]) -> dict[str, Any]:
    used: dict[str, list[int]] = {"reads": [], "writes": []}
    for way, address in addresses(operation):
        known.setdefault(address, f"temp {sum(n.startswith('temp ') for n in known.values()) + 1}")
        used[way].append(address)
    sizes = {"grid": str(operation.grid), "block": str(operation.block)}
    return {
        "label": operation.name.removeprefix("lab_").removesuffix("_"),
        "kind": operation.kind,
        "badges": [f"{way} {', '.join(known[a] for a in used[way])}" for way in used if used[way]],
        "details": {
            "node": operation.name,
            **(sizes if operation.kind == "kernel" else {}),
            **{way: ", ".join(f"{known[a]} at {a:#x}" for a in used[way]) for way in used},
        },
    }
