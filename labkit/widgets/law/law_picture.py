"""Measured points with their spread, and the curves of laws: a drawing, and the same in words.

The drawing has the colours of the page and the width of its place: only what stands across is
measured in pixels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from labkit.widgets.law.axis import Axis, written
from labkit.widgets.picture import PALETTE

HEIGHT = 240
MARKS = ("M-5 0A5 5 0 1 0 5 0A5 5 0 1 0-5 0z", "M-4.5-4.5h9v9h-9z", "M0-6 5.5 4.5h-11z",
         "M0-6 6 0 0 6-6 0z")  # fmt: skip
DASHES = ("", "7 4", "2 3", "9 3 2 3")
CELL = 'style="text-align:left;white-space:nowrap"'


@dataclass(frozen=True)
class Point:
    """What was measured at one place: the middle, the smallest and the largest of `n` values."""

    x: float
    y: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        spread = f" ({written(self.low)} to {written(self.high)})" if self.low < self.high else ""
        return written(self.y) + spread


@dataclass(frozen=True)
class Line:
    """One law: what it says where points are, and its curve between them."""

    said: Mapping[float, float]
    curve: Sequence[tuple[float, float]]


class LawPicture:
    """Points by the name of their series, lines by the name of their law.

    x, y   what is counted along, and upwards
    log    "x", "y" or both: this axis is logarithmic
    title  stands above; whose seconds these are stands there too, where there are seconds
    """

    def __init__(
        self,
        points: Mapping[str, Sequence[Point]],
        lines: Mapping[str, Line],
        x: str = "",
        y: str = "",
        log: str = "",
        title: str = "",
    ) -> None:
        self.points, self.lines, self.x, self.y, self.title = points, lines, x, y, title
        every = [point for series in points.values() for point in series]
        along = [p.x for p in every] + [x for line in lines.values() for x, _ in line.curve]
        self._along = Axis(along, "x" in log, [p.x for p in every], zero=False)
        up = [value for p in every for value in (p.low, p.high)]
        up += [value for line in lines.values() for _, value in line.curve]
        self._up = Axis(up, "y" in log)

    def farthest(self) -> str:
        """Which point lies farthest from the law that is nearest to it; "" without a law."""
        found = []
        for name, series in self.points.items():
            for point in series:
                said = {law: line.said.get(point.x, 0) for law, line in self.lines.items()}
                ratios = [(point.y / value, law) for law, value in said.items() if value > 0]
                if ratios and point.y > 0:
                    ratio, law = min(ratios, key=_off)
                    found.append((ratio, f"{name} at {written(point.x)} is {ratio:.3g} x {law}"))
        if found and max(map(_off, found)) < 0.001:
            return "every point is within 0.1 %"
        return f"farthest off: {max(found, key=_off)[1]}" if found else ""

    def _head(self) -> str:
        named = self.title or f"{' and '.join(self.points)} against {' and '.join(self.lines)}"
        return "; ".join(filter(None, (named.removesuffix(" against "), self.farthest())))

    def _columns(self) -> list[str]:
        return [self.x or "at", *self.points, *self.lines]

    def _rows(self) -> list[list[str]]:
        """The text twin: a row for each place, what was measured there and what laws say."""
        places = sorted({point.x for series in self.points.values() for point in series})
        found = {name: {p.x: str(p) for p in series} for name, series in self.points.items()}
        for law, line in self.lines.items():
            found[law] = {x: written(value) for x, value in line.said.items()}
        return [[written(x), *(found[n].get(x, "") for n in self._columns()[1:])] for x in places]

    def __repr__(self) -> str:
        table = [self._columns(), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        rows = (
            "  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True))
            for row in table
        )
        return "\n".join([self._head() + (f" [{self.y}]" if self.y else ""), *rows])

    def _repr_html_(self) -> str:
        title = f'<figcaption style="font-weight:600">{escape(self.title)}</figcaption>'
        return (
            '<figure class="lab-law" style="margin:0.5em 0;max-width:46em">'
            f"{title if self.title else ''}"
            f'<div style="opacity:0.8">{escape(self.y)}</div>'
            f'<div style="padding:8px 1.5em 1.7em 4.5em">{self._drawing()}</div>'
            f'<div style="text-align:right;opacity:0.8">{escape(self.x)}</div>'
            f"{self._legend()}{self._table()}</figure>"
        )

    def _drawing(self) -> str:
        parts = [*self._grid(), *self._curves()]
        for number, series in enumerate(self.points.values()):
            for point in series:
                parts += self._mark(point, number)
        return (
            f'<svg role="img" aria-label="{escape(self._head())}" width="100%" height="{HEIGHT}" '
            f'style="overflow:visible;display:block;font:12px system-ui,sans-serif">'
            f"{''.join(parts)}</svg>"
        )

    def _grid(self) -> list[str]:
        parts = []
        for tick in self._up.ticks:
            y = _y(self._up(tick))
            parts.append(_rule("0", "100%", y, y, 0.2))
            parts.append(_text("-8", y, written(tick), "end", ' dy="0.35em"'))
        for tick in self._along.ticks:
            x = _x(self._along(tick))
            parts.append(_rule(x, x, str(HEIGHT), str(HEIGHT + 5), 0.6))
            parts.append(_text(x, str(HEIGHT + 20), written(tick), "middle"))
        return [*parts, _rule("0", "100%", str(HEIGHT), str(HEIGHT), 0.6)]

    def _curves(self) -> list[str]:
        drawn = []
        for number, line in enumerate(self.lines.values()):
            at = " ".join(
                f"{100 * self._along(x):.2f},{100 - 100 * self._up(y):.2f}" for x, y in line.curve
            )
            drawn.append(f'<polyline points="{at}" {_line(number)}/>')
        return [
            '<svg width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none" '
            f'style="overflow:visible">{"".join(drawn)}</svg>'
        ]

    def _mark(self, point: Point, number: int) -> list[str]:
        x, (low, y, high) = (
            _x(self._along(point.x)),
            map(self._up, (point.low, point.y, point.high)),
        )
        spread = _rule(x, x, _y(low), _y(high), 1) if point.low < point.high else ""
        return [spread, f'<svg x="{x}" y="{_y(y)}" style="overflow:visible">{mark(number)}</svg>']

    def _legend(self) -> str:
        names = [
            (name, f'<svg width="14" height="14" viewBox="-7 -7 14 14">{mark(number)}</svg>')
            for number, name in enumerate(self.points)
        ]
        for number, name in enumerate(self.lines):
            sample = f'<polyline points="0,7 30,7" {_line(number)}/>'
            names.append((name, f'<svg width="30" height="14">{sample}</svg>'))
        said = "".join(
            f'<span style="margin-right:1.4em;white-space:nowrap">{drawn} {escape(name)}</span>'
            for name, drawn in names
        )
        return f"<div>{said}</div>"

    def _table(self) -> str:
        head, *body = [self._columns(), *self._rows()]
        heads = "".join(f'<th scope="col" {CELL}>{escape(word)}</th>' for word in head)
        rows = "".join(
            f'<tr><th scope="row" {CELL}>{escape(row[0])}</th>'
            + "".join(f"<td {CELL}>{escape(word)}</td>" for word in row[1:])
            + "</tr>"
            for row in body
        )
        return (
            f"<details><summary>in numbers</summary><div>{escape(self.farthest())}</div>"
            f'<div style="overflow-x:auto" tabindex="0"><table><thead><tr>{heads}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div></details>"
        )


def _off(found: tuple[float, str]) -> float:
    return abs(math.log(found[0]))


def mark(number: int) -> str:
    """The mark of a series around (0, 0): told apart by its form as well as by its colour."""
    colour = PALETTE[number % len(PALETTE)]
    return f'<path d="{MARKS[number % len(MARKS)]}" fill="{colour}" stroke="currentColor"/>'


def _line(number: int) -> str:
    return (
        f'fill="none" stroke="currentColor" stroke-width="1.6" vector-effect="non-scaling-stroke" '
        f'stroke-dasharray="{DASHES[number % len(DASHES)]}"'
    )


def _rule(x1: str, x2: str, y1: str, y2: str, opacity: float) -> str:
    return (
        f'<line x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}" stroke="currentColor" '
        f'stroke-opacity="{opacity}"/>'
    )


def _text(x: str, y: str, words: str, anchor: str, more: str = "") -> str:
    return (
        f'<text x="{x}" y="{y}"{more} text-anchor="{anchor}" fill="currentColor">'
        f"{escape(words)}</text>"
    )


def _x(part: float) -> str:
    return f"{100 * part:.2f}%"


def _y(part: float) -> str:
    return f"{HEIGHT * (1 - part):.1f}"
