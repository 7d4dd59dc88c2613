"""Drawing graphs: time of the layout, and its crossings beside those of Graphviz dot.

Crossings are counted the same way in both drawings: edges as polylines (dot's curves in short
pieces), every point where two edges without a common end meet.
"""

import itertools
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence

import numpy as np

from labkit.bench import Bench, Count, Total
from labkit.widgets.graph.graph_layout import layered_layout

Edges = list[tuple[int, int]]
PIECES = 8
"""Straight pieces a curve of dot's is cut into."""


def residual_network(node_count: int) -> Edges:
    """Blocks of an operation chain with a leaf on each side and a shortcut, as ResNet's graph."""
    edges: Edges = []
    last, new = 0, 1
    while new + 6 <= node_count:
        edges += [(last, new), (new, new + 1), (new, new + 2), (new + 1, new + 3),
                  (new + 3, new + 4), (new + 3, new + 5), (last, new + 5)]  # fmt: skip
        last, new = new + 5, new + 6
    return edges


def skipping_chain(node_count: int, seed: int) -> Edges:
    """A chain with side branches and shortcuts over up to twenty nodes."""
    rng = random.Random(seed)
    edges: Edges = []
    for node in range(1, node_count):
        back = 1 if rng.random() < 0.7 else rng.randint(1, 12)
        edges.append((max(0, node - back), node))
        if rng.random() < 0.25:
            edges.append((max(0, node - rng.randint(2, 20)), node))
    return sorted(set(edges))


def perceptron(node_count: int) -> Edges:
    """Layers of addmm, a bias, a transposed weight and its leaf, an activation."""
    edges: Edges = []
    last, new = 0, 1
    while new + 5 <= node_count:
        edges += [(last, new), (new, new + 1), (new, new + 2), (new + 2, new + 3), (new, new + 4)]
        last, new = new + 4, new + 5
    return edges


def our_lines(node_count: int, edges: Edges) -> list[np.ndarray]:
    """The polylines of our drawing, [points, 2] each."""
    layout = layered_layout(node_count, edges)
    ends = list(zip(layout.x, layout.y, strict=True))
    return [
        np.array([ends[source], *route, ends[target]])
        for (source, target), route in zip(edges, layout.routes, strict=True)
    ]


def dot_lines(edges: Edges) -> list[np.ndarray]:
    """The polylines of dot's drawing, in the order of the edges."""
    text = "digraph { " + " ".join(f"{a} -> {b};" for a, b in edges) + " }"
    drawn = subprocess.run(
        ["dot", "-Tplain"], input=text, capture_output=True, text=True, check=True
    )
    lines = {}
    for line in drawn.stdout.splitlines():
        if line.startswith("edge "):
            _, source, target, count, *rest = line.split()
            points = np.array(rest[: 2 * int(count)], dtype=float).reshape(-1, 2)
            lines[int(source), int(target)] = flattened(points)
    return [lines[edge] for edge in edges]


def flattened(points: np.ndarray) -> np.ndarray:
    """A chain of cubic Bezier curves as a polyline."""
    t = np.linspace(0, 1, PIECES + 1)[:, None]
    pieces = [points[:1]]
    for i in range(0, len(points) - 1, 3):
        a, b, c, d = points[i : i + 4]
        curve = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
        pieces.append(curve[1:])
    return np.concatenate(pieces)


def crossings(edges: Edges, lines: Sequence[np.ndarray]) -> int:
    """Points where two edges without a common end meet."""
    starts = np.concatenate([line[:-1] for line in lines])
    ends = np.concatenate([line[1:] for line in lines])
    owner = np.concatenate([np.full(len(line) - 1, i) for i, line in enumerate(lines)])
    tips = np.array(edges)[owner]
    found = 0
    for i in range(len(starts) - 1):
        a, b, rest = starts[i], ends[i], slice(i + 1, None)
        c, d = starts[rest], ends[rest]
        meets = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
        if meets.any():
            apart = (tips[rest][:, :, None] != tips[i][None, None, :]).all(axis=(1, 2))
            found += int((meets & apart).sum())
    return found


def side(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """On which side of the line from a to b the point c lies."""
    return (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (
        c[..., 0] - a[..., 0]
    )


def BENCHES() -> Iterator[Bench | Total | Count]:
    """The questions of `labkit bench graph`."""
    graphs = {
        "a residual network": residual_network,
        "a perceptron": perceptron,
        "a chain": lambda count: list(itertools.pairwise(range(count))),
    }
    for name, make in graphs.items():
        edges = make(10_000)
        yield Total(
            f"layout of {name} of 10,000 nodes",
            lambda edges=edges: layered_layout(10_000, edges),
            0.2,
            clock="cpu",
        )
    if shutil.which("dot") is None:
        print("  crossings: skipped, Graphviz dot is not installed")
        return
    for name, edges in {
        "a residual network": residual_network(500),
        **{f"a skipping chain, seed {seed}": skipping_chain(500, seed) for seed in range(3)},
    }.items():
        yield Count(
            f"crossings of {name} of 500 nodes, beside dot's",
            lambda edges=edges: crossings(edges, our_lines(500, edges)),
            lambda edges=edges: crossings(edges, dot_lines(edges)),
            1.5,
        )
