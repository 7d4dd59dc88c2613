"""Every step of a backward call, written down as plain data while it happens.

    with recording() as recorder:
        loss.backward()
    recorder.steps[0]        # Step(kind='start', ...)

Nodes get numbers in the order in which they are met, tensors are described, not kept: a recording
can be stored, and walked forward and backward, long after the graph is gone.

Source   torch/csrc/autograd/engine.cpp  Engine::evaluate_function
Differs  PyTorch's engine keeps no record; its node hooks show a part of this.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from labkit.autograd.accumulate_grad import AccumulateGrad
from labkit.autograd.engine.engine import ENGINE
from labkit.autograd.engine.exec_info import ExecInfo
from labkit.autograd.engine.graph_task import GraphTask
from labkit.autograd.node import Node, nodes_from
from labkit.autograd.variables.saved_variable import UNPACK_OBSERVERS
from labkit.ops.tensors import copy

Kind = Literal[
    "start", "ready", "pop", "unpack", "hook", "buffer", "accumulate", "capture", "skip",
    "release", "error", "end",
]  # fmt: skip


@dataclass
class Value:
    """What a recording keeps of a tensor.

    numbers  its elements, row after row; None beyond `Recorder.most_elements`
    """

    shape: tuple[int, ...]
    dtype: str
    version: int
    numbers: list[Any] | None


@dataclass
class Step:
    """One step.

    kind        start       dependencies are counted (`dependencies`), roots are about to be queued
                ready       all gradients of the node have come: it is in the heap
                pop         the node leaves the heap and runs
                unpack      a saved tensor is asked for: `version` now, `expected` when it was saved
                hook        a hook of the node fired; `text` says which kind
                buffer      `value` came for input `slot` of the node; `text`: first or added
                accumulate  the leaf's grad is `value` now; `text`: set, or added
                capture     the gradient is one that was asked for: result number `slot`
                skip        the node is not needed for what was asked
                release     the node's saved tensors are gone
                error       `text` left the engine
                end         nothing is left to do
    node        number of the node in `Recorder.nodes`, -1 where there is none
    heap        node numbers in the ready heap after the step, in the order of the array
    waiting     dependencies that the node still has, after the step
    """

    kind: Kind
    node: int = -1
    slot: int = 0
    value: Value | None = None
    text: str = ""
    heap: list[int] = field(default_factory=list)
    waiting: int = 0
    version: int = 0
    expected: int = 0
    dependencies: dict[int, int] = field(default_factory=dict)


@dataclass
class NodeNote:
    """What a recording keeps of a node: `edges` are (node number, input number) or None."""

    name: str
    sequence_nr: int
    inputs: int
    edges: list[tuple[int, int] | None]


class Recorder:
    """Collects the steps of the backward calls of one thread.

    most_elements  tensors with more elements are described without their numbers
    """

    def __init__(self, most_elements: int = 256) -> None:
        self.steps: list[Step] = []
        self.nodes: list[NodeNote] = []
        self.most_elements = most_elements
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # an id is a node's for as long as the node lives

    def number(self, node: Any) -> int:
        """The node's number; nodes met for the first time get the next one."""
        known = self._numbers.get(id(node))
        if known is not None:
            return known
        number = self._numbers[id(node)] = len(self.nodes)
        self._alive.append(node)
        note = NodeNote(node.name(), node.sequence_nr, node.num_inputs, [])
        self.nodes.append(note)
        return number

    def nodes_met(self) -> list[Any]:
        """The nodes themselves, in the order of their numbers; alive as long as the recorder."""
        return self._alive

    def graph(self, roots: list[Any]) -> None:
        """All nodes from these roots have numbers and edges."""
        for node in nodes_from(*roots):
            note = self.nodes[self.number(node)]
            note.edges = [
                (self.number(edge[0]), edge[1]) if edge else None for edge in node.next_edges
            ]

    def value(self, tensor: Any) -> Value | None:
        """What is kept of a tensor."""
        if tensor is None:
            return None
        numbers = None
        if tensor.numel() <= self.most_elements:
            numbers = copy.values(tensor).reshape(-1).tolist()
        return Value(tuple(tensor.sizes), str(tensor.dtype), tensor.version, numbers)

    def note(self, kind: Kind, node: Any = None, heap: Any = (), **facts: Any) -> None:
        """One more step."""
        number = -1 if node is None else self.number(node)
        self.steps.append(Step(kind, number, heap=[self.number(t[1]) for t in heap], **facts))

    def unpacked(self, node: Any, tensor: Any, expected: int) -> None:
        """A saved tensor was asked for; where its version is wrong, an error follows."""
        value = self.value(tensor)
        self.note("unpack", node, value=value, version=tensor.version, expected=expected)


class RecordedTask(GraphTask):
    """A backward call whose steps the recorder is told."""

    def __init__(self, recorder: Recorder, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.recorder = recorder

    def run(self) -> None:
        """The whole call, from "start" to "end"."""
        self.recorder.graph([self.root])
        counts = {self.recorder.number(node): n for node, n in self.dependencies.items()}
        self.recorder.note("start", self.root, dependencies=counts)
        super().run()
        self.recorder.note("end")

    def push(self, node: Node, buffer: list[Any]) -> None:
        """A node is ready; that the root is goes without saying."""
        super().push(node, buffer)
        if node is not self.root:
            self.recorder.note("ready", node, self.queue)

    def pop(self) -> tuple[Node, list[Any]]:
        """The node that runs."""
        node, buffer = super().pop()
        self.recorder.note("pop", node, self.queue)
        return node, buffer

    def abandon(self, node: Node, error: BaseException) -> None:
        """The error that leaves the engine."""
        self.recorder.note("error", text=f"{type(error).__name__}: {error}")
        super().abandon(node, error)

    def capture(self, node: Node, info: ExecInfo, grads: list[Any]) -> None:
        """The gradients that were asked for."""
        super().capture(node, info, grads)
        for input_nr, result_nr in info.captures:
            value = self.recorder.value(grads[input_nr])
            self.recorder.note("capture", node, slot=result_nr, value=value)

    def apply(self, node: Node, grads: list[Any], needs: tuple[Any, ...]) -> Sequence[Any]:
        """What an AccumulateGrad does to its leaf is a step, before the leaf's hooks see it."""
        if not isinstance(node, AccumulateGrad):
            return super().apply(node, grads, needs)
        text = "set" if node.variable.autograd_meta.grad is None else "added"
        node.accumulate(grads)
        if grads[0] is not None:
            value = self.recorder.value(node.variable.autograd_meta.grad)
            self.recorder.note("accumulate", node, text=text, value=value)
        node.call_post_accumulate_hooks()
        return ()

    def release(self, node: Node) -> None:
        """What was saved is gone."""
        super().release(node)
        self.recorder.note("release", node, self.queue)

    def add(self, node: Node, input_nr: int, buffer: list[Any], gradient: Any) -> None:
        """A gradient comes to a buffer."""
        super().add(node, input_nr, buffer, gradient)
        value, waiting = self.recorder.value(buffer[input_nr]), self.dependencies[node]
        self.recorder.note("buffer", node, self.queue, slot=input_nr, waiting=waiting, value=value)

    def call_hook(
        self, node: Node, kind: str, hook: Callable[..., Any], *values: Any, slot: int = 0
    ) -> Any:
        """A hook fires; that of `retain_grad` is the lab's own, and has no name."""
        name = "" if kind == "retain_grad" else getattr(hook, "__name__", "")
        self.recorder.note("hook", node, text=f"{kind} {name}".strip(), slot=slot)
        return super().call_hook(node, kind, hook, *values, slot=slot)


@contextmanager
def recording(most_elements: int = 256, recorder: Recorder | None = None) -> Iterator[Recorder]:
    """Inside the `with`, backward calls add their steps to the recorder's list.

    recorder  what to add them to; one that describes tensors differently, say
    """
    recorder = recorder or Recorder(most_elements)
    before = ENGINE.new_task
    ENGINE.new_task = partial(RecordedTask, recorder)
    UNPACK_OBSERVERS.append(recorder.unpacked)
    try:
        yield recorder
    finally:
        UNPACK_OBSERVERS.remove(recorder.unpacked)
        ENGINE.new_task = before


@contextmanager
def unobserved() -> Iterator[None]:
    """Inside the `with`, nobody is told when a saved tensor is looked at."""
    observers, UNPACK_OBSERVERS[:] = UNPACK_OBSERVERS[:], []
    try:
        yield
    finally:
        UNPACK_OBSERVERS[:] = observers
