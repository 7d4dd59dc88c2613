"""`show.training_step`: forward, backward and what the optimizer wrote, of torch or of labkit."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from labkit.show.backward.autograd_walk import Walk, sequence_nr, short_name
from labkit.show.heat import heat_map
from labkit.show.module_scopes import Scopes
from labkit.show.names import tensor_names
from labkit.widgets.graph.graph_view import GraphView

MOST_LEAVES = 4


def training_step(
    step: Callable[[], Any],
    module: Any = None,
    title: str = "",
    depth: int | None = None,
    at: int | str | None = None,
) -> GraphView:
    """The step has run, and can be walked: what forward recorded, backward, what was written.

    Forward comes first, one step per node in the order in which they were made: the operator, what
    it saves, and with torch its result. Then the engine's steps, as `show.backward` shows them;
    then the leaves whose versions have changed since. An error of the engine is the last step.

    step    a function without arguments: forward, backward, and what else belongs to a step
    module  an nn.Module of torch or labkit by which nodes fold; it names the parameters as well
    depth   how many levels of module names tell groups apart; None: all of them
    at      the step to open at: its number, from 1, or words of its text

    Raises   TypeError    `step` cannot be called
             ValueError   it ran no backward of torch or of labkit, or there is no step `at`
    Differs  Of torch only what hooks and a dispatch mode tell is observed; the ready heap and the
             buffers between are computed from the graph by the engine's rules.
    """
    from labkit.show.backward.recorder import WalkingRecorder  # their import makes both autograds
    from labkit.show.backward.torch_backward import TorchRecorder
    from labkit.show.backward.torch_forward import ForwardRecorder

    if not callable(step):
        raise TypeError(f"show.training_step takes a function, got {type(step).__name__}")
    scopes = Scopes(module, depth)
    names = {**tensor_names(sys._getframe(1)), **scopes.parameter_names()}
    recorders: list[Any] = [
        kind(Walk(names, scopes.group)) for kind in (TorchRecorder, WalkingRecorder)
    ]
    forward = ForwardRecorder(recorders[0])
    with ExitStack() as stack:
        for manager in (scopes, forward, *(one.recording() for one in recorders)):
            stack.enter_context(manager)
        try:
            step()
        except Exception:
            if not any(one.steps and one.steps[-1].kind == "error" for one in recorders):
                raise
    recorder = next((one for one in recorders if one.steps), None)
    if recorder is None:
        raise ValueError("step() ran no backward: call loss.backward() inside it")
    walk = recorder.walk
    return GraphView(walk.nodes, walk.edges, _frames(recorder, forward), title=title).open_at(at)


def _frames(recorder: Any, forward: Any) -> list[dict[str, Any]]:
    from labkit.show.backward.frames import Frames

    frames = Frames(recorder.walk, recorder.nodes_met())
    ends = [first for first, _, _ in recorder.met[1:]] + [len(recorder.steps)]
    for (begin, known, count), end in zip(recorder.met, ends, strict=True):
        frames.frames += _forward_frames(recorder.walk, range(known, count), forward)
        frames.add(recorder.steps[begin:end])
    return frames.frames + _written(recorder)


def _forward_frames(walk: Walk, numbers: range, forward: Any) -> list[dict[str, Any]]:
    made = [i for i in numbers if short_name(walk.order[i]) != "AccumulateGrad"]
    made.sort(key=lambda i: sequence_nr(walk.order[i]))
    names, frames, before = walk.names(), [], None
    for i in made:
        operator, value = forward.calls.get(sequence_nr(walk.order[i]), ("", None))
        details = walk.nodes[i]["details"]
        saved = [f"{name.removeprefix('_saved_')}: {text}" for name, text in details.items()
                 if name.startswith("_saved_")]  # fmt: skip
        where = f" in {walk.nodes[i]['group']}" if walk.nodes[i].get("group") else ""
        call = f"{operator} runs{where}; " if operator else ""
        numbers_known = value is not None and value.numbers
        frames.append({
            "text": f"forward: {call}{names[i]} is recorded{'' if call else where}",
            "marks": {i: "active", **({before: None} if before is not None else {})},
            "lists": {"saved for backward": saved},
            "heats": [heat_map("result", value.shape, value.numbers)] if numbers_known else [],
            "kind": "forward",
        })  # fmt: skip
        before = i
    if before is not None:
        frames.append({"text": f"forward is done: {len(made)} nodes recorded", "kind": "forward",
                       "marks": {before: None}})  # fmt: skip
    return frames


def _written(recorder: Any) -> list[dict[str, Any]]:
    """One frame for the leaves that were written since backward began."""
    walk, changes, marks = recorder.walk, [], {}
    heats: list[dict[str, Any]] = []
    for i, node in enumerate(walk.order):
        if short_name(node) != "AccumulateGrad":
            continue
        leaf, before = node.variable, int(walk.nodes[i]["details"]["version of the leaf"])
        if leaf._version != before:
            name = walk.names()[i].removeprefix("AccumulateGrad ")
            changes.append(f"{name}: version {before} to {leaf._version}")
            marks[i] = "active"
            value = recorder.value(leaf)
            if value.numbers and len(heats) < MOST_LEAVES:
                heats.append(heat_map(name, value.shape, value.numbers))
    if not changes:
        return []
    text = f"{len(changes)} leaves have been written since: what was saved of them is out of date"
    return [{"text": text, "marks": marks, "lists": {"written": changes}, "heats": heats,
             "kind": "written"}]  # fmt: skip
