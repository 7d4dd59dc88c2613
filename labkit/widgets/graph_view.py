"""Any directed graph with records: autograd graphs, engine states, prerequisite maps."""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.graph_layout import layered_layout
from labkit.widgets.picture import INK, LINE, MUTED, PALETTE, PAPER, Picture

FOLD_ABOVE = 2000
"""Graphs with more nodes than this start with their groups folded."""
NODE_WIDTH, LAYER_HEIGHT, BOX_HEIGHT = 132, 62, 30
PICTURE_NODES = 150

Node = Mapping[str, Any]
Edge = Mapping[str, Any]


class GraphView(LabWidget):
    """Draws nodes and edges whose places are computed here, once, so every page shows the same.

    nodes   mappings with `label`, and optionally `kind` (gives the colour and the legend), `group`
            (nodes of one group fold into one), `badges` (short strings), `details` (a mapping of
            name to text, shown when the node is selected)
    edges   mappings with `source` and `target` (indices into nodes), optionally `label`
    frames  steps to walk, each a mapping with `text`, `marks` ({node index: state}, what changed;
            states are active, ready, done, waiting, error, or None to clear) and `lists`
            ({name: [short strings]}, the side lists of this step)

    Raises   ValueError   an edge or a mark names a node that does not exist, or an unknown state
    """

    title = traitlets.Unicode("").tag(sync=True)
    levels = traitlets.Dict().tag(sync=True)
    level = traitlets.Unicode("all").tag(sync=True)
    unfolded = traitlets.List(traitlets.Unicode()).tag(sync=True)
    frames: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    selected = traitlets.Int(-1, help="index of the chosen node, -1 for none").tag(sync=True)

    STATES = ("active", "ready", "done", "waiting", "error")

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
            frames=[self._checked_frame(frame) for frame in frames],
            **kwargs,
        )
        self.observe(self._unfold, names="unfolded")

    def _checked_frame(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        marks = {}
        for index, state in frame.get("marks", {}).items():
            if not 0 <= index < len(self._nodes):
                raise ValueError(f"a frame marks node {index}; there are {len(self._nodes)}")
            if state is not None and state not in self.STATES:
                raise ValueError(f"node state {state!r} is not one of {', '.join(self.STATES)}")
            marks[str(index)] = state
        return {
            "text": frame.get("text", ""),
            "marks": marks,
            "lists": {name: [str(item) for item in items]
                      for name, items in frame.get("lists", {}).items()},
        }  # fmt: skip

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
                node["badges"] = [f"{len(node['members'])} nodes"]
        edges: dict[tuple[int, int, str], None] = {}
        for edge in self._edges:
            source, target = drawn_as[edge["source"]], drawn_as[edge["target"]]
            if source != target or edge["source"] == edge["target"]:
                edges[source, target, edge.get("label", "")] = None
        layout = layered_layout(len(drawn), [(source, target) for source, target, _ in edges])
        for node, x, y in zip(drawn, layout.x, layout.y, strict=True):
            node["x"], node["y"] = round(x, 3), round(y, 3)
        return {
            "nodes": drawn,
            "edges": [
                [source, target, label, [[round(x, 2), round(y, 2)] for x, y in route]]
                for (source, target, label), route in zip(edges, layout.routes, strict=True)
            ],
        }

    def summary(self) -> str:
        """Node, edge and step counts."""
        text = f"{_plural(len(self._nodes), 'node')}, {_plural(len(self._edges), 'edge')}"
        return f"{text}, {_plural(len(self.frames), 'step')}" if self.frames else text

    def svg(self) -> str:
        """The first layers, as many nodes as one can read, in the order of the layers."""
        level = self.levels.get(self.level, self.levels["all"])
        shown = sorted(range(len(level["nodes"])), key=lambda i: (level["nodes"][i]["y"], i))
        shown = shown[:PICTURE_NODES]
        kept = set(shown)
        left = min((level["nodes"][i]["x"] for i in shown), default=0)
        top = min((level["nodes"][i]["y"] for i in shown), default=0)

        def at(x: float, y: float) -> tuple[float, float]:
            return 76 + (x - left) * NODE_WIDTH, 52 + (y - top) * LAYER_HEIGHT

        width = max((at(level["nodes"][i]["x"], 0)[0] for i in shown), default=240) + 76
        height = max((at(0, level["nodes"][i]["y"])[1] for i in shown), default=40) + 34
        picture = Picture(max(width, 320), height, label=repr(self))
        picture.text(12, 20, self.title or repr(self), bold=True, mono=False)
        for source, target, _, route in level["edges"]:
            if source in kept and target in kept:
                picture.line(_edge_line(level["nodes"], source, target, route, at), arrow=True)
        kinds = self._kinds()
        for index in shown:
            node = level["nodes"][index]
            x, y = at(node["x"], node["y"])
            colour = PALETTE[kinds.index(node["kind"]) % len(PALETTE)] if node["kind"] else LINE
            picture.rect(x - 62, y - 15, 124, BOX_HEIGHT, fill=PAPER, stroke=colour,
                         stroke_width=1.5, radius=5)  # fmt: skip
            badge = ", ".join(node["badges"])
            picture.text(x, y + (0 if badge else 4), _short(node["label"], 19), 11, INK, "middle")
            if badge:
                picture.text(x, y + 11, _short(badge, 22), 9, MUTED, "middle")
        if len(shown) < len(level["nodes"]):
            picture.text(width - 12, 20, f"first {len(shown)} of {len(level['nodes'])} nodes",
                         fill=MUTED, anchor="end")  # fmt: skip
        return picture.svg()

    def _kinds(self) -> list[str]:
        return list(dict.fromkeys(node.get("kind", "") for node in self._nodes if node.get("kind")))


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


def _edge_line(
    nodes: Sequence[Node], source: int, target: int, route: Sequence[Sequence[float]], at: Any
) -> list[tuple[float, float]]:
    """From the box of one node to that of the other, touching the sides that face each other."""
    start, end = (
        at(nodes[source]["x"], nodes[source]["y"]),
        at(nodes[target]["x"], nodes[target]["y"]),
    )
    down = 1 if end[1] >= start[1] else -1
    half = BOX_HEIGHT / 2
    return [
        (start[0], start[1] + down * half),
        *(at(x, y) for x, y in route),
        (end[0], end[1] - down * half),
    ]


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
