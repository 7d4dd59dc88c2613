"""`show.bars`: numbers that add up, one bar per row, every piece under its name."""

from collections.abc import Mapping
from html import escape

from labkit.widgets.picture import PALETTE

LETTER = 0.016
"""The part of the longest bar that a letter of a piece's name takes."""


class Bars:
    """A table of bars: HTML where it is shown, and the same in words as text.

    A piece too small for its name has it in the legend.

    rows   what stands before a bar -> name of a piece -> its size
    unit   what the sizes are counted in
    peak   the largest row, or rows, say so
    """

    def __init__(self, rows: Mapping[str, Mapping[str, float]], unit: str, peak: bool) -> None:
        self.rows, self.unit = rows, unit
        self.totals = {label: sum(pieces.values()) for label, pieces in rows.items()}
        self.most = max(self.totals.values(), default=0)
        self.names = list(dict.fromkeys(name for pieces in rows.values() for name in pieces))
        self._peak = peak

    def __repr__(self) -> str:
        return "\n".join(
            f"{label}: {self._total(label)}{_sum(pieces)}" for label, pieces in self.rows.items()
        )

    def _repr_html_(self) -> str:
        body = "".join(
            f'<tr><th scope="row" style="text-align:left;white-space:nowrap">{escape(label)}</th>'
            f'<td style="width:99%;text-align:left">{self._bar(pieces)}</td>'
            f'<td style="white-space:nowrap">{escape(self._total(label))}</td></tr>'
            for label, pieces in self.rows.items()
        )
        return f'<table style="width:100%;max-width:60em">{body}</table>{self._legend()}'

    def _legend(self) -> str:
        """The names that some piece has no room for, each beside its colour."""
        pieces = [piece for row in self.rows.values() for piece in row.items()]
        small = {name for name, size in pieces if size and not self._has_room(name, size)}
        drawn = "".join(
            f'<span style="white-space:nowrap;margin-right:1.2em"><span style="color:'
            f'{self._colour(name)}">&#9632;</span> {escape(name)}</span>'
            for name in self.names
            if name in small
        )
        return drawn and f'<div style="max-width:60em">{drawn}</div>'

    def _total(self, label: str) -> str:
        peak = ", the peak" if self._peak and self.totals[label] == self.most else ""
        return f"{_number(self.totals[label])} {self.unit}{peak}"

    def _bar(self, pieces: Mapping[str, float]) -> str:
        drawn = "".join(self._piece(name, size) for name, size in pieces.items() if size)
        return f'<div style="display:flex;height:1.7em;line-height:1.6em">{drawn}</div>'

    def _piece(self, name: str, size: float) -> str:
        share, colour = size / self.most, self._colour(name)
        words = escape(name) if self._has_room(name, size) else ""
        return (
            f'<span title="{escape(name)}: {_number(size)} {self.unit}" '
            f'style="box-sizing:border-box;'
            f"width:{share:.2%};overflow:hidden;white-space:nowrap;padding:0 {0.3 * bool(words)}em;"
            f'background:{colour}40;border:1px solid {colour}">{words}</span>'
        )

    def _has_room(self, name: str, size: float) -> bool:
        return size / self.most >= LETTER * len(name)

    def _colour(self, name: str) -> str:
        return PALETTE[self.names.index(name) % len(PALETTE)]


def _number(size: float) -> str:
    """Whole numbers to the last digit, smaller ones with four."""
    return f"{size:,.0f}" if size == int(size) or size >= 1000 else f"{size:.4g}"


def _sum(pieces: Mapping[str, float]) -> str:
    words = " + ".join(f"{name} {_number(size)}" for name, size in pieces.items() if name)
    return words and f" = {words}"


def bars(
    rows: Mapping[str, Mapping[str, float] | float],
    unit: str = "bytes",
    peak: bool = False,
) -> Bars:
    """One bar per row, all to one scale; a name has the same colour in every row.

    rows  what stands before a bar -> its pieces by name, or one number
    unit  what the numbers count
    peak  True says "the peak" at the largest row

    Raises   ValueError   a number is below 0
    """
    found = {
        label: dict(pieces) if isinstance(pieces, Mapping) else {"": pieces}
        for label, pieces in rows.items()
    }
    if any(size < 0 for pieces in found.values() for size in pieces.values()):
        raise ValueError("a bar cannot be shorter than nothing")
    return Bars(found, unit, peak)
