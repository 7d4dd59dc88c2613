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
        self._columns = columns
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
        return step_picture(self._lists, event, self.frame, self.title, repr(self))
