"""Two-dimensional grids as values: picked cells of an index, coverage, error heat, classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

from labkit.widgets.base import LabWidget, pack_columns
from labkit.widgets.picture import INK, LINE, MUTED, PALETTE, PAPER, Picture

Layer = Mapping[str, Any]
Frame = Mapping[str, Any]
CELL, GAP, HEADER = 34, 28, 54
PICTURE_CELLS = 24
STATUSES = (
    ("right", "✓", PALETTE[2]), ("wrong", "✗", PALETTE[5]), ("missing", "○", "#57606a"),
    ("twice", "2x", PALETTE[1]),
)  # fmt: skip
"""How a cell was covered: the word, its sign, its colour."""


class TileView(LabWidget):
    """Draws grids side by side, with marked cells and boxes, one step at a time.

    layers  mappings with `name`, `values` (rows x cols array of numbers or of short strings), and
            optionally `heat` (True colours cells by value), `unit`, `owners` (rows x cols integers:
            which thread or index a cell belongs to), `status` (rows x cols of "right", "wrong",
            "missing", "twice" or "": how the cell was covered, in colour, hatching and a sign)
    frames  mappings with `text`, `show` (names of the layers in this step; all by default),
            `marks` ({layer name: [(row, col, label), ...]}, label a short string or "") and `boxes`
            ({layer name: [(top, left, bottom, right, label), ...]}, bottom and right exclusive)

    Raises   ValueError   values that are not two-dimensional, a status that is none or of another
                          shape, a mark or box outside its layer, or a step that names a layer that
                          does not exist
    """

    title = traitlets.Unicode("").tag(sync=True)
    layers: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    schema = traitlets.Dict().tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)
    frames: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    statuses: traitlets.List[Any] = traitlets.List().tag(sync=True)
    threshold = traitlets.Float(allow_none=True, default_value=None).tag(sync=True)
    cell: traitlets.List[Any] = traitlets.List(help="[layer, row, col] under the cursor").tag(
        sync=True
    )

    def __init__(
        self, layers: Sequence[Layer], frames: Sequence[Frame] = (), title: str = "", **kwargs: Any
    ) -> None:
        described, columns = [], {}
        for index, layer in enumerate(layers):
            values = np.asarray(layer["values"])
            if values.ndim != 2:
                raise ValueError(
                    f"layer {layer['name']!r} has shape {values.shape}, not rows x cols"
                )
            numeric = values.dtype.kind in "biuf"
            if numeric:
                columns[f"values{index}"] = values.ravel()
            if "owners" in layer:
                columns[f"owners{index}"] = np.asarray(layer["owners"]).ravel()
            if "status" in layer:
                columns[f"status{index}"] = _status(layer, values.shape)
            described.append(
                {
                    "name": str(layer["name"]),
                    "rows": values.shape[0],
                    "cols": values.shape[1],
                    "texts": [] if numeric else [str(value) for value in values.ravel()],
                    "whole": values.dtype.kind in "biu",
                    "heat": bool(layer.get("heat", False)),
                    "unit": layer.get("unit", ""),
                    "owners": "owners" in layer,
                    "status": "status" in layer,
                }
            )
        schema, data = pack_columns(columns)
        self._values = [np.asarray(layer["values"]) for layer in layers]
        self._status = [
            np.asarray(layer["status"]) if "status" in layer else None for layer in layers
        ]
        sizes = {layer["name"]: (layer["rows"], layer["cols"]) for layer in described}
        super().__init__(
            layers=described,
            schema=schema,
            data=data,
            frames=[_checked_frame(frame, sizes) for frame in frames or [{}]],
            statuses=[list(one) for one in STATUSES],
            title=title,
            **kwargs,
        )

    def step_texts(self) -> list[str]:
        return [frame["text"] for frame in self.frames]

    def counts(self, layer: int) -> str:
        """How many cells have each status, in words; empty where a layer has none."""
        status = self._status[layer]
        if status is None:
            return ""
        each = {name: int((status == name).sum()) for name, *_ in STATUSES}
        return ", ".join(f"{count} {name}" for name, count in each.items() if count)

    def summary(self) -> str:
        """Name and size of each layer."""
        sizes = ", ".join(
            f"{layer['name']} {layer['rows']}x{layer['cols']}"
            + (f" ({said})" if (said := self.counts(place)) else "")
            for place, layer in enumerate(self.layers)
        )
        return f"{sizes}; {len(self.frames)} steps" if len(self.frames) > 1 else sizes

    def svg(self) -> str:
        """The current step; of large grids the first rows and columns."""
        frame = self.frames[min(self.frame, len(self.frames) - 1)]
        shown = [i for i, layer in enumerate(self.layers) if layer["name"] in frame["show"]]
        rows = [min(self.layers[i]["rows"], PICTURE_CELLS) for i in shown]
        cols = [min(self.layers[i]["cols"], PICTURE_CELLS) for i in shown]
        width = 32 + sum(max(c * CELL, 90) + GAP for c in cols)
        picture = Picture(max(width, 300), HEADER + 40 + max(rows, default=0) * CELL, repr(self))
        picture.text(16, 22, self.title or repr(self), bold=True, mono=False)
        picture.text(16, 40, frame["text"], fill=MUTED, mono=False)
        left = 24.0
        for i, row_count, col_count in zip(shown, rows, cols, strict=True):
            layer = self.layers[i]
            more = (
                "" if (row_count, col_count) == (layer["rows"], layer["cols"]) else ", first part"
            )
            picture.text(
                left, HEADER + 12, f"{layer['name']} {layer['rows']}x{layer['cols']}{more}", 11
            )
            marked = {
                (row, col): label for row, col, label in frame["marks"].get(layer["name"], [])
            }
            for row in range(row_count):
                for col in range(col_count):
                    x, y = left + col * CELL, HEADER + 20 + row * CELL
                    on = (row, col) in marked
                    picture.rect(x, y, CELL, CELL, fill=PALETTE[4] if on else PAPER,
                                 stroke=INK if on else LINE, opacity=0.55 if on else 1)  # fmt: skip
                    self._draw_status(picture, i, row, col, x, y)
                    text = _cell_text(self._values[i][row, col])
                    picture.text(x + CELL / 2, y + 21, text[:6], 10, INK, "middle")
                    if marked.get((row, col)):
                        picture.text(x + CELL - 3, y + 9, marked[row, col][:4], 8, MUTED, "end")
            for top, box_left, bottom, right, label in frame["boxes"].get(layer["name"], []):
                if bottom <= row_count and right <= col_count:
                    picture.rect(left + box_left * CELL, HEADER + 20 + top * CELL,
                                 (right - box_left) * CELL, (bottom - top) * CELL, fill="none",
                                 stroke=PALETTE[0], stroke_width=2.5)  # fmt: skip
                    picture.text(left + box_left * CELL + 2, HEADER + 18 + top * CELL, label, 9)
            left += max(col_count * CELL, 90) + GAP
        return picture.svg()

    def _draw_status(
        self, picture: Picture, layer: int, row: int, col: int, x: float, y: float
    ) -> None:
        """The cell's ground and sign."""
        status = self._status[layer]
        found = next((one for one in STATUSES if status is not None and one[0] == status[row, col]),
                     None)  # fmt: skip
        if found is None:
            return
        name, sign, colour = found
        picture.rect(x, y, CELL, CELL, colour, LINE, opacity=0.45 if name != "missing" else 0.12)
        if name == "wrong":
            picture.rect(x, y, CELL, CELL, "url(#hatch)", LINE, opacity=0.5)
        picture.text(x + 3, y + 11, sign, 10, INK, bold=True)


def _status(layer: Layer, shape: tuple[int, ...]) -> Any:
    """The layer's statuses as numbers: their place in STATUSES from 1, 0 for none."""
    words = np.asarray(layer["status"])
    names = ["", *(name for name, *_ in STATUSES)]
    if words.shape != shape:
        raise ValueError(f"layer {layer['name']!r} is {shape}, its status {words.shape}")
    unknown = set(words.ravel().tolist()) - set(names)
    if unknown:
        raise ValueError(f"status {unknown.pop()!r} is not one of {', '.join(names[1:])}")
    return np.array([names.index(word) for word in words.ravel()], np.uint8)


def _cell_text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def _checked_frame(frame: Frame, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    shown = list(frame.get("show", sizes))
    marks, boxes = frame.get("marks", {}), frame.get("boxes", {})
    for name in (*shown, *marks, *boxes):
        if name not in sizes:
            raise ValueError(f"a step names layer {name!r}; there are {', '.join(sizes)}")
    for name, cells in marks.items():
        for row, col, _ in cells:
            if not (0 <= row < sizes[name][0] and 0 <= col < sizes[name][1]):
                raise ValueError(f"mark ({row}, {col}) lies outside {name!r} of size {sizes[name]}")
    for name, rectangles in boxes.items():
        for top, left, bottom, right, _ in rectangles:
            if not (0 <= top <= bottom <= sizes[name][0] and 0 <= left <= right <= sizes[name][1]):
                raise ValueError(
                    f"box ({top}, {left}, {bottom}, {right}) lies outside {name!r} of size"
                    f" {sizes[name]}"
                )
    return {
        "text": frame.get("text", ""),
        "show": shown,
        "marks": {name: [[int(r), int(c), str(label)] for r, c, label in cells]
                  for name, cells in marks.items()},
        "boxes": {name: [[*map(int, box[:4]), str(box[4])] for box in rectangles]
                  for name, rectangles in boxes.items()},
    }  # fmt: skip
