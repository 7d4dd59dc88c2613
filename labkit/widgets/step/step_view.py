"""One training step: its source, its operators, its graph, its streams and its memory, together."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import traitlets

from labkit.widgets.base import LabWidget, pack_columns
from labkit.widgets.graph.graph_levels import level_of, plural
from labkit.widgets.memory.memory_trace import Trace, encode
from labkit.widgets.step.step_picture import step_picture

COLUMNS = ("kind", "phase", "line", "call", "hop", "node", "edge", "kernel", "memory")
"""What every event says in a number; kinds and phases are places in the lists of `words`."""


class StepView(LabWidget):
    """Draws a recorded step; every lane shows the same event.

    columns    name -> a number per event, for each of `COLUMNS`
    texts      what each event says
    words      {"kinds": [...], "phases": [...]}
    functions  {name, file, first_line, lines}: the source
    chains     the lines that were running: pairs (function, line number), innermost first
    calls      [operator, call around it, first event, event after the last, hops]; a hop is
               [slot, kernel, 1 if it was seen, event or -1]
    launches   [name, kind, stream, grid, block, addresses read, addresses written, event of
               queueing, event of having run or -1, call]
    nodes, edges   of the autograd graph, as GraphView takes them
    node_colours   kind of node -> its number in the palette
    node_names     by node
    came       event -> what came along an edge, in a few characters
    heats      event -> a heat map of a gradient, as GraphView takes it
    trace      the memory, as MemoryMap takes it
    outside    addresses that the caching allocator did not hand out
    names      address -> what lay there when the step began
    remarks    what a reader has to know of how this was observed
    """

    parts: ClassVar[tuple[str, ...]] = (
        "pens.js",
        "code/code_colours.js",
        "graph/graph_frames.js",
        "graph/graph_canvas.js",
        "memory/memory_lives.js",
        "memory/memory_engine.js",
        "memory/memory_blocks.js",
        "step/step_record.js",
        "step/step_source.js",
        "step/step_hops.js",
        "step/step_graph.js",
        "step/step_streams.js",
        "step/step_memory.js",
        "step/step_threads.js",
    )

    title = traitlets.Unicode("").tag(sync=True)
    meta = traitlets.Dict().tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)

    def __init__(
        self,
        columns: Mapping[str, Sequence[int]],
        texts: Sequence[str],
        *,
        trace: Trace,
        nodes: Sequence[Mapping[str, Any]],
        edges: Sequence[Mapping[str, Any]],
        title: str = "",
        **lists: Any,
    ) -> None:
        if set(columns) != set(COLUMNS) or {len(each) for each in columns.values()} != {len(texts)}:
            raise ValueError(f"an event has a text and a number in each of {', '.join(COLUMNS)}")
        memory, arrays = encode(trace)
        packed: dict[str, Any] = {f"event.{name}": columns[name] for name in COLUMNS}
        packed |= {f"memory.{name}": values for name, values in arrays.items()}
        schema, data = pack_columns(packed)
        self._columns, self._trace = columns, trace
        self._lists = {"texts": list(texts), **lists}
        super().__init__(
            title=title,
            data=data,
            meta={
                **self._lists, "schema": schema, "memory": memory, "level": level_of(nodes, edges),
            },
        )  # fmt: skip

    def step_texts(self) -> list[str]:
        texts: list[str] = self._lists["texts"]
        return texts

    def summary(self) -> str:
        """How many events, operator calls, nodes and kernels."""
        counts = (
            (len(self._lists["texts"]), "event"), (len(self._lists["calls"]), "call"),
            (len(self.meta["level"]["nodes"]), "node"), (len(self._lists["launches"]), "launch"),
        )  # fmt: skip
        return ", ".join(plural(*each) for each in counts).replace("launchs", "launches")

    def svg(self) -> str:
        """The event shown: its line, its operator, its node, its kernel and what it touches."""
        event = {name: int(values[self.frame]) for name, values in self._columns.items()}
        event["node"] = self._node(event)
        touched = self._touched(event["kernel"])
        lists = {**self._lists, "reads": touched[0], "writes": touched[1]}
        return step_picture(lists, event, self.frame, self.title, repr(self))

    def _node(self, event: Mapping[str, int]) -> int:
        """The node that the event is about, else the one that its operator recorded."""
        if event["node"] >= 0:
            return event["node"]
        recorded = self._lists["words"]["kinds"].index("node recorded")
        kinds, calls = self._columns["kind"], self._columns["call"]
        for i, (kind, call) in enumerate(zip(kinds, calls, strict=True)):
            if kind == recorded and call == event["call"] >= 0:
                return int(self._columns["node"][i])
        return -1

    def _touched(self, kernel: int) -> list[list[str]]:
        """What the work reads, and what it writes, each by whose it is."""
        if kernel < 0:
            return [[], []]
        launch = self._lists["launches"][kernel]
        before = int(self._columns["memory"][launch[7]])
        return [[self._whose(at, before) for at in addresses] for addresses in launch[5:7]]

    def _whose(self, address: int, before: int) -> str:
        """What the memory was handed out for, of the entries up to `before`; else its name."""
        events = self._trace["events"]
        alloc = list(self._trace["actions"]).index("alloc")
        for i in range(before - 1, -1, -1):
            start, size = int(events["address"][i]), int(events["size"][i])
            if events["action"][i] == alloc and start <= address < start + size:
                call = self._columns["call"][list(self._columns["memory"]).index(i + 1)]
                operator = self._lists["calls"][call][0] if call >= 0 else "no operator"
                return f"{size:,} bytes of {operator}"
        return str(self._lists["names"].get(str(address), f"{address:#x}"))
