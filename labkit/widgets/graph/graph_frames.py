"""The steps of a GraphView: what each changes, checked, in the form that travels to the page."""

from collections.abc import Mapping, Sequence
from typing import Any

STATES = ("active", "ready", "done", "waiting", "error")
MOST_LISTED = 12
"""Items of a side list that are written out; of a longer one the number of the rest."""

Frame = Mapping[str, Any]


def checked_frame(frame: Frame, node_count: int, edge_count: int) -> dict[str, Any]:
    """The frame, with every node and edge it names known to exist.

    Raises   ValueError   a node, an edge or a state that does not exist; a heat map whose numbers
                          do not fill its rows
    """
    marks = _by_node(frame, "marks", node_count)
    for state in marks.values():
        if state is not None and state not in STATES:
            raise ValueError(f"node state {state!r} is not one of {', '.join(STATES)}")
    for edge in (*frame.get("edges", ()), *frame.get("flows", ()), *frame.get("absent_edges", ())):
        if not 0 <= edge < edge_count:
            raise ValueError(f"a frame lights edge {edge}; there are {edge_count}")
    _by_node({"absent": dict.fromkeys(frame.get("absent", ()))}, "absent", node_count)
    checked = {
        "text": frame.get("text", ""),
        "marks": marks,
        "lists": {name: _listed(items) for name, items in frame.get("lists", {}).items()},
        "notes": _by_node(frame, "notes", node_count),
        "edges": list(frame.get("edges", ())),
        "absent": list(frame.get("absent", ())),
        "absent_edges": list(frame.get("absent_edges", ())),
        "flows": {str(edge): text for edge, text in frame.get("flows", {}).items()},
        "heats": [_checked_heat(heat) for heat in frame.get("heats", ())],
        "kind": frame.get("kind", ""),
        "stop": frame.get("stop", ""),
    }
    needed = ("text", "marks", "lists")
    return {name: value for name, value in checked.items() if value or name in needed}


def state_at(frames: Sequence[Frame], index: int) -> dict[str, dict[int, str]]:
    """The marks and notes of nodes and the flows of edges that are in force at one frame."""
    state: dict[str, dict[int, str]] = {"marks": {}, "notes": {}, "flows": {}}
    for frame in frames[: index + 1]:
        for name, into in state.items():
            for number, value in frame.get(name, {}).items():
                if value:
                    into[int(number)] = value
                else:
                    into.pop(int(number), None)
    return state


def _by_node(frame: Frame, name: str, node_count: int) -> dict[str, Any]:
    for index in frame.get(name, {}):
        if not 0 <= index < node_count:
            raise ValueError(f"a frame marks node {index}; there are {node_count}")
    return {str(index): value for index, value in frame.get(name, {}).items()}


def _listed(items: Sequence[Any]) -> list[str]:
    written = [str(item) for item in items[:MOST_LISTED]]
    rest = len(items) - len(written)
    return [*written, f"… and {rest} more"] if rest else written


def _checked_heat(heat: Mapping[str, Any]) -> dict[str, Any]:
    rows, columns, numbers = heat["rows"], heat["columns"], list(heat["numbers"])
    if rows * columns != len(numbers):
        raise ValueError(
            f"heat map {heat['title']!r} has {len(numbers)} numbers for {rows} x {columns} cells"
        )
    return {"title": heat["title"], "rows": rows, "columns": columns, "numbers": numbers}
