"""A table of answers: each row begins with a sign for right, wrong or missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

SIGNS = {"done": "✓", "wrong": "✗", "missing": "·"}
COLOURS = {"done": "#009E73", "wrong": "#D55E00", "missing": "#777777"}
STYLE = 'style="text-align:left;vertical-align:top"'


@dataclass(frozen=True)
class Rows:
    """What is shown: in a notebook as a table, elsewhere as lines.

    heads  of the columns behind the sign
    rows   state ("done", "wrong" or "missing") first, then one text for each column
    """

    caption: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def __repr__(self) -> str:
        lines = [self.caption, f"    {' | '.join(self.heads)}"]
        return "\n".join(
            [*lines, *(f"  {SIGNS[s]} {' | '.join(cells)}" for s, *cells in self.rows)]
        )

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" {STYLE}>{escape(text)}</th>' for text in ("", *self.heads))
        body = "".join(map(self._row, self.rows))
        return (
            f"<table><caption style='text-align:left'>{escape(self.caption)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    @staticmethod
    def _row(row: tuple[str, ...]) -> str:
        state, name, *cells = row
        sign = f'<b style="color:{COLOURS[state]}" aria-label="{state}">{SIGNS[state]}</b>'
        rest = "".join(f"<td {STYLE}>{escape(text)}</td>" for text in cells)
        return f'<tr><td {STYLE}>{sign}</td><th scope="row" {STYLE}>{escape(name)}</th>{rest}</tr>'
