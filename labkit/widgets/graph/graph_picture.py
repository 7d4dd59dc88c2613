"""The picture of a GraphView where no JavaScript runs: the graph, and the states at one step."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labkit.widgets.graph.graph_frames import state_at
from labkit.widgets.picture import ALERT, INK, LINE, MUTED, PALETTE, PAPER, Picture, short

NODE_WIDTH, LAYER_HEIGHT, BOX_HEIGHT = 132, 62, 30
MOST_NODES = 150
STATE_COLOURS = {
    "active": "#E69F00", "ready": "#56B4E9", "done": "#009E73", "waiting": "#8E6BD8",
    "error": "#D55E00",
}  # fmt: skip
LINE_LENGTH = 92
ABSENT = ("absent", "absent_edges")

Node = Mapping[str, Any]
State = Mapping[str, Mapping[int, str]]
Place = Callable[[float, float], tuple[float, float]]


def graph_picture(
    level: Mapping[str, Any],
    kinds: Mapping[str, int],
    title: str,
    label: str,
    frames: Sequence[Mapping[str, Any]],
    step: int,
) -> str:
    """The first layers, as many nodes as one can read, in the order of the layers.

    With steps: the state after number `step`, in words too.
    """
    nodes = level["nodes"]
    absent, cut = ({*frames[step].get(name, ())} if frames else set() for name in ABSENT)
    there = [i for i, node in enumerate(nodes) if not absent.issuperset(node["members"])]
    shown = sorted(there, key=lambda i: (nodes[i]["layer"], i))[:MOST_NODES]
    kept = set(shown)
    drawn = [edge for edge in level["edges"] if {edge[0], edge[1]} <= kept]
    drawn = [edge for edge in drawn if not cut.issuperset(edge[4])]
    places = [(nodes[i]["x"], nodes[i]["y"]) for i in shown]
    places += [(x, y) for edge in drawn for x, y in edge[3]]
    left, top = (min((place[axis] for place in places), default=0) for axis in (0, 1))
    right, foot = (max((place[axis] for place in places), default=0) for axis in (0, 1))
    state = state_at(frames, step)
    words = _words(frames, step)
    head = 58 + 16 * len(words)

    def at(x: float, y: float) -> tuple[float, float]:
        return 76 + (x - left) * NODE_WIDTH, head + (y - top) * LAYER_HEIGHT

    width = max(at(right, 0)[0] + 76, 320, *(24 + 6.7 * len(line) for line in words), 0)
    height = at(0, foot)[1] + 34
    picture = Picture(width, height, label=label)
    picture.text(12, 20, title or label, bold=True, mono=False)
    colour = ALERT if "error" in state["marks"].values() else MUTED
    for number, line in enumerate(words):
        picture.text(12, 38 + 16 * number, line, 12, colour, mono=False)
    lit = set(frames[step].get("edges", ())) if frames else set()
    for edge in drawn:
        _draw_edge(picture, edge, nodes, state["flows"], lit, at)
    for index in shown:
        _draw_node(picture, nodes[index], kinds, state, at(nodes[index]["x"], nodes[index]["y"]))
    if len(shown) < len(there):
        picture.text(width - 12, 20, f"first {len(shown)} of {len(there)} nodes", fill=MUTED,
                     anchor="end")  # fmt: skip
    return picture.svg()


def _draw_edge(
    picture: Picture, edge: Sequence[Any], nodes: Sequence[Node], flows: Mapping[int, str],
    lit: set[int], at: Place,
) -> None:  # fmt: skip
    """The arrow, and beside its beginning what came along it."""
    source, target, _, route, members, aside = edge
    line = _edge_line(nodes[source], nodes[target], route, aside, at)
    used = bool(lit & set(members))
    picture.line(line, STATE_COLOURS["active"] if used else MUTED, arrow=True)
    came = next((flows[one] for one in members if one in flows), None)
    if came:
        (x, y), (x2, y2) = line[:2]
        anchor, beside = ("end", -6) if aside < 0 else ("start", 6)
        picture.text((x + x2) / 2 + beside, 0.64 * y + 0.36 * y2 + 3, came, 10, INK, anchor,
                     bold=used)  # fmt: skip


def _draw_node(
    picture: Picture, node: Node, kinds: Mapping[str, int], state: State, place: tuple[float, float]
) -> None:
    (x, y), box = place, (124, BOX_HEIGHT)
    colour = PALETTE[kinds[node["kind"]] % len(PALETTE)] if node["kind"] else LINE
    picture.rect(x - 62, y - 15, *box, fill=PAPER, stroke=colour, stroke_width=1.5, radius=5)
    here = {state["marks"].get(member) for member in node["members"]}
    mark = next((one for one in ("error", "active", "ready", "done", "waiting") if one in here), "")
    if mark:
        picture.rect(x - 62, y - 15, *box, STATE_COLOURS[mark], colour, 1.5, 5, opacity=0.3)
    badge = ", ".join(node["badges"])
    picture.text(x, y + (0 if badge else 4), short(node["label"], 19), 11, INK, "middle")
    if badge:
        fill = ALERT if "✗" in badge else MUTED
        picture.text(x, y + 11, short(badge, 22), 9, fill, "middle")
    if len(node["members"]) == 1 and node["members"][0] in state["notes"]:
        picture.text(x + 60, y - 18, state["notes"][node["members"][0]], 9, anchor="end")


def _words(frames: Sequence[Mapping[str, Any]], step: int) -> list[str]:
    """What the step says, in lines."""
    if not frames:
        return []
    text = f"step {step + 1} of {len(frames)}: {frames[step]['text']}"
    return textwrap.wrap(text, LINE_LENGTH)[:4]


def _edge_line(
    source: Node, target: Node, route: Sequence[Sequence[float]], aside: float, at: Place
) -> list[tuple[float, float]]:
    """From the box of one node to that of the other, touching the sides that face the way."""
    start, end = (at(one["x"] + aside, one["y"]) for one in (source, target))
    bends = [at(x + aside, y) for x, y in route]
    leaves = 1 if (bends or [end])[0][1] >= start[1] else -1
    enters = 1 if end[1] >= (bends or [start])[-1][1] else -1
    half = BOX_HEIGHT / 2
    return [(start[0], start[1] + leaves * half), *bends, (end[0], end[1] - enters * half)]
