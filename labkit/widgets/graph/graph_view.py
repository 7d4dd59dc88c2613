"""Any directed graph with records: autograd graphs, engine states, prerequisite maps."""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.graph.graph_frames import checked_frame
from labkit.widgets.graph.graph_levels import Edge, Node, kinds_of, level_of, plural
from labkit.widgets.graph.graph_picture import graph_picture

FOLD_ABOVE = 2000
"""Graphs with more nodes than this start with their groups folded."""


class GraphView(LabWidget):
    """Draws nodes and edges whose places are computed here, once, so every page shows the same.

    nodes   mappings with `label`, and optionally `kind` (gives the colour and the legend), `group`
            (nodes of one group fold into one), `badges` (short strings), `details` (a mapping of
            name to text, shown when the node is selected), `at` (x, y: where it stands, in widths
            and heights of a node; only where every node says so, and none is in a group)
    edges   mappings with `source` and `target` (indices into nodes), optionally `label`, and
            `route` (the points it bends at) where the nodes say where they stand
    frames  steps to walk, each a mapping with `text` and any of
            marks   {node index: state}, what changed: active, ready, done, waiting, error, or None
            notes   {node index: a word over the node's corner, or None}, what changed
            edges   indices of the edges in use during this step alone
            flows   {edge index: what came along it, in a few characters, or None}, what changed
            absent  indices of the nodes that are not there during this step
            absent_edges  indices of the edges that are not there during this step
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
        levels = {"all": level_of(self._nodes, self._edges)}
        if groups:
            levels["folded"] = level_of(self._nodes, self._edges, frozenset(groups))
        start = "folded" if groups and len(self._nodes) > FOLD_ABOVE else "all"
        super().__init__(
            title=title,
            levels=levels,
            level=start,
            kinds=kinds_of(self._nodes),
            frames=[checked_frame(one, len(self._nodes), len(self._edges)) for one in frames],
            **kwargs,
        )
        self.observe(self._unfold, names="unfolded")

    def _unfold(self, change: Mapping[str, Any]) -> None:
        groups = {node.get("group") or "" for node in self._nodes} - {""}
        mixed = level_of(self._nodes, self._edges, frozenset(groups - set(change["new"])))
        self.levels = {**self.levels, "mixed": mixed}
        self.level = "mixed"

    def summary(self) -> str:
        """Node, edge and step counts."""
        text = f"{plural(len(self._nodes), 'node')}, {plural(len(self._edges), 'edge')}"
        return f"{text}, {plural(len(self.frames), 'step')}" if self.frames else text

    def step_texts(self) -> list[str]:
        return [frame["text"] for frame in self.frames]

    def svg(self) -> str:
        """The first layers, at the step shown; unwalked, where everything stops, or the last."""
        level = self.levels.get(self.level, self.levels["all"])
        stop = next((i for i, one in enumerate(self.frames) if "stop" in one), len(self.frames) - 1)
        step = min(self.frame, len(self.frames) - 1) if self.frame or self.opened else stop
        return graph_picture(level, self.kinds, self.title, repr(self), self.frames, step)
