"""A traced CUDA kernel: lines with their counters, each request of a warp, races played back."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import traitlets

from labkit.widgets.base import LabWidget, pack_columns
from labkit.widgets.cuda.kernel_picture import (
    COUNTERS,
    kernel_picture,
    places_of,
    ratio,
    worst_place,
)

PAGES = ("requests", "findings", "what if")
PHASE_BYTES = 128
"""Sectors, banks and 128-byte lines all repeat within this: an array's start matters modulo it."""

Data = Mapping[str, Any]


class KernelView(LabWidget):
    """Steps through the requests of traced launches, lane by lane, and through their races.

    runs     one mapping per launch, drawn one at a time and compared in a table: `kernel`, `file`,
             `grid`, `block`, `source` (lines of text), `efficiency` (0 to 1), `blocks_traced`,
             `truncated`, `lines`, `accesses`, `requests`, `findings`, `plays`
      lines      {line, runs, efficiency}: how many of 32 lanes did the line's work, 0 to 1
      accesses   {file, line, space, access, array, size, requests, lanes, sectors, ideal_sectors,
                 wavefronts, ideal_wavefronts}
      requests   {access (index), block, warp, mask, start, addresses}: as the launch made them
      findings   {kind, file, line, other_line, message, count}
      plays      {finding (index or -1), title, result, words, steps}: a schedule that goes wrong;
                 steps are {word (index), line, access, block, thread, before, after, stale}
    simple   the source and the race played back alone: no counters, requests or lists
    what_if  the address `(offset + lane * stride) * size` in "global" or "shared" memory

    Raises   ValueError   no run, a request of no access, or lines that the source does not have
    """

    parts: ClassVar[tuple[str, ...]] = (
        "code/code_colours.js",
        "cuda/kernel_memory.js",
        "cuda/kernel_drawing.js",
        "cuda/kernel_source.js",
        "cuda/kernel_requests.js",
        "cuda/kernel_race.js",
        "cuda/kernel_what_if.js",
    )

    title = traitlets.Unicode("").tag(sync=True)
    runs: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    schema = traitlets.Dict().tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)
    run = traitlets.Int(0, help="index of the launch shown").tag(sync=True)
    place = traitlets.Int(-1, help="index in `places` of the line stepped, -1: all").tag(sync=True)
    warp = traitlets.Unicode("", help="the warp stepped, as 'x,y,z/warp'; '': all").tag(sync=True)
    lane = traitlets.Int(0, help="the lane read out").tag(sync=True)
    page = traitlets.Enum(PAGES, "requests").tag(sync=True)
    finding = traitlets.Int(0, help="index of the finding shown").tag(sync=True)
    step = traitlets.Int(0, help="step of the race played back").tag(sync=True)
    word = traitlets.Int(-1, help="index of the word followed in a race, -1: all").tag(sync=True)
    simple = traitlets.Bool(False, help="source and race alone").tag(sync=True)
    what_if = traitlets.Dict({"space": "global", "size": 4, "stride": 1, "offset": 0}).tag(
        sync=True
    )

    def __init__(self, runs: Sequence[Data], title: str = "", **kwargs: Any) -> None:
        if not runs:
            raise ValueError("a kernel view shows at least one traced launch")
        columns: dict[str, Any] = {}
        for index, run in enumerate(runs):
            _check(run)
            columns |= {f"{index}.{name}": values for name, values in _columns(run).items()}
        schema, data = pack_columns(columns)
        shown = runs[kwargs.get("run", 0)]
        worst = worst_place(shown)
        play = next((play for play in shown["plays"] if play["finding"] >= 0), None)
        start: dict[str, Any] = {
            "page": "findings" if shown["findings"] or shown["plays"] else "requests",
            "finding": play["finding"] if play else 0,
            "word": play["follow"] if play else -1,
            "place": -1 if worst is None else worst[0],
            "frame": 0 if worst is None else worst[1],
        }
        super().__init__(
            title=title,
            runs=[_drawn(run) for run in runs],
            schema=schema,
            data=data,
            **start | kwargs,
        )
        self._given = list(runs)

    def step_texts(self) -> list[str]:
        """One per request: its line, what it does, and whose it is."""
        run = self._given[self.run]
        texts = []
        for one in run["requests"]:
            access, block = run["accesses"][one["access"]], ", ".join(map(str, one["block"]))
            what = f"{access['access']} {access['array']}"
            texts.append(f"line {access['line']}: {what}, block ({block}), warp {one['warp']}")
        return texts

    def open_at(self, step: int | str | None) -> Self:
        super().open_at(step)
        if step is not None:
            request = self._given[self.run]["requests"][self.frame]
            self.place = self.runs[self.run]["accesses"][request["access"]]["place"]
            self.page = "requests"
        return self

    def summary(self) -> str:
        """The kernel, its two ratios and the number of findings."""
        return "; ".join(_said(run) for run in self.runs)

    def svg(self) -> str:
        """The lines with their counters, and the request shown."""
        return kernel_picture(self._given[self.run], self.frame, self.title, repr(self))


def _check(run: Data) -> None:
    last = len(run["source"])
    for one in (*run["lines"], *run["findings"]):
        if one.get("file", run["file"]) == run["file"] and not 0 <= one["line"] <= last:
            raise ValueError(f"{run['file']} has {last} lines; there is no line {one['line']}")
    for request in run["requests"]:
        if not 0 <= request["access"] < len(run["accesses"]):
            raise ValueError(
                f"a request names access {request['access']}; there are {len(run['accesses'])}"
            )


def _columns(run: Data) -> dict[str, Any]:
    requests = run["requests"]
    starts = np.array([one["start"] for one in requests], dtype=np.int64)
    addresses = np.array([one["addresses"] for one in requests], dtype=np.int64).reshape(-1, 32)
    masks = np.array([one["mask"] for one in requests], dtype=np.uint32)
    taking = (masks[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    blocks = np.array([one["block"] for one in requests], dtype=np.int64).reshape(-1, 3)
    return {
        "access": np.array([one["access"] for one in requests], dtype=np.int64),
        "block": blocks.ravel(),
        "warp": np.array([one["warp"] for one in requests], dtype=np.int64),
        "mask": masks,
        "phase": starts % PHASE_BYTES,
        "offset": np.where(taking == 1, addresses - starts[:, None], 0).ravel(),
    }


def _drawn(run: Data) -> dict[str, Any]:
    """The run without its requests, which travel as columns."""
    plain = {name: value for name, value in run.items() if name != "requests"}
    places = places_of(run["accesses"])
    return plain | {
        "source": list(run["source"]),
        "places": [list(place) for place in places],
        "accesses": [
            one | {"place": places.index((one["file"], one["line"]))}
            for one in map(dict, run["accesses"])
        ],
    }


def _said(run: Data) -> str:
    parts = []
    for counter, ideal in COUNTERS:
        share = ratio(run["accesses"], counter, ideal)
        if share is not None:
            parts.append(f"{share:.2f}x the ideal {counter}")
    findings = len(run["findings"])
    parts.append(f"{findings} finding{'' if findings == 1 else 's'}")
    return f"{run['kernel']}: {', '.join(parts)}"
