"""Several texts side by side with linked lines, marks on lines, and a walk through them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.picture import ALERT, INK, MUTED, PALETTE, Picture

SEVERITIES = ("note", "warning", "error")
PICTURE_LINES = 28


class CodeView(LabWidget):
    """Shows panes of text whose lines point at each other, and walks stations through them.

    panes     mappings with `title` and `text` (or `lines`), optionally `language` (python, cpp, c,
              cuda, ptx, sass or text) and `first_line` (the number of the first line, default 1)
    links     groups of lines that belong together: each a list of (pane, first, last)
    marks     mappings with `pane`, `line`, `severity` (note, warning, error) and `text`
    stations  mappings with `pane`, `lines` (first, last) and `text`: the walk, one per step
    Line numbers everywhere are those shown; last is inclusive.

    Raises   ValueError   a link, mark or station names a pane or line that is not shown, or an
                          unknown severity
    """

    parts: ClassVar[tuple[str, ...]] = ("code/code_colours.js",)

    title = traitlets.Unicode("").tag(sync=True)
    panes: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    links: traitlets.List[Any] = traitlets.List().tag(sync=True)
    marks: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    stations: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)

    def __init__(
        self,
        panes: Sequence[Mapping[str, Any]],
        links: Sequence[Sequence[tuple[int, int, int]]] = (),
        marks: Sequence[Mapping[str, Any]] = (),
        stations: Sequence[Mapping[str, Any]] = (),
        title: str = "",
        **kwargs: Any,
    ) -> None:
        shown = [_pane(pane) for pane in panes]
        for group in links:
            for pane, first, last in group:
                _check_lines(shown, pane, first, last)
        for mark in marks:
            _check_lines(shown, mark["pane"], mark["line"], mark["line"])
            if mark["severity"] not in SEVERITIES:
                raise ValueError(f"severity {mark['severity']!r} is not one of {SEVERITIES}")
        for station in stations:
            _check_lines(shown, station["pane"], *station["lines"])
        super().__init__(
            title=title,
            panes=shown,
            links=[[list(place) for place in group] for group in links],
            marks=[dict(mark) for mark in marks],
            stations=[
                station | {"lines": list(station["lines"])} for station in map(dict, stations)
            ],
            **kwargs,
        )

    def step_texts(self) -> list[str]:
        return [station["text"] for station in self.stations]

    def summary(self) -> str:
        """The panes' titles, and the number of stations."""
        titles = ", ".join(pane["title"] for pane in self.panes)
        return f"{titles}; {len(self.stations)} stations" if self.stations else titles

    def svg(self) -> str:
        """The current station's pane around its lines, else the top of the first pane."""
        station = self.stations[min(self.frame, len(self.stations) - 1)] if self.stations else None
        index = station["pane"] if station else 0
        pane = self.panes[index] if self.panes else _pane({"title": "", "text": ""})
        low, high = station["lines"] if station else (0, -1)
        start = max(0, low - pane["first_line"] - 3) if station else 0
        lines = pane["lines"][start : start + PICTURE_LINES]
        width = 60 + 7.3 * max([len(line) for line in lines] + [len(pane["title"]), 40])
        picture = Picture(min(width, 900), 52 + 17 * len(lines), repr(self))
        picture.text(12, 20, pane["title"], bold=True)
        if station:
            picture.text(12, 36, station["text"][:110], 11, MUTED, mono=False)
        marked = {mark["line"]: mark for mark in self.marks if mark["pane"] == index}
        for row, line in enumerate(lines):
            number, y = pane["first_line"] + start + row, 54 + 17 * row
            if low <= number <= high:
                picture.rect(6, y - 12, min(width, 900) - 12, 17, fill=PALETTE[4], stroke="none",
                             opacity=0.35)  # fmt: skip
            colour = ALERT if number in marked else MUTED
            picture.text(40, y, str(number), 11, colour, "end")
            picture.text(50, y, line.expandtabs(4)[:115], 11, INK)
        return picture.svg()


def _pane(pane: Mapping[str, Any]) -> dict[str, Any]:
    lines = list(pane["lines"]) if "lines" in pane else pane["text"].rstrip("\n").split("\n")
    return {
        "title": pane["title"],
        "language": pane.get("language", "text"),
        "first_line": pane.get("first_line", 1),
        "lines": lines,
    }


def _check_lines(panes: Sequence[Mapping[str, Any]], pane: int, first: int, last: int) -> None:
    if not 0 <= pane < len(panes):
        raise ValueError(f"pane {pane} does not exist; there are {len(panes)}")
    low = panes[pane]["first_line"]
    high = low + len(panes[pane]["lines"]) - 1
    if not low <= first <= last <= high:
        raise ValueError(
            f"lines {first} to {last} are not in pane {panes[pane]['title']!r} ({low}..{high})"
        )
