"""A few SVG shapes for the pictures shown where no JavaScript runs, in the widgets' own colours."""

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C00", "#666666")
"""Okabe and Ito's colours: told apart with every common colour vision; `lk.palette` is the same."""
INK, MUTED, LINE, PAPER, ALERT = "#1b1f24", "#57606a", "#c4cbd3", "#ffffff", "#B23A00"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
SANS = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"


class Picture:
    """An SVG drawing on a light card: readable on a light and on a dark page alike.

    width, height  pixels
    label          what a screen reader says
    """

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width, self.height, self.label = width, height, label
        self.parts: list[str] = []

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = PAPER,
        stroke: str = LINE,
        stroke_width: float = 1,
        radius: float = 2,
        opacity: float = 1,
    ) -> None:
        """Draw a rectangle; `fill` may be "url(#hatch)" for the hatched pattern."""
        self.parts.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" '
            f'rx="{_n(radius)}" fill="{fill}" stroke="{stroke}" '
            f'stroke-width="{_n(stroke_width)}" fill-opacity="{_n(opacity)}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float = 12,
        fill: str = INK,
        anchor: str = "start",
        mono: bool = True,
        bold: bool = False,
    ) -> None:
        """Write words with their baseline at y; anchor is start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        indent = len(words) - len(words.lstrip(" "))
        words = "\u00a0" * indent + words[indent:]  # SVG swallows spaces at the start
        self.parts.append(
            f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{fill}" '
            f'text-anchor="{anchor}" font-family="{MONO if mono else SANS}"{weight}>'
            f"{escape(words)}</text>"
        )

    def line(
        self, points: Sequence[tuple[float, float]], stroke: str = MUTED, arrow: bool = False
    ) -> None:
        """Draw a line through the points, with a head at its last one if asked."""
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        head = ' marker-end="url(#arrow)"' if arrow else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{stroke}"{head}/>')

    def svg(self) -> str:
        """The whole drawing as one SVG document."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(self.width)}" '
            f'height="{_n(self.height)}" viewBox="0 0 {_n(self.width)} {_n(self.height)}" '
            f'role="img" aria-label={quoteattr(self.label)}>'
            '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect width="2.5" height="6" fill="{ALERT}" '
            'fill-opacity="0.55"/></pattern><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
            f'<path d="M0 0 8 4 0 8z" fill="{MUTED}"/></marker></defs>'
            f'<rect x="0.5" y="0.5" width="{_n(self.width - 1)}" height="{_n(self.height - 1)}" '
            f'rx="6" fill="{PAPER}" stroke="{LINE}"/>{"".join(self.parts)}</svg>'
        )


def short(text: str, room: int) -> str:
    """The text in at most so many letters; what is cut off is an ellipsis."""
    return text if len(text) <= room else text[: room - 1] + "…"


def _n(value: float) -> str:
    """A number as short as it can be, the same on every machine."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
