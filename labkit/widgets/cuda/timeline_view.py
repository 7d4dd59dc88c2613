"""Lanes of spans: host threads, streams, copy engines, stages; arrows, races, queue lengths."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from labkit.widgets.base import LabWidget
from labkit.widgets.picture import ALERT, INK, LINE, MUTED, PALETTE, Picture

UNITS = ("steps", "ms", "us", "s")
KINDS = ("host", "copy", "kernel", "input", "wait")
"""What most spans are: each has the same colour in every picture."""
LANE_HEIGHT, LABEL_WIDTH, PICTURE_WIDTH = 34, 120, 860


class TimelineView(LabWidget):
    """Draws spans in lanes against one axis, and what orders them.

    lanes   names, from top to bottom
    spans   mappings with `lane` (index), `start`, `end`, `name`, and optionally `kind` (gives the
            colour), `reads` and `writes` (lists of buffer names)
    edges   mappings with `source`, `target` (indices into spans) and optionally `kind`
            ("event", "queue", ...): target starts only after source has ended
    races   mappings with `spans` (a pair of indices) and `text`
    frames  steps, each a mapping with `text` and `time`: what has happened up to that time
    unit    "steps" (the emulator has no other clock), "ms", "us" or "s"

    Raises   ValueError   a span ends before it starts or lies in no lane, an edge or race names a
                          span that does not exist, or an unknown unit
    """

    title = traitlets.Unicode("").tag(sync=True)
    lanes: traitlets.List[str] = traitlets.List().tag(sync=True)
    spans: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    edges: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    races: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    frames: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    kinds: traitlets.List[str] = traitlets.List(help="in the order of the palette").tag(sync=True)
    unit = traitlets.Unicode("steps").tag(sync=True)
    selected = traitlets.Int(-1, help="index of the chosen span, -1 for none").tag(sync=True)

    def __init__(
        self,
        lanes: Sequence[str],
        spans: Sequence[Mapping[str, Any]],
        edges: Sequence[Mapping[str, Any]] = (),
        races: Sequence[Mapping[str, Any]] = (),
        frames: Sequence[Mapping[str, Any]] = (),
        unit: str = "steps",
        title: str = "",
        **kwargs: Any,
    ) -> None:
        if unit not in UNITS:
            raise ValueError(f"unit {unit!r} is not one of {', '.join(UNITS)}")
        drawn = [_span(span, len(lanes)) for span in spans]
        for edge in edges:
            _check_spans("edge", (edge["source"], edge["target"]), len(drawn))
        for race in races:
            _check_spans("race", race["spans"], len(drawn))
        super().__init__(
            title=title,
            lanes=list(lanes),
            spans=drawn,
            edges=[{"kind": "event", **edge} for edge in edges],
            races=[{"spans": list(race["spans"]), "text": race["text"]} for race in races],
            frames=[{"text": frame["text"], "time": float(frame["time"])} for frame in frames],
            kinds=_kinds(drawn),
            unit=unit,
            **kwargs,
        )

    def step_texts(self) -> list[str]:
        return [frame["text"] for frame in self.frames]

    def summary(self) -> str:
        """Lanes, spans, races and the length of the whole."""
        text = f"{len(self.lanes)} lanes, {len(self.spans)} spans"
        if self.races:
            text += f", {len(self.races)} races"
        return f"{text}, {self._end():g} {self.unit}"

    def _end(self) -> float:
        return max((span["end"] for span in self.spans), default=0.0)

    def svg(self) -> str:
        """All lanes, up to the time of the current step."""
        until = self.frames[min(self.frame, len(self.frames) - 1)] if self.frames else None
        start = min((span["start"] for span in self.spans), default=0.0)
        scale = (PICTURE_WIDTH - LABEL_WIDTH - 20) / ((self._end() - start) or 1.0)

        def x(time: float) -> float:
            return LABEL_WIDTH + (time - start) * scale

        def y(lane: int) -> float:
            return 50 + lane * LANE_HEIGHT

        picture = Picture(PICTURE_WIDTH, 74 + len(self.lanes) * LANE_HEIGHT, repr(self))
        picture.text(12, 20, self.title or repr(self), bold=True, mono=False)
        if until:
            picture.text(12, 38, until["text"], 11, MUTED, mono=False)
        for index, lane in enumerate(self.lanes):
            picture.line([(LABEL_WIDTH, y(index) + 28), (PICTURE_WIDTH - 12, y(index) + 28)], LINE)
            picture.text(12, y(index) + 18, lane[:15], 11)
        racing = {index for race in self.races for index in race["spans"]}
        for index, span in enumerate(self.spans):
            if until and span["start"] > until["time"]:
                continue
            width = max(2.0, x(span["end"]) - x(span["start"]))
            colour = PALETTE[self.kinds.index(span["kind"]) % len(PALETTE)]
            picture.rect(x(span["start"]), y(span["lane"]) + 4, width, 20, fill=colour,
                         stroke=ALERT if index in racing else colour,
                         stroke_width=2.5 if index in racing else 1, opacity=0.5)  # fmt: skip
            picture.text(x(span["start"]) + 3, y(span["lane"]) + 18,
                         span["name"][: max(0, int(width / 6.2))], 10, INK)  # fmt: skip
        for edge in self.edges:
            a, b = self.spans[edge["source"]], self.spans[edge["target"]]
            if not until or b["start"] <= until["time"]:
                ends = [(x(a["end"]), y(a["lane"]) + 14), (x(b["start"]), y(b["lane"]) + 14)]
                picture.line(ends, arrow=True)
        foot = 66 + len(self.lanes) * LANE_HEIGHT
        for tick in round_ticks(start, self._end(), whole=self.unit == "steps"):
            picture.line([(x(tick), foot - 16), (x(tick), foot - 11)], LINE)
            picture.text(x(tick), foot, f"{tick:g}", 10, MUTED, "middle")
        picture.text(LABEL_WIDTH - 16, foot, self.unit, 10, MUTED, "end")
        return picture.svg()


def round_ticks(start: float, end: float, whole: bool) -> list[float]:
    """Round numbers between the two, 1, 2 or 5 times a power of ten apart: at most nine.

    whole   no fractions: steps have none
    """
    rough = max((end - start) / 8, 1e-12)
    power = 10.0 ** math.floor(math.log10(rough))
    by = power * next(times for times in (1, 2, 5, 10) if times * power >= rough * (1 - 1e-9))
    if whole:
        by = max(1.0, round(by))
    first, last = math.ceil(start / by - 1e-9), math.floor(end / by + 1e-9)
    return [float(f"{number * by:.12g}") for number in range(first, last + 1)]


def _span(span: Mapping[str, Any], lanes: int) -> dict[str, Any]:
    if not 0 <= span["lane"] < lanes:
        raise ValueError(f"span {span['name']!r} lies in lane {span['lane']}; there are {lanes}")
    if span["end"] < span["start"]:
        raise ValueError(
            f"span {span['name']!r} ends at {span['end']}, before its start {span['start']}"
        )
    return {
        "lane": span["lane"],
        "start": float(span["start"]),
        "end": float(span["end"]),
        "name": span["name"],
        "kind": span.get("kind", ""),
        "reads": list(span.get("reads", ())),
        "writes": list(span.get("writes", ())),
    }


def _kinds(spans: Sequence[Mapping[str, Any]]) -> list[str]:
    found = dict.fromkeys(span["kind"] for span in spans)
    known = KINDS if any(kind in KINDS for kind in found) else ()
    return [*known, *(kind for kind in found if kind not in known)]


def _check_spans(what: str, indices: Sequence[int], spans: int) -> None:
    for index in indices:
        if not 0 <= index < spans:
            raise ValueError(f"{what} names span {index}; there are {spans}")
