"""A ladder: one row per rung, its share of a named peer as a mark on a line, and in words."""

from collections.abc import Mapping
from html import escape

from labkit.widgets.law.axis import Axis
from labkit.widgets.law.law_picture import Point, mark


class LadderPicture:
    """Rungs in percent of the peer, whose 100 % is a line through all rows.

    Half of the peer stands as far from it as its double; where a rung is 0, zero is the left end.

    shares  name of a rung -> its percentage, with the smallest and the largest of all turns
    """

    def __init__(self, shares: Mapping[str, Point], peer: str, unit: str, title: str) -> None:
        self.shares, self.peer, self.unit, self.title = shares, peer, unit, title
        ends = [value for p in shares.values() for value in (p.low, p.high)]
        self._along = Axis(ends, log=min(ends) > 0)

    def _said(self, name: str) -> str:
        share = self.shares[name]
        if name == self.peer:
            return "the peer, 100 %"
        spread = f" ({_percent(share.low)} to {_percent(share.high)})"
        return f"{_percent(share.y)} %{spread if share.low < share.high else ''}"

    def _head(self) -> str:
        unit = f" of {self.unit}" if self.unit else ""
        return "; ".join(filter(None, (self.title, f"percent{unit} beside {self.peer}")))

    def __repr__(self) -> str:
        return "\n".join([self._head(), *(f"{n}: {self._said(n)}" for n in self.shares)])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
            f'<td style="width:60%;overflow:clip;padding:0 8px">{self._drawn(share)}</td>'
            f'<td style="text-align:left;white-space:nowrap">{self._said(name)}</td></tr>'
            for name, share in self.shares.items()
        )
        return (
            '<table class="lab-ladder" style="width:100%;max-width:46em">'
            f'<caption style="text-align:left">{escape(self._head())}</caption>{rows}</table>'
        )

    def _drawn(self, share: Point) -> str:
        low, at, high, peer = (
            f"{100 * self._along(value):.2f}%" for value in (share.low, share.y, share.high, 100)
        )
        line = '<line x1="{}" x2="{}" y1="{}" y2="{}" stroke="currentColor" stroke-opacity="{}"/>'
        return (
            '<svg aria-hidden="true" width="100%" height="20" '
            'style="overflow:visible;display:block">'
            f"{line.format('0', '100%', 10, 10, 0.15)}{line.format(peer, peer, -99, 119, 0.6)}"
            f"{line.format(low, high, 10, 10, 1)}"
            f'<svg x="{at}" y="10" style="overflow:visible">{mark(0)}</svg></svg>'
        )


def _percent(share: float) -> str:
    return f"{share:,.0f}" if share >= 100 else f"{share:.3g}"
