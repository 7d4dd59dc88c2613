"""Shapes aligned from the right, one dimension per step, to the result or to what fails."""

from typing import Any

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.picture import ALERT, INK, MUTED, PALETTE, Picture

CHARACTER, ROW = 7.3, 28


class BroadcastView(LabWidget):
    """Draws operands right-aligned, then each one as the result sees it, stride 0 marked.

    operands  [{name, sizes, strides, expanded}]: elements; `expanded` are the strides at the
              result's shape, None when the shapes do not broadcast
    sizes     the result's sizes, None on failure
    strides   the result's strides, None where there is no result tensor
    steps     [{dim, size, verdict, text}]: dim counts from the right (-1 first); verdict is
              start, equal, stretch, clash or done
    message   what PyTorch raises on failure
    sizes_only   no strides, and no grids of what is read
    index     the element looked at: set here or in the browser
    """

    operands = traitlets.List(traitlets.Dict()).tag(sync=True)
    sizes = traitlets.List(traitlets.Int(), allow_none=True, default_value=None).tag(sync=True)
    strides = traitlets.List(traitlets.Int(), allow_none=True, default_value=None).tag(sync=True)
    steps = traitlets.List(traitlets.Dict()).tag(sync=True)
    message = traitlets.Unicode().tag(sync=True)
    sizes_only = traitlets.Bool(False).tag(sync=True)
    index = traitlets.List(traitlets.Int()).tag(sync=True)

    def summary(self) -> str:
        said = " with ".join(f"{one['name']} {one['sizes']}" for one in self.operands)
        if self.sizes is None:
            return f"{said}: fails at dim {self.steps[-1]['dim']}"
        return f"{said} gives {self.sizes}"

    def step_texts(self) -> list[str]:
        return [step["text"] for step in self.steps]

    def svg(self) -> str:
        rank = max([len(one["sizes"]) for one in self.operands] + [len(self.sizes or [])])
        names = [one["name"] for one in self.operands]
        side = 30 + CHARACTER * max(len(name) for name in [*names, "result"])
        width = max(44.0, 16 + CHARACTER * max(len(str(n)) for n in self._numbers()))
        last = self.steps[-1]["text"]
        notes = 26 + CHARACTER * max(len("strides []") + 4 * rank, 10)
        wide = max(side + rank * width + notes, 24 + CHARACTER * len(last))
        picture = Picture(wide, 60 + ROW * (len(names) + 1), label=repr(self))
        for back in range(rank):
            x = side + (rank - 1 - back) * width
            picture.text(x + width / 2, 20, str(-1 - back), size=10, fill=MUTED, anchor="middle")
        clash = -self.steps[-1]["dim"] if self.sizes is None else 0
        for row, one in enumerate(self.operands):
            y = 28 + row * ROW
            picture.text(12, y + 18, one["name"], bold=True, fill=PALETTE[row % len(PALETTE)])
            for back in range(1, rank + 1):
                x = side + (rank - back) * width
                have = back <= len(one["sizes"])
                zero = one["expanded"] is not None and one["expanded"][-back] == 0
                picture.rect(x, y, width, ROW - 4, fill="url(#hatch)" if back == clash else "#fff",
                             stroke=MUTED if have else "none")  # fmt: skip
                text = str(one["sizes"][-back]) if have else "·"
                picture.text(x + width / 2, y + 17, text, anchor="middle",
                             fill=MUTED if zero or not have else INK)  # fmt: skip
            if one["expanded"] is not None and not self.sizes_only:
                picture.text(side + rank * width + 10, y + 17, f"strides {one['expanded']}",
                             size=11, fill=MUTED)  # fmt: skip
        y = 28 + len(names) * ROW
        picture.text(12, y + 18, "result", bold=True)
        for back in range(1, rank + 1):
            if self.sizes is not None:
                x = side + (rank - back) * width
                picture.rect(x, y, width, ROW - 4, stroke=INK)
                picture.text(x + width / 2, y + 17, str(self.sizes[-back]), anchor="middle")
        picture.text(12, y + ROW + 18, last, size=11, fill=INK if self.sizes is not None else ALERT)
        return picture.svg()

    def _numbers(self) -> list[Any]:
        sizes = [size for one in self.operands for size in one["sizes"]]
        return [*sizes, *(self.sizes or []), 0]
