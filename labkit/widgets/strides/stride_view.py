"""Views over storages: cells, sizes, strides, offset, and the sum that gives each address."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.strides.affine import address
from labkit.widgets.strides.stride_picture import draw

Layout = tuple[tuple[int, ...], tuple[int, ...], int]
"""Sizes, strides and storage offset, in elements."""


class StrideView(LabWidget):
    """Draws storages as strips of addressed cells and each view as a grid over one of them.

    storages  [{name, nbytes, unit, dtype}]: `unit` bytes per cell, drawn as `dtype`;
              optional use_count, note
    views     [{name, storage, dtype, itemsize, sizes, strides, offset}]: `storage` is a place in
              `storages`; optional base (bytes of that storage before its element 0), version,
              names (all of them, where one tensor has several)
    schema, values   numbers by "storage:dtype", as `pack_columns` packs them (may be empty)
    texts     the same as lists of text, for what is no real number
    steps     [{text}]: a walk, forward and back; optional alive (the views that exist), writes
              ([["storage:dtype", element, text]]), use_counts, versions and names (by place),
              select
    marks     [{view, index, right}]: an element outlined as right or as wrong
    note      a sentence above it all
    simple    strip and grids alone: no sizes, counts or editors

    Python reads, and may set: selected {view, index}, edited {view: {sizes, strides, offset}},
    hidden [view], axes {view: [down, across]}, frame.
    """

    parts: ClassVar[tuple[str, ...]] = (
        "strides/affine.js", "pens.js", "strides/stride_scene.js", "strides/stride_strip.js",
        "strides/stride_grid.js", "strides/stride_words.js", "strides/stride_controls.js",
    )  # fmt: skip

    storages = traitlets.List(traitlets.Dict()).tag(sync=True)
    views = traitlets.List(traitlets.Dict()).tag(sync=True)
    schema = traitlets.Dict().tag(sync=True)
    values = traitlets.Bytes(b"").tag(sync=True)
    texts = traitlets.Dict().tag(sync=True)
    steps = traitlets.List(traitlets.Dict()).tag(sync=True)
    marks = traitlets.List(traitlets.Dict()).tag(sync=True)
    note = traitlets.Unicode("").tag(sync=True)
    simple = traitlets.Bool(False, help="strip and grids alone").tag(sync=True)
    linked = traitlets.Bool(False, help="one index lights every view of those sizes").tag(sync=True)
    selected = traitlets.Dict({"view": 0, "index": []}).tag(sync=True)
    edited = traitlets.Dict().tag(sync=True)
    hidden = traitlets.List(traitlets.Int()).tag(sync=True)
    axes = traitlets.Dict().tag(sync=True)

    def __init__(self, **state: Any) -> None:
        views = state.get("views", [])
        if "selected" not in state and views:
            state["selected"] = {"view": 0, "index": [0] * len(views[0]["sizes"])}
        super().__init__(**state)

    @traitlets.validate("views")
    def _check_views(self, proposal: Any) -> list[dict[str, Any]]:
        views = [{"base": 0, **view} for view in proposal["value"]]
        for view in views:
            if len(view["sizes"]) != len(view["strides"]):
                raise ValueError(
                    f"view {view['name']!r}: {len(view['sizes'])} sizes {view['sizes']} but "
                    f"{len(view['strides'])} strides {view['strides']}"
                )
        return views

    def layout_of(self, view: int | str | None = None) -> Layout:
        """Sizes, strides and offset as they stand now, edits included.

        view  its place, its name, or None for the selected one:
              torch.as_strided(x, *widget.layout_of())

        Raises   KeyError   no such view
        """
        place = self._place(view)
        now = self.views[place] | self.edited.get(str(place), {})
        return tuple(now["sizes"]), tuple(now["strides"]), now["offset"]

    def edit(
        self, view: int | str, sizes: Sequence[int], strides: Sequence[int], offset: int = 0
    ) -> None:
        """Show a view with another layout, as its sliders would.

        Raises   KeyError     no such view
                 ValueError   sizes and strides differ in length, or a size is negative
        """
        if len(sizes) != len(strides):
            raise ValueError(f"{len(sizes)} sizes {sizes} but {len(strides)} strides {strides}")
        if any(size < 0 for size in sizes):
            raise ValueError(f"sizes must be 0 or more, got {tuple(sizes)}")
        layout = {"sizes": list(sizes), "strides": list(strides), "offset": offset}
        self.edited = {**self.edited, str(self._place(view)): layout}

    @property
    def selected_address(self) -> int:
        """Elements from the start of the storage to the selected element."""
        _, strides, offset = self.layout_of()
        index: Sequence[int] = self.selected["index"]  # type: ignore[assignment]
        return address(index, strides, offset)

    def _place(self, view: int | str | None) -> int:
        names = {name: place for place in range(len(self.views)) for name in self.names_of(place)}
        place = self.selected["view"] if view is None else view
        if isinstance(place, str):
            place = names.get(place, place)
        if not isinstance(place, int) or not 0 <= place < len(self.views):
            raise KeyError(f"no view {view!r}; there are {list(names)}")
        return place

    def names_of(self, place: int) -> list[str]:
        """What a view is called at the step shown: several names where they are one tensor's."""
        step = self.steps[min(self.frame, len(self.steps) - 1)] if self.steps else {}
        view = self.views[place]
        names: list[str] = step.get("names", {}).get(str(place), view.get("names", [view["name"]]))
        return names

    def step_texts(self) -> list[str]:
        return [step["text"] for step in self.steps]

    def open_at(self, step: int | str | None) -> Self:
        super().open_at(step)
        if step is not None and "select" in self.steps[self.frame]:
            self.selected = self.steps[self.frame]["select"]
        return self

    def summary(self) -> str:
        said = [
            f"{' = '.join(self.names_of(place))} {view['sizes']} strides {view['strides']} "
            f"offset {view['offset']} on {self.storages[view['storage']]['name']}"
            for place, view in enumerate(self.views[:3])
        ]
        if len(self.views) > 3:
            said.append(f"{len(self.views) - 3} more")
        stores = [f"{store['name']}: {store['nbytes']} bytes" for store in self.storages]
        steps = [f"{len(self.steps)} steps"] if self.steps else []
        return "; ".join([*said, *stores, *steps])

    def svg(self) -> str:
        return draw(self).svg()
