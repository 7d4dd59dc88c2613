"""Segments and blocks of a caching allocator over time, one trace entry forward or back."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import traitlets

from labkit.widgets.base import LabWidget, pack_columns
from labkit.widgets.memory.memory_picture import draw, draw_bars
from labkit.widgets.memory.memory_trace import Trace, cut, encode, live_bytes

SAVED_BYTES = 2_000_000
"""Columns larger than this stay in the kernel; a saved notebook then holds the last entries."""
CHUNK_BYTES = 4_000_000
"""Of one message: a Jupyter server takes websocket messages up to 10 MB."""

Tables = Callable[[], list[dict[str, Any]]]
WhatIf = Callable[[str], Mapping[str, Any]]


class MemoryMap(LabWidget):
    """Draws one trace, or two of them at equal entry numbers.

    traces   plain columns, as `labkit.widgets.memory.memory_trace.Trace` says
    titles   a heading per trace, when there are two
    title    the heading of the whole
    what_if  rows {settings, peak_reserved, peak_allocated, fragmentation, retries, ran_out}
    replay   called in the kernel with a settings string; returns such a row
    autopsy  sentences on why memory ran out
    tables   {title, head, rows, missing}, from the function given
    whole    nothing is left to the kernel, however large
    remarks  sentences shown above the map
    simple   only the bars, their legend and the sentence of the step; all panels behind a button

    Python reads, and may set, `frame`: how many entries have been done. `update` shows a longer
    trace in place, for a run that is still going.
    """

    parts: ClassVar[tuple[str, ...]] = (
        "pens.js",
        "memory/memory_lives.js",
        "memory/memory_engine.js",
        "memory/memory_words.js",
        "memory/memory_timeline.js",
        "memory/memory_blocks.js",
        "memory/memory_panels.js",
        "memory/memory_scale.js",
        "memory/memory_simple.js",
        "memory/memory_store.js",
        "memory/memory_choice.js",
        "memory/memory_said.js",
        "memory/memory_drawing.js",
        "memory/memory_hands.js",
        "memory/memory_filters.js",
    )

    meta = traitlets.Dict().tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)
    what_if: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    tables: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    simple = traitlets.Bool(False, help="only the bars, until all panels are asked for").tag(
        sync=True
    )
    autopsy: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        *traces: Trace,
        titles: Sequence[str] = (),
        title: str = "",
        what_if: Sequence[Mapping[str, Any]] = (),
        replay: WhatIf | None = None,
        autopsy: Sequence[str] = (),
        remarks: Sequence[str] = (),
        live: str = "",
        tables: Tables = list,
        whole: bool = False,
        frame: int | None = None,
        simple: bool = False,
    ) -> None:
        if not 1 <= len(traces) <= 2:
            raise ValueError(f"one trace, or two to compare; got {len(traces)}")
        self._replay = replay
        self._about: dict[str, Any] = {
            "title": title,
            "titles": list(titles),
            "remarks": list(remarks),
            "can_replay": replay is not None,
        }
        self._traces = traces
        self._saved_bytes = sys.maxsize if whole else SAVED_BYTES
        self._held: tuple[dict[str, Any], bytes] | None = None
        meta, data = self._state(live)
        entries = len(traces[0]["events"]["action"])
        super().__init__(
            meta=meta,
            data=data,
            what_if=[dict(row) for row in what_if],
            autopsy=list(autopsy),
            tables=tables(),
            frame=entries if frame is None else frame,
            simple=simple,
        )
        self.on_msg(self._answer)

    def update(self, *traces: Trace, live: str = "") -> None:
        """Show these traces instead; a reader who was at the last entry stays at the last."""
        followed = self.frame == self.meta["whole"]
        self._traces = traces
        meta, data = self._state(live)
        with self.hold_sync():
            self.meta, self.data = meta, data
            if followed:
                self.frame = meta["whole"]

    def remark(self, sentence: str) -> None:
        """One more sentence stands above the map."""
        self._about["remarks"].append(sentence)
        self.meta = {**self.meta, "remarks": list(self._about["remarks"])}

    def _state(self, live: str) -> tuple[dict[str, Any], bytes]:
        """What the page and a saved notebook hold: everything, or the last entries."""
        meta, data = self._packed(self._traces, live)
        self._held = None
        if len(data) > self._saved_bytes:
            entries = sum(len(trace["events"]["action"]) for trace in self._traces)
            share = SAVED_BYTES / len(data) / 2
            kept = [cut(t, int(len(t["events"]["action"]) * share)) for t in self._traces]
            self._held = (meta, data)
            size = len(data)
            meta, data = self._packed(kept, live)
            meta["held"] = size
            assert entries, "columns without entries are small"
        meta["whole"] = len(self._traces[0]["events"]["action"])
        return meta, data

    def _packed(self, traces: Sequence[Trace], live: str) -> tuple[dict[str, Any], bytes]:
        parts, columns = [], {}
        for index, trace in enumerate(traces):
            part, own = encode(trace)
            parts.append(part)
            columns.update({f"{index}.{name}": values for name, values in own.items()})
        schema, data = pack_columns(columns)
        return {**self._about, "traces": parts, "schema": schema, "live": live}, data

    def _answer(self, _: Any, message: Any, __: Any) -> None:
        """What a page asks the kernel for: the whole trace, or a replay."""
        kind = message.get("kind") if isinstance(message, dict) else None
        if kind == "need" and self._held is not None:
            meta, data = self._held
            count = -(-len(data) // CHUNK_BYTES)
            for index in range(count):
                part = memoryview(data)[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]
                about = {"kind": "chunk", "index": index, "count": count, "total": len(data)}
                if index == count - 1:
                    about["meta"] = {**meta, "whole": self.meta["whole"]}
                self.send(about, buffers=[part])
        elif kind == "what_if":
            self.send(self._what_if(str(message.get("settings", ""))))

    def _what_if(self, settings: str) -> dict[str, Any]:
        if self._replay is None:
            return {"kind": "what_if", "error": "this trace cannot be replayed"}
        began = time.perf_counter()
        try:
            row = dict(self._replay(settings))
        except Exception as error:  # told on the page: there is no cell to raise in
            return {"kind": "what_if", "error": f"{type(error).__name__}: {error}"}
        self.what_if = [*self.what_if, row]
        return {"kind": "what_if", "error": f"replayed in {time.perf_counter() - began:.1f} s"}

    def summary(self) -> str:
        """Entries, segments, live and reserved bytes at the end."""
        trace = self._traces[0]
        text = (
            f"{len(trace['events']['action'])} entries, {len(trace['segments']['size'])} segments, "
            f"{int(live_bytes(trace)[-1])} bytes live, "
            f"{int(trace['segments']['size'].sum())} bytes reserved"
        )
        return f"{text}, compared with another" if len(self._traces) == 2 else text

    def svg(self) -> str:
        """The timeline, and the map at the last entry and at the peak; if simple, the map alone."""
        trace, title = self._traces[0], self._about["title"] or repr(self)
        if self.simple:
            return draw_bars(trace, self.frame, title, repr(self))
        return draw(trace, title, repr(self))
