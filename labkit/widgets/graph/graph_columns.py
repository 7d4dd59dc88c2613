"""A long layered drawing in columns, as text is set: down the first, then down the next."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from labkit.widgets.graph.graph_layout import Layout

Point = tuple[float, float]
PAGE = (5.0, 6.0)
"""The room a graph has at a readable size, in widths of a node and heights of a layer."""
GAP = 0.4  # widths of a node between columns
TURNS = 0.6  # heights of a layer for the edges around a column's foot and head
WORTH = 1.25  # columns must make the drawing so many times larger


def in_columns(layout: Layout, edges: Sequence[tuple[int, int]]) -> Layout:
    """The same drawing, or several columns of it where that fits a page better.

    An edge into the next column leaves its own at the foot and comes in at the head.
    """
    every = [*zip(layout.x, layout.y, strict=True), *(p for route in layout.routes for p in route)]
    layers = int(max((y for _, y in every), default=0)) + 1
    left = min((x for x, _ in every), default=0.0)
    width = max((x for x, _ in every), default=0.0) - left + 1 + GAP
    count = max(range(1, layers + 1), key=lambda n: _scale(n, layers, width))
    if _scale(count, layers, width) < WORTH * _scale(1, layers, width):
        return layout
    page = _Columns(-(-layers // count), width, left)
    places = [page.place(point) for point in zip(layout.x, layout.y, strict=True)]
    routes = []
    for (source, target), route in zip(edges, layout.routes, strict=True):
        ends = [(layout.x[one], layout.y[one]) for one in (source, target)]
        routes.append(page.route([ends[0], *route, ends[1]], target)[1:-1])
    return replace(layout, x=[x for x, _ in places], y=[y for _, y in places], routes=routes)


def _scale(columns: int, layers: int, width: float) -> float:
    """How large the drawing can be shown on a page: 1 is the size of the text around it."""
    return min(1.0, PAGE[0] / (columns * width), PAGE[1] / (-(-layers // columns) + TURNS))


class _Columns:
    """Columns of `rows` layers, each `width` wide; the first begins at x = `left`."""

    def __init__(self, rows: int, width: float, left: float) -> None:
        self.rows, self.width, self.left = rows, width, left
        self._lanes: dict[int, list[int]] = {}  # column -> where edges from another lead to

    def column(self, point: Point) -> int:
        return int(point[1]) // self.rows

    def place(self, point: Point) -> Point:
        return point[0] + self.column(point) * self.width, point[1] % self.rows

    def route(self, points: Sequence[Point], target: int) -> list[Point]:
        """The way through these points, around the foot of a column into the next."""
        way = [self.place(points[0])]
        for before, after in pairwise(points):
            if self.column(after) != self.column(before):
                way += self._turn(before, after, target)
            way.append(self.place(after))
        return way

    def _turn(self, before: Point, after: Point, target: int) -> list[Point]:
        column = max(self.column(before), self.column(after))
        lanes = self._lanes.setdefault(column, [])
        if target not in lanes:
            lanes.append(target)
        aside = 0.05 * (lanes.index(target) % 6)
        gutter = self.left + column * self.width - 0.5 - GAP / 2 + aside - 0.1
        foot, head = self.rows - 0.45 + aside, -0.6 - aside
        ends = (foot, head) if self.column(after) > self.column(before) else (head, foot)
        first, last = self.place(before)[0], self.place(after)[0]
        return [(first, ends[0]), (gutter, ends[0]), (gutter, ends[1]), (last, ends[1])]
