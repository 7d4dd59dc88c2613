"""One drawing of a graph: which boxes there are, where they stand, how their edges run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from labkit.widgets.graph.graph_columns import in_columns
from labkit.widgets.graph.graph_layout import Layout, layered_layout

Node = Mapping[str, Any]
Edge = Mapping[str, Any]
PLACES = {"operation": 0, "saves tensors": 3, "leaf": 7}
"""The colours that kinds of node have in every backward graph, whichever of them are in it."""
IN_ORDER = (0, 3, 7, 1, 2, 4, 5, 6)
"""Colours for other kinds; first those that no state of a node has (STATE_COLOURS)."""


def level_of(
    nodes: Sequence[Node], edges: Sequence[Edge], folded: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The drawing of a graph; the groups in `folded` are one node each."""
    drawn: list[dict[str, Any]] = []
    place: dict[Any, int] = {}
    drawn_as = []
    for index, node in enumerate(nodes):
        group = node.get("group") or ""
        key = ("group", group) if group in folded else ("node", index)
        if key not in place:
            place[key] = len(drawn)
            drawn.append(_drawn_group(group) if group in folded else _drawn_node(node, index))
        if group in folded:
            drawn[place[key]]["members"].append(index)
        drawn_as.append(place[key])
    for node in drawn:
        if node["folds"]:
            node["badges"] = [plural(len(node["members"]), "node")]
    lines: dict[tuple[int, int, str, int], list[int]] = {}
    for number, edge in enumerate(edges):
        source, target = drawn_as[edge["source"]], drawn_as[edge["target"]]
        if source != target or edge["source"] == edge["target"]:
            merges = drawn[source]["folds"] or drawn[target]["folds"]
            apart = -1 if merges else number
            lines.setdefault((source, target, edge.get("label", ""), apart), []).append(number)
    pairs = [(source, target) for source, target, *_ in lines]
    if nodes and not folded and all("at" in node for node in nodes):
        layered = layout = _as_placed(nodes, edges)
    else:
        layered = layered_layout(len(drawn), pairs)
        layout = in_columns(layered, pairs)
    for node, layer, x, y in zip(drawn, layered.y, layout.x, layout.y, strict=True):
        node["layer"], node["x"], node["y"] = int(layer), round(x, 3), round(y, 3)
    routes = [[[round(x, 2), round(y, 2)] for x, y in route] for route in layout.routes]
    return {
        "nodes": drawn,
        "edges": [
            [source, target, label, route, members, aside]
            for ((source, target, label, _), members), route, aside in zip(
                lines.items(), routes, _asides(pairs), strict=True
            )
        ],
    }


def _as_placed(nodes: Sequence[Node], edges: Sequence[Edge]) -> Layout:
    x, y = zip(*(node["at"] for node in nodes), strict=True)
    return Layout([*map(float, x)], [*map(float, y)], [[*edge.get("route", ())] for edge in edges])


def kinds_of(nodes: Sequence[Node]) -> dict[str, int]:
    """Kind -> number in the palette: its own place, or the next that no other kind has."""
    found = dict.fromkeys(node["kind"] for node in nodes if node.get("kind"))
    kinds = {kind: place for kind, place in PLACES.items() if kind in found}
    for kind in found:
        if kind not in kinds:
            free = [place for place in IN_ORDER if place not in kinds.values()]
            kinds[kind] = free[0] if free else len(kinds)
    return kinds


def _asides(pairs: Sequence[tuple[int, int]]) -> list[float]:
    """How far each edge is drawn from the middle, in widths of a node: parallel ones side by side.

    Two arrows between two nodes are two gradients that will be added.
    """
    parallel, seen = Counter(pairs), Counter[tuple[int, int]]()
    asides = []
    for pair in pairs:
        step = min(0.24, 0.8 / parallel[pair])
        asides.append(round((seen[pair] - (parallel[pair] - 1) / 2) * step, 3))
        seen[pair] += 1
    return asides


def _drawn_node(node: Node, index: int) -> dict[str, Any]:
    return {
        "label": str(node["label"]),
        "kind": node.get("kind", ""),
        "group": node.get("group") or "",
        "badges": [str(badge) for badge in node.get("badges", ())],
        "details": {name: str(text) for name, text in node.get("details", {}).items()},
        "members": [index],
        "folds": False,
    }


def _drawn_group(group: str) -> dict[str, Any]:
    return {**_drawn_node({"label": group, "group": group}, 0), "members": [], "folds": True}


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
