"""Any directed graph with records: autograd graphs, engine states, prerequisite maps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.graph.graph_columns import in_columns
from labkit.widgets.graph.graph_frames import checked_frame
from labkit.widgets.graph.graph_layout import layered_layout
from labkit.widgets.graph.graph_picture import graph_picture

PLACES = {"operation": 0, "saves tensors": 1, "leaf": 2}
"""The colours that kinds of node have in every backward graph, whichever of them are in it."""
FOLD_ABOVE = 2000
"""Graphs with more nodes than this start with their groups folded."""

Node = Mapping[str, Any]
Edge = Mapping[str, Any]


class GraphView(LabWidget):
    """Draws nodes and edges whose places are computed here, once, so every page shows the same.

    nodes   mappings with `label`, and optionally `kind` (gives the colour and the legend), `group`
            (nodes of one group fold into one), `badges` (short strings), `details` (a mapping of
            name to text, shown when the node is selected)
    edges   mappings with `source` and `target` (indices into nodes), optionally `label`
    frames  steps to walk, each a mapping with `text` and any of
            marks   {node index: state}, what changed: active, ready, done, waiting, error, or None
            notes   {node index: a word over the node's corner, or None}, what changed
            edges   indices of the edges in use during this step alone
            flows   {edge index: what came along it, in a few characters, or None}, what changed
            lists   {name: [short strings]}, the side lists of this step
            heats   small heat maps: {title, rows, columns, numbers}, row after row; a number may
                    be the text "nan", "inf" or "-inf"
            kind    what happens, in a word or two: one can walk from one of a kind to the next
            stop    a reason to stop here when played
    simple  the drawing and its steps alone: no search, details or side lists

    Raises   ValueError   an edge or a frame names a node that does not exist, or an unknown state
    """

    title = traitlets.Unicode("").tag(sync=True)
    levels = traitlets.Dict().tag(sync=True)
    level = traitlets.Unicode("all").tag(sync=True)
    kinds = traitlets.Dict(help="the kinds of node, each with its number in the palette").tag(
        sync=True
    )
    simple = traitlets.Bool(False, help="the drawing and its steps alone").tag(sync=True)
    unfolded = traitlets.List(traitlets.Unicode()).tag(sync=True)
    frames: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    selected = traitlets.Int(-1, help="index of the chosen node, -1 for none").tag(sync=True)

    parts = ("graph/graph_canvas.js", "graph/graph_frames.js")

    def __init__(
        self,
        nodes: Sequence[Node],
        edges: Sequence[Edge],
        frames: Sequence[Mapping[str, Any]] = (),
        title: str = "",
        **kwargs: Any,
    ) -> None:
        self._nodes = [dict(node) for node in nodes]
        self._edges = [dict(edge) for edge in edges]
        for edge in self._edges:
            for end in ("source", "target"):
                if not 0 <= edge[end] < len(self._nodes):
                    raise ValueError(
                        f"edge {edge} names node {edge[end]}; there are 0..{len(self._nodes) - 1}"
                    )
        groups = {node.get("group") or "" for node in self._nodes} - {""}
        levels = {"all": self._level(folded=frozenset())}
        if groups:
            levels["folded"] = self._level(folded=frozenset(groups))
        start = "folded" if groups and len(self._nodes) > FOLD_ABOVE else "all"
        super().__init__(
            title=title,
            levels=levels,
            level=start,
            kinds=_kinds(self._nodes),
            frames=[checked_frame(one, len(self._nodes), len(self._edges)) for one in frames],
            **kwargs,
        )
        self.observe(self._unfold, names="unfolded")

    def _unfold(self, change: Mapping[str, Any]) -> None:
        groups = {node.get("group") or "" for node in self._nodes} - {""}
        mixed = self._level(folded=frozenset(groups - set(change["new"])))
        self.levels = {**self.levels, "mixed": mixed}
        self.level = "mixed"

    def _level(self, folded: frozenset[str]) -> dict[str, Any]:
        """The drawing in which the groups in `folded` are one node each."""
        drawn: list[dict[str, Any]] = []
        place: dict[Any, int] = {}
        drawn_as = []
        for index, node in enumerate(self._nodes):
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
                node["badges"] = [_plural(len(node["members"]), "node")]
        edges: dict[tuple[int, int, str, int], list[int]] = {}
        for number, edge in enumerate(self._edges):
            source, target = drawn_as[edge["source"]], drawn_as[edge["target"]]
            if source != target or edge["source"] == edge["target"]:
                merges = drawn[source]["folds"] or drawn[target]["folds"]
                apart = -1 if merges else number
                edges.setdefault((source, target, edge.get("label", ""), apart), []).append(number)
        pairs = [(source, target) for source, target, *_ in edges]
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
                    edges.items(), routes, _asides(pairs), strict=True
                )
            ],
        }

    def summary(self) -> str:
        """Node, edge and step counts."""
        text = f"{_plural(len(self._nodes), 'node')}, {_plural(len(self._edges), 'edge')}"
        return f"{text}, {_plural(len(self.frames), 'step')}" if self.frames else text

    def step_texts(self) -> list[str]:
        return [frame["text"] for frame in self.frames]

    def svg(self) -> str:
        """The first layers, at the step shown; unwalked, where everything stops, or the last."""
        level = self.levels.get(self.level, self.levels["all"])
        stop = next((i for i, one in enumerate(self.frames) if "stop" in one), len(self.frames) - 1)
        step = min(self.frame, len(self.frames) - 1) if self.frame or self.opened else stop
        return graph_picture(level, self.kinds, self.title, repr(self), self.frames, step)


def _kinds(nodes: Sequence[Node]) -> dict[str, int]:
    """Kind -> number in the palette: its own place, or the next that nobody has."""
    found = dict.fromkeys(node["kind"] for node in nodes if node.get("kind"))
    kinds = {kind: place for kind, place in PLACES.items() if kind in found}
    for kind in found:
        if kind not in kinds:
            kinds[kind] = next(i for i in range(len(found) + 3) if i not in kinds.values())
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
    return {
        "label": group,
        "kind": "",
        "group": group,
        "badges": [],
        "details": {},
        "members": [],
        "folds": True,
    }


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
