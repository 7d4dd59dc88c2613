"""The steps of a backward call, as recorded, in the form a GraphView walks through."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from labkit.autograd.recording import Step, Value
from labkit.show.backward.autograd_walk import Walk, forward_line
from labkit.show.heat import NUMBERS_ON_AN_EDGE, heat_map, in_words

Frame = dict[str, Any]
KINDS = {
    "start": "dependencies", "ready": "ready", "pop": "node runs", "unpack": "saved tensor",
    "hook": "hook", "buffer": "gradient arrives", "accumulate": "accumulation",
    "capture": "capture", "skip": "skip", "release": "release", "error": "error", "end": "end",
}  # fmt: skip
ALWAYS_SHOWN = ("start", "pop", "hook", "error", "end")
EVERY_STEP_UP_TO = 300
"""Graphs with more nodes get a frame per node, else a notebook would grow by megabytes."""


class Frames:
    """Frames of one recording after another.

    walk    the graph that is drawn
    order   the node of the walk for each number of the recording, None for one outside
    simple  only the gradients that arrive, in plain words and without side lists

    Every frame repeats the side lists: what the ready heap holds in the order of its array, which
    nodes hold a part of their gradients and wait for more, and what the running node has asked for.
    """

    def __init__(self, walk: Walk, nodes_met: Sequence[Any], simple: bool = False) -> None:
        self.walk = walk
        self.simple = simple
        self.frames: list[Frame] = []
        self._places = [walk.place.get(node) for node in nodes_met]
        self._names = plain_names(walk) if simple else walk.names()
        self._heap: list[int] = []
        self._buffers: dict[tuple[int, int], Value] = {}
        self._waiting: dict[int, int] = {}
        self._running = -1
        self._saved: list[str] = []
        self._fired: list[str] = []
        self._ran = 0
        self._unshown: dict[str, dict[int, Any]] = {}
        self._came: Counter[Any] = Counter()

    def add(self, steps: Sequence[Step]) -> list[Frame]:
        """The frames, with one more per step; in a large graph, per node that runs."""
        few = len(self.walk.nodes) <= EVERY_STEP_UP_TO
        for step in steps:
            if step.kind not in ("unpack", "release", "accumulate", "capture", "error", "end"):
                self._heap = list(step.heap)
            frame = getattr(self, f"_{step.kind}")(step)
            for name, changed in self._unshown.items():
                frame[name] = {**changed, **frame.get(name, {})}
            if self._is_shown(step, few) or frame.get("stop"):
                self._unshown = {}
                self.frames.append(self._simpler(frame, step) if self.simple else frame)
                if not self.simple:
                    frame["kind"] = KINDS[step.kind]
                    frame["lists"] = self._lists()
            else:
                self._unshown = {name: frame.get(name, {}) for name in ("marks", "notes", "flows")}
        return self.frames

    def _is_shown(self, step: Step, few: bool) -> bool:
        if self.simple:
            return step.kind in ("start", "buffer", "end")
        return few or step.kind in ALWAYS_SHOWN

    def _simpler(self, frame: Frame, step: Step) -> Frame:
        """The frame in plain words, without what only the engine needs."""
        name = self._name(step.node)
        more = f"it waits for {step.waiting} more" if step.waiting else "now it has all"
        said = {
            "start": f"no node has run; {name} is the first",
            "buffer": f"a gradient arrives at {name}: {more}",
            "end": f"backward is done, {self._ran} nodes ran",
        }
        return {**frame, "text": said.get(step.kind, frame["text"]), "heats": []}

    # -- one method per kind of step ------------------------------------------------------

    def _start(self, step: Step) -> Frame:
        self._buffers.clear()
        self._waiting.clear()
        self._came.clear()
        self._ran, self._running = 0, -1
        notes: dict[int, str | None] = dict.fromkeys(range(len(self.walk.nodes)) if self.frames
                                                     else ())  # fmt: skip
        marks: dict[int, str | None] = dict.fromkeys(notes)
        flows = dict.fromkeys(range(len(self.walk.edges)) if self.frames else ())
        places = [(self._at(node), count) for node, count in step.dependencies.items()]
        notes |= {at: f"waits: {count}" for at, count in places if at is not None}
        if self._at(step.node) is not None:
            self._heap = [step.node]
        text = (
            f"dependencies are counted: each of {len(places)} nodes waits for as many gradients as "
            f"edges lead to it; {self._name(step.node)} is where backward starts"
        )
        marks |= self._on(step.node, "ready")
        return {"text": text, "notes": notes, "marks": marks, "flows": flows}

    def _ready(self, step: Step) -> Frame:
        text = f"{self._name(step.node)} has all its gradients: it enters the ready heap"
        return {"text": text, "marks": self._on(step.node, "ready"),
                "notes": self._on(step.node, None)}  # fmt: skip

    def _pop(self, step: Step) -> Frame:
        marks = self._on(self._running, "done")
        self._running, self._saved, self._fired = step.node, [], []
        self._ran += 1
        held = {key: value for key, value in self._buffers.items() if key[0] == step.node}
        for key in held:
            del self._buffers[key]
        why = "an AccumulateGrad comes before all others" if self._is_leaf(step.node) else (
            "the node made last of those that are ready"
        )  # fmt: skip
        return {
            "text": f"{self._name(step.node)} leaves the heap and runs, number {self._ran}: {why}",
            "marks": {**marks, **self._on(step.node, "active")},
            "notes": self._on(step.node, None if self.simple else f"ran {self._ran}."),
            "heats": _heats({f"gradient of input {slot}": v for (_, slot), v in held.items()}),
        }

    def _unpack(self, step: Step) -> Frame:
        asked_by_node = self._at(step.node) is not None
        name = self._name(step.node) if asked_by_node else "a checkpoint"  # for its arguments
        shape = step.value.shape if step.value else ()
        which = step.text or "a saved tensor"
        said = f"{which} {shape}: version {step.version}, saved at {step.expected}"
        self._saved.append(said)
        heats = _heats({which: step.value})
        if step.version == step.expected:
            return {"text": f"{name} asks for {said}", "heats": heats}
        line = forward_line(self.walk.order[self._at(step.node) or 0])
        made = f"; its forward call was {line}" if line else ""
        reason = (
            f"{name} needs {which} as it was at version {step.expected}, but in-place operations "
            f"have written it since: it is at version {step.version}{made}"
        )
        return {"text": reason, "marks": self._on(step.node, "error"), "stop": reason,
                "heats": heats}  # fmt: skip

    def _hook(self, step: Step) -> Frame:
        self._fired.append(step.text)
        return {"text": f"a hook of {self._name(step.node)} fires: {step.text}"}

    def _buffer(self, step: Step) -> Frame:
        key = (step.node, step.slot)
        held = self._buffers.get(key)
        self._waiting[step.node] = step.waiting
        if step.value is not None:
            self._buffers[key] = step.value
        how = "is put into" if held is None else "is added in"
        more = f"{step.waiting} more to come" if step.waiting else "nothing more will come"
        note = f"waits: {step.waiting}" if step.waiting else None
        edges = self._edge(step)
        return {
            "text": f"a gradient {how} the buffer of {self._name(step.node)}, input {step.slot}; "
            f"{more}",
            "marks": self._on(step.node, "waiting" if step.waiting else "ready"),
            "notes": self._on(step.node, note),
            "edges": edges,
            "flows": dict.fromkeys(edges, _arrived(held, step.value)),
            "heats": _heats({f"buffer of input {step.slot}": step.value}),
        }

    def _accumulate(self, step: Step) -> Frame:
        leaf = self._name(step.node).removeprefix("AccumulateGrad ")
        how = "becomes" if step.text == "set" else "grows by"
        return {"text": f"{leaf}.grad {how} what arrived",
                "heats": _heats({f"{leaf}.grad": step.value})}  # fmt: skip

    def _capture(self, step: Step) -> Frame:
        text = f"the gradient that was asked for as result {step.slot} is taken at "
        return {"text": text + self._name(step.node),
                "heats": _heats({f"result {step.slot}": step.value})}  # fmt: skip

    def _skip(self, step: Step) -> Frame:
        text = f"{self._name(step.node)} is not needed for the gradients asked for"
        return {"text": text, "marks": self._on(step.node, "done")}

    def _release(self, step: Step) -> Frame:
        self._saved = []
        return {"text": f"{self._name(step.node)} lets go of its saved tensors"}

    def _error(self, step: Step) -> Frame:
        return {"text": step.text, "marks": self._on(self._running, "error"), "stop": step.text}

    def _end(self, step: Step) -> Frame:
        marks = self._on(self._running, "done")
        self._running, self._heap, self._saved, self._fired = -1, [], [], []
        return {"text": f"the heap is empty: backward is done, {self._ran} nodes ran",
                "marks": marks}  # fmt: skip

    # -- what they share ------------------------------------------------------------------

    def _at(self, node: int) -> int | None:
        return self._places[node] if 0 <= node < len(self._places) else None

    def _name(self, node: int) -> str:
        place = self._at(node)
        return "GraphRoot" if place is None else self._names[place]

    def _is_leaf(self, node: int) -> bool:
        return self._name(node).startswith("AccumulateGrad")

    def _on(self, node: int, mark_or_note: str | None) -> dict[int, str | None]:
        place = self._at(node)
        return {} if place is None else {place: mark_or_note}

    def _edge(self, step: Step) -> list[int]:
        """The edge from the running node along which this gradient came."""
        source, target = self._at(self._running), self._at(step.node)
        if source is None or target is None:
            return []
        return self.walk.edge(source, target, step.slot, self._came)

    def _lists(self) -> dict[str, list[str]]:
        lists = {"ready heap": [self._name(node) for node in self._heap]}
        lists["waiting buffers"] = [
            f"{self._name(node)} input {slot}: {value.shape}"
            for (node, slot), value in self._buffers.items()
            if self._waiting[node]
        ]
        if self._saved:
            lists["saved tensors asked for"] = self._saved[:]
        if self._fired:
            lists["hooks fired"] = self._fired[:]
        return lists


def plain_names(walk: Walk) -> list[str]:
    """Names without a number where nobody else has the name: MulBackward0, AccumulateGrad x."""
    names = walk.names()
    bare = [name.partition(" #")[0] for name in names]
    return [
        short if bare.count(short) == 1 else name for short, name in zip(bare, names, strict=True)
    ]


def _arrived(held: Value | None, now: Value | None) -> str:
    """What came along an edge into a buffer that held something else: few numbers, or a shape."""
    if now is None:
        return "None"
    if not now.numbers or len(now.numbers) > NUMBERS_ON_AN_EDGE or (held and not held.numbers):
        return str(now.shape)
    before = held.numbers if held and held.numbers else [0.0] * len(now.numbers)
    return in_words([a - b for a, b in zip(now.numbers, before, strict=True)])


def _heats(values: dict[str, Value | None]) -> list[dict[str, Any]]:
    return [
        heat_map(title, value.shape, value.numbers)
        for title, value in values.items()
        if value is not None and value.numbers
    ]
