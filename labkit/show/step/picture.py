"""A recorded step as the plain data that a StepView draws."""

from typing import Any, get_args

from labkit.memory.snapshots.snapshot import columns
from labkit.show.memory.sources import trace_of
from labkit.show.step.collect import StepRecord
from labkit.show.step.record import PHASES, Call, Kind, Launch
from labkit.widgets.step.step_view import COLUMNS, StepView

FORWARD, BEFORE = "recorded in forward", "a leaf"
KINDS: tuple[str, ...] = get_args(Kind)


def picture_of(made: StepRecord, title: str) -> StepView:
    """The view; it opens where the first CUDA kernel of an operator with a node is queued."""
    recording = made.recording
    events = recording.events
    numbers = {name: [getattr(event, name) for event in events] for name in COLUMNS}
    numbers["kind"] = [KINDS.index(event.kind) for event in events]
    numbers["phase"] = [PHASES.index(event.phase) for event in events]
    view = StepView(
        numbers,
        [event.text for event in events],
        trace=trace_of(columns(made.snapshot)),
        nodes=[_node(node) for node in made.walk.nodes],
        edges=made.walk.edges,
        title=title,
        words={"kinds": list(KINDS), "phases": list(PHASES)},
        functions=[vars(function) for function in recording.lines.functions],
        chains=[[list(pair) for pair in chain] for chain in recording.lines.chains],
        calls=[_call(call) for call in recording.calls],
        launches=[_launch(launch) for launch in recording.launches],
        came={str(i): event.came for i, event in enumerate(events) if event.came},
        heats={str(i): heat for i, heat in made.heats.items()},
        outside=made.outside,
        names={str(address): name for address, name in made.names.items()},
        node_colours={FORWARD: 0, BEFORE: 7},
        node_names=made.walk.names(),
        remarks=made.remarks,
    )
    queued = (i for i, event in enumerate(events) if event.kind == "kernel queued")
    view.frame = next(queued, 0)
    return view


def _node(node: dict[str, Any]) -> dict[str, Any]:
    """The node in the colour of the part of the step that it comes from; a leaf by its name."""
    if node["kind"] != "leaf":
        return {"label": node["label"], "kind": FORWARD, "badges": node["badges"]}
    name, _, shape = node["badges"][0].partition(" ")
    return {"label": name, "kind": BEFORE, "badges": [shape]}


def _call(call: Call) -> list[Any]:
    hops = [[hop.slot, hop.kernel, int(hop.observed), hop.event] for hop in call.hops]
    return [call.operator, call.parent, call.begin, call.end, hops]


def _launch(launch: Launch) -> list[Any]:
    grid, block = (", ".join(map(str, size)) for size in (launch.grid, launch.block))
    return [
        launch.name, launch.kind, launch.stream, grid, block, launch.reads, launch.writes,
        launch.queued, launch.ran, launch.call,
    ]  # fmt: skip
