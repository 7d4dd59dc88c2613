"""The picture of a failing case of `rebase_history`: the right history of a tensor, and yours."""

from typing import Any

from labkit.widgets.graph.graph_view import GraphView


def two_histories(name: str, right: Any, yours: Any) -> GraphView:
    """The two in one graph, gradients running down; the first difference is marked.

    right, yours  ([names of nodes], a gradient), or the sentence of an error
    """
    lines = {"right": _line(right), "yours": _line(yours)}
    nodes: list[dict[str, Any]] = []
    edges = []
    for whose, words in lines.items():
        first = len(nodes)
        nodes += [{"label": word, "kind": whose} for word in (f"{name}, {whose}", *words)]
        edges += [{"source": at, "target": at + 1} for at in range(first, len(nodes) - 1)]
    pairs = zip(lines["right"], lines["yours"], strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), len(lines["right"]))
    wrong = min(len(nodes) - len(lines["yours"]) + same, len(nodes) - 1)
    frame = {"text": _said(right, yours), "marks": {wrong: "error"}}
    return GraphView(nodes, edges, frames=[frame], title=f"the history of {name}", simple=True)


def _line(found: Any) -> list[str]:
    return list(found[0]) if isinstance(found, tuple) else ["refuses"]


def _said(right: Any, yours: Any) -> str:
    if isinstance(right, str) or isinstance(yours, str):
        said = {"right": right, "yours": yours}
        return "; ".join(f"{who}: {one}" for who, one in said.items() if isinstance(one, str))
    if right[0] == yours[0]:
        return f"the same nodes; the gradient is {right[1]}, yours {yours[1]}"
    return "the marked node is the first one that differs"
