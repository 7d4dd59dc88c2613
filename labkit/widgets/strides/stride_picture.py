"""The picture of a stride view: storages as strips, views as grids with their strides as arrows."""

import math
from typing import Any

from labkit.widgets.base import unpack_columns
from labkit.widgets.picture import ALERT, INK, MUTED, PALETTE, Picture
from labkit.widgets.strides.affine import address, touches

CHARACTER = 7.3  # px a 12 px monospaced character takes
CELL, LINE, LANE = 26, 40, 5  # px: a cell, a cell with its address, a bar per view
ROW, SIDE, HEAD = 30, 34, 62  # px: a row of a grid, room for its numbers, room for its title
NOTE = 24  # px: room for the sentence above it all
MAX_CELLS, PER_LINE, MAX_ROWS, MAX_COLUMNS, MAX_VIEWS = 48, 16, 8, 10, 4


def draw(widget: Any) -> Picture:
    """Draw the state of a StrideView: every storage's first cells and up to four of its views."""
    views = [_edited(widget, place) for place in _shown(widget)]
    column = _text_of(widget)
    labels = [column(place, store["dtype"], cell) for place, store in enumerate(widget.storages)
              for cell in range(min(MAX_CELLS, _cells(store)))]  # fmt: skip
    cell_width = max(34.0, 10 + CHARACTER * min(7, max(map(len, labels), default=1)))
    strips = [_strip_height(widget, place, views) for place in range(len(widget.storages))]
    grids = [_grid_size(view, cell_width) for view in views[:MAX_VIEWS]]
    wide = max(
        [PER_LINE * cell_width, sum(width for width, _ in grids), 420 if grids else 0],
        default=420,
    )
    tall = 12 + sum(strips) + max((height for _, height in grids), default=0)
    heading = _heading(widget)
    if heading:
        wide = max(wide, CHARACTER * len(heading))
        tall += NOTE
    picture = Picture(wide + 24, tall + 8, label=f"{heading} {widget!r}".strip())
    top = 12.0
    if heading:
        picture.text(12, 24, heading, bold=True, mono=False)
        top += NOTE
    for place, height in enumerate(strips):
        _strip(picture, widget, place, views, top, cell_width, column)
        top += height
    left = 12.0
    for view, (width, _) in zip(views[:MAX_VIEWS], grids, strict=True):
        _grid(picture, widget, view, left, top, cell_width, column)
        left += width
    return picture


def _heading(widget: Any) -> str:
    """The sentence above it all: what was found, or which step this is."""
    if widget.note or not widget.steps:
        return str(widget.note)
    step = min(widget.frame, len(widget.steps) - 1)
    return f"step {step + 1} of {len(widget.steps)}: {widget.steps[step]['text']}"


def _shown(widget: Any) -> list[int]:
    step = widget.steps[min(widget.frame, len(widget.steps) - 1)] if widget.steps else {}
    alive = step.get("alive", range(len(widget.views)))
    return [place for place in alive if place not in widget.hidden]


def _edited(widget: Any, place: int) -> dict[str, Any]:
    names = " = ".join(widget.names_of(place))
    view = {**widget.views[place], **widget.edited.get(str(place), {})}
    view |= {"name": names, "place": place}
    unit = widget.storages[view["storage"]]["unit"]
    return view | {"span": view["itemsize"] // unit, "first": view["base"] // unit}


def _cells(store: dict[str, Any]) -> int:
    return int(store["nbytes"]) // int(store["unit"])


def _text_of(widget: Any) -> Any:
    """A function (storage, dtype, element) -> the value's text, "" where it does not travel."""
    numbers = unpack_columns(widget.schema, widget.values)
    written = {
        (name, at): text
        for step in widget.steps[: widget.frame + 1]
        for name, at, text in step.get("writes", [])
    }

    def text(storage: int, dtype: str, element: int) -> str:
        name = f"{storage}:{dtype}"
        if (name, element) in written:
            return str(written[name, element])
        if name in widget.texts and element < len(widget.texts[name]):
            return str(widget.texts[name][element])
        if name in numbers and element < len(numbers[name]):
            return formatted(numbers[name][element].item(), dtype)
        return ""

    return text


def formatted(value: float, dtype: str) -> str:
    """A number as the cells write it: short, with a point where it is a float."""
    if dtype == "bool":
        return "T" if value else "F"
    if dtype.startswith(("int", "uint")):
        return str(int(value))
    if not math.isfinite(value):
        return str(float(value))
    if value == int(value) and abs(value) < 1e5:
        return f"{int(value)}."
    return f"{value:.3g}"


def _strip_height(widget: Any, place: int, views: list[dict[str, Any]]) -> float:
    cells = min(MAX_CELLS, _cells(widget.storages[place]))
    users = len([view for view in views if view["storage"] == place])
    return 26.0 + max(1, math.ceil(cells / PER_LINE)) * (LINE + users * LANE + 6)


def _strip(
    picture: Picture, widget: Any, place: int, views: list[dict[str, Any]], top: float,
    width: float, column: Any,
) -> None:  # fmt: skip
    store, users = widget.storages[place], [view for view in views if view["storage"] == place]
    total = _cells(store)
    more = f", the first {MAX_CELLS} shown" if total > MAX_CELLS else ""
    title = f"storage {store['name']}: {total} {store['dtype']} = {store['nbytes']} bytes{more}"
    picture.text(12, top + 12, title, bold=True, mono=False)
    line = LINE + len(users) * LANE + 6
    used = [_used_cells(view, min(MAX_CELLS, total)) for view in users]
    for cell in range(min(MAX_CELLS, total)):
        x, y = 12 + cell % PER_LINE * width, top + 20 + cell // PER_LINE * line
        picture.rect(x, y, width, CELL, radius=0)
        picture.text(x + width / 2, y + 17, column(place, store["dtype"], cell)[:7],
                     anchor="middle")  # fmt: skip
        picture.text(x + width / 2, y + 36, str(cell), size=9, fill=MUTED, anchor="middle")
        for lane, (view, cells) in enumerate(zip(users, used, strict=True)):
            if cell in cells:
                colour = PALETTE[view["place"] % len(PALETTE)]
                picture.rect(x + 1, y + LINE + lane * LANE, width - 2, LANE - 1, colour, "none")


def _used_cells(view: dict[str, Any], cells: int) -> set[int]:
    """The first `cells` cells that an element of the view lies in."""
    layout = (view["sizes"], view["strides"], view["offset"])
    span, first = view["span"], view["first"]
    return {cell for cell in range(cells) if touches(*layout, (cell - first) // span)}


def _plane(view: dict[str, Any]) -> tuple[int, int]:
    rows, columns = ([1, 1, *view["sizes"]])[-2:]
    return rows, columns


def _grid_size(view: dict[str, Any], cell_width: float) -> tuple[float, float]:
    rows, columns = _plane(view)
    words = 24 + CHARACTER * max(len(line) for line in _title(view))
    return (
        max(words, SIDE + cell_width * min(columns, MAX_COLUMNS) + 34),
        HEAD + ROW * min(rows, MAX_ROWS) + 8,
    )


def _title(view: dict[str, Any]) -> tuple[str, str]:
    where = f"offset {view['offset']}"
    return view["name"], f"sizes {view['sizes']} strides {view['strides']} {where}"


def _grid(
    picture: Picture, widget: Any, view: dict[str, Any], left: float, top: float,
    cell_width: float, column: Any,
) -> None:  # fmt: skip
    colour = PALETTE[view["place"] % len(PALETTE)]
    name, metadata = _title(view)
    picture.rect(left, top + 6, 10, 10, colour, "none")
    picture.text(left + 16, top + 15, name, bold=True)
    picture.text(left, top + 32, metadata, fill=MUTED)
    rows, columns = _plane(view)
    if rows * columns == 0 or math.prod(view["sizes"]) == 0:
        picture.text(left, top + HEAD, "no elements", fill=MUTED)
        return
    down, across = ([0, 0, *view["strides"]])[-2:]
    corner = address([0] * len(view["sizes"]), view["strides"], view["offset"])
    store = widget.storages[view["storage"]]
    room = (_cells(store) - view["first"]) // view["span"]
    lowest = -(view["first"] // view["span"])
    x0, y0 = left + SIDE, top + HEAD
    if len(view["sizes"]) > 0 and columns > 1:
        picture.text(x0 + 4, y0 - 8, f"{across:+}", size=10, fill=MUTED)
        picture.line([(x0 + 30, y0 - 11), (x0 + 30 + cell_width, y0 - 11)], arrow=True)
    if len(view["sizes"]) > 1 and rows > 1:
        picture.text(x0 - 6, y0 + 12, f"{down:+}", size=10, fill=MUTED, anchor="end")
        picture.line([(x0 - 12, y0 + 18), (x0 - 12, y0 + 18 + ROW)], arrow=True)
    for row in range(min(rows, MAX_ROWS)):
        for place in range(min(columns, MAX_COLUMNS)):
            at = corner + row * down + place * across
            x, y = x0 + place * cell_width, y0 + row * ROW
            inside = lowest <= at < room
            again = (down == 0 and row > 0) or (across == 0 and place > 0)
            picture.rect(x, y, cell_width, ROW, radius=0)
            fill = "url(#hatch)" if not inside else "none" if again else colour
            picture.rect(x, y, cell_width, ROW, fill, "none", opacity=1 if not inside else 0.2)
            base = view["base"] // view["itemsize"]
            whole = view["base"] % view["itemsize"] == 0
            value = column(view["storage"], view["dtype"], base + at) if inside and whole else ""
            picture.text(x + cell_width / 2, y + 13, value[:7], anchor="middle",
                         fill=MUTED if again else INK)  # fmt: skip
            picture.text(x + cell_width / 2, y + (25 if value else 18), f"@{at}", size=9,
                         fill=MUTED if inside else ALERT, anchor="middle")  # fmt: skip
    for mark in widget.marks:
        if mark["view"] == view["place"]:
            _judgement(picture, mark, view, (x0, y0), cell_width)
    if rows > MAX_ROWS or columns > MAX_COLUMNS:
        picture.text(x0 + cell_width * min(columns, MAX_COLUMNS) + 4,
                     y0 + ROW * min(rows, MAX_ROWS) - 6, "…")  # fmt: skip


def _judgement(
    picture: Picture, mark: dict[str, Any], view: dict[str, Any], corner: tuple[float, float],
    cell_width: float,
) -> None:  # fmt: skip
    """The element's cell in a thick frame, with ✓ or ✗ in it, where the grid shows it."""
    index = [0, 0, *mark["index"]]
    row, place = index[-2:]
    if any(index[:-2]) or row >= MAX_ROWS or place >= MAX_COLUMNS:
        return
    x, y = corner[0] + place * cell_width, corner[1] + row * ROW
    colour = PALETTE[0] if mark["right"] else ALERT
    picture.rect(x, y, cell_width, ROW, "none", colour, stroke_width=2.5, radius=0)
    picture.text(x + 3, y + 11, "✓" if mark["right"] else "✗", 11, colour, bold=True)
