"""Graphs of operators, captured by torch.fx, as the nodes and edges that a GraphView draws."""

from typing import Any

from labkit.widgets.graph.graph_view import GraphView


def is_operators(root: Any) -> bool:
    """True for a torch.fx GraphModule, without importing torch."""
    return hasattr(root, "graph") and hasattr(getattr(root, "graph", None), "find_nodes")


class Operators:
    """The operators of one or more graphs. Parameters are not drawn; their readers name them."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, int]] = []
        self.places: dict[tuple[Any, ...], int] = {}

    def add(self, graph: Any, key: Any = None) -> tuple[set[int], set[int]]:
        """The places of the graph's nodes and edges; equal nodes of one `key` are drawn once."""
        nodes, edges = set(), set()
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                continue
            mine = self._place(node, graph, key)
            nodes.add(mine)
            for one in node.all_input_nodes:
                if one.op != "get_attr":
                    edge = {"source": self._place(one, graph, key), "target": mine}
                    if edge not in self.edges:
                        self.edges.append(edge)
                    edges.add(self.edges.index(edge))
        return nodes, edges

    def _place(self, node: Any, graph: Any, key: Any) -> int:
        label, kind, badges = _look(node, graph)
        known = (key, node.name, label)
        if known not in self.places:
            self.places[known] = len(self.nodes)
            self.nodes.append(
                {"label": label, "kind": kind, "badges": badges, "details": _details(node)}
            )
        return self.places[known]


def _look(node: Any, graph: Any) -> tuple[str, str, list[str]]:
    """Label, kind and badges."""
    from labkit.graph.storages import operator_name, overwritten  # late: they import torch

    if node.op == "placeholder":
        return node.name, "input", []
    if node.op == "output":
        return "result", "result", []
    if node.op == "call_module":
        inside = getattr(graph, node.target).inside.graph
        count = sum(one.op == "call_function" for one in inside.nodes)
        return "one kernel", "fused", [f"{count} operators"]
    name = operator_name(node)
    written = "in place" if overwritten(node) else "operator"
    return name, "fused" if name.endswith("_bn_relu") else written, []


def _details(node: Any) -> dict[str, str]:
    value = node.meta.get("val")
    made = {} if value is None else {"makes": f"{tuple(value.shape)} {value.dtype}"}
    reads = ", ".join(one.name for one in node.all_input_nodes)
    return {"name": node.name, **({"reads": reads} if reads else {}), **made}


def operators(graphs: Any, title: str, simple: bool) -> GraphView:
    """The graphs side by side."""
    drawn = Operators()
    for number, one in enumerate(graphs):
        drawn.add(one, number)
    return GraphView(drawn.nodes, drawn.edges, title=title, simple=simple)


def rewrite(done: Any, title: str = "", simple: bool = True) -> GraphView:
    """A graph before a pass, each edge that the pass refused, and the graph after it, in steps.

    done   a `labkit.graph.Rewrite`
    """
    drawn = Operators()
    before = drawn.add(done.before)
    after = drawn.add(done.graph)
    every = set(range(len(drawn.nodes))), set(range(len(drawn.edges)))

    def frame(text: str, shown: tuple[set[int], set[int]], **more: Any) -> dict[str, Any]:
        nodes, edges = every[0] - shown[0], every[1] - shown[1]
        return {"text": text, "absent": sorted(nodes), "absent_edges": sorted(edges), **more}

    frames = [frame("before", before)]
    for one in done.refused:
        ends = _ends(drawn, after, one)
        lit = {"edges": ends} if ends else {}
        frames.append(frame(f"refused: {one}", after, **lit, kind="refused"))
    done_text = "; ".join(done.done) or "nothing to do"
    frames.append(frame(f"after: {done_text}", after))
    return GraphView(drawn.nodes, drawn.edges, frames, title=title, simple=simple)


def _ends(drawn: Operators, shown: tuple[set[int], set[int]], refused: Any) -> list[int]:
    """The drawn edge between the nodes of these names."""
    names = [node["details"]["name"] for node in drawn.nodes]
    return [
        place
        for place in shown[1]
        if names[drawn.edges[place]["source"]] == refused.producer
        and names[drawn.edges[place]["target"]] == refused.reader
    ]
