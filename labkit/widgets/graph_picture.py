"""The picture of a GraphView where no JavaScript runs: the graph, and the last step's states."""

from collections.abc import Mapping, Sequence
from typing import Any

from labkit.widgets.graph_frames import state_at
from labkit.widgets.picture import ALERT, INK, LINE, MUTED, PALETTE, PAPER, Picture

NODE_WIDTH, LAYER_HEIGHT, BOX_HEIGHT = 132, 62, 30
MOST_NODES = 150
STATE_COLOURS = {
    "active": "#E69F00", "ready": "#56B4E9", "done": "#009E73", "waiting": "#8C8C00",
    "error": "#D55E00",
}  # fmt: skip
LINE_LENGTH = 92


def graph_picture(
    level: Mapping[str, Any],
    kinds: Sequence[str],
    title: str,
    label: str,
    frames: Sequence[Mapping[str, Any]],
) -> str:
    """The first layers, as many nodes as one can read, in the order of the layers.

    With steps: the state after the step that stops everything, else after the last, in words too.
    """
    nodes = level["nodes"]
    shown = sorted(range(len(nodes)), key=lambda i: (nodes[i]["y"], i))[:MOST_NODES]
    kept = set(shown)
    left = min((nodes[i]["x"] for i in shown), default=0)
    top = min((nodes[i]["y"] for i in shown), default=0)
    states, notes, words = _step(frames)
    head = 52 + 16 * len(words)

    def at(x: float, y: float) -> tuple[float, float]:
        return 76 + (x - left) * NODE_WIDTH, head + (y - top) * LAYER_HEIGHT

    width = max((at(nodes[i]["x"], 0)[0] for i in shown), default=240) + 76
    width = max(width, 320, *(24 + 6.7 * len(line) for line in words), 0)
    height = max((at(0, nodes[i]["y"])[1] for i in shown), default=40) + 34
    picture = Picture(width, height, label=label)
    picture.text(12, 20, title or label, bold=True, mono=False)
    for number, line in enumerate(words):
        picture.text(12, 38 + 16 * number, line, 12, ALERT if "error" in states.values() else MUTED,
                     mono=False)  # fmt: skip
    for source, target, _, route, *_ in level["edges"]:
        if source in kept and target in kept:
            picture.line(_edge_line(nodes, source, target, route, at), arrow=True)
    for index in shown:
        node = nodes[index]
        x, y = at(node["x"], node["y"])
        colour = PALETTE[kinds.index(node["kind"]) % len(PALETTE)] if node["kind"] else LINE
        here = {states[member] for member in node["members"] if member in states}
        picture.rect(x - 62, y - 15, 124, BOX_HEIGHT, fill=PAPER, stroke=colour,
                     stroke_width=1.5, radius=5)  # fmt: skip
        for state in ("error", "active", "ready", "done", "waiting"):
            if state in here:
                picture.rect(x - 62, y - 15, 124, BOX_HEIGHT, STATE_COLOURS[state], colour, 1.5, 5,
                             opacity=0.3)  # fmt: skip
                break
        badge = ", ".join(node["badges"])
        picture.text(x, y + (0 if badge else 4), _short(node["label"], 19), 11, INK, "middle")
        if badge:
            picture.text(x, y + 11, _short(badge, 22), 9, MUTED, "middle")
        if len(node["members"]) == 1 and node["members"][0] in notes:
            picture.text(x + 7, y - 18, notes[node["members"][0]], 9)
    if len(shown) < len(nodes):
        picture.text(width - 12, 20, f"first {len(shown)} of {len(nodes)} nodes", fill=MUTED,
                     anchor="end")  # fmt: skip
    return picture.svg()


def _step(
    frames: Sequence[Mapping[str, Any]],
) -> tuple[dict[int, str], dict[int, str], list[str]]:
    """States, notes and words of the step that is drawn."""
    if not frames:
        return {}, {}, []
    place = next((i for i, frame in enumerate(frames) if frame.get("stop")), len(frames) - 1)
    states, notes = state_at(frames, place)
    text = f"step {place + 1} of {len(frames)}: {frames[place]['text']}"
    lines: list[str] = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > LINE_LENGTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return states, notes, lines[:4]


def _edge_line(
    nodes: Sequence[Mapping[str, Any]],
    source: int,
    target: int,
    route: Sequence[Sequence[float]],
    at: Any,
) -> list[tuple[float, float]]:
    """From the box of one node to that of the other, touching the sides that face each other."""
    start = at(nodes[source]["x"], nodes[source]["y"])
    end = at(nodes[target]["x"], nodes[target]["y"])
    down = 1 if end[1] >= start[1] else -1
    half = BOX_HEIGHT / 2
    return [
        (start[0], start[1] + down * half),
        *(at(x, y) for x, y in route),
        (end[0], end[1] - down * half),
    ]


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
