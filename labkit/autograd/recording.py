"""Every step of a backward call, written down as plain data while it happens.

    with recording() as recorder:
        loss.backward()
    recorder.steps[0]        # Step(kind='start', ...)

Nodes get numbers in the order in which they are met, tensors are described, not kept: a recording
can be stored, and walked forward and backward, long after the graph is gone.

Source   torch/csrc/autograd/engine.cpp  Engine::evaluate_function
Differs  PyTorch's engine keeps no record; its node hooks show a part of this.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

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
    node        number of the node in `Recording.nodes`, -1 where there is none
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
        from labkit.autograd.node import nodes_from  # node.py is what this describes

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
            from labkit.ops import copy  # a recording without tensors needs no operators

            numbers = copy.values(tensor).reshape(-1).tolist()
        return Value(tuple(tensor.sizes), str(tensor.dtype), tensor.version, numbers)

    def note(self, kind: Kind, node: Any = None, heap: Any = (), **facts: Any) -> None:
        """One more step."""
        number = -1 if node is None else self.number(node)
        self.steps.append(Step(kind, number, heap=[self.number(t[1]) for t in heap], **facts))

    def unpacked(self, node: Any, tensor: Any, expected: int) -> None:
        """A saved tensor was asked for; where its version is wrong, an error follows."""
        self.steps.append(
            Step(
                "unpack", -1 if node is None else self.number(node), value=self.value(tensor),
                version=tensor.version, expected=expected,
            )
        )  # fmt: skip


class _Engine:
    recorder: Recorder | None = None
    watched = False
    """Unpacking looks closer: somebody records, or a computed tensor was detached in place."""
    detached = False


ENGINE = _Engine()


@contextmanager
def recording(most_elements: int = 256, recorder: Recorder | None = None) -> Iterator[Recorder]:
    """Inside the `with`, backward calls add their steps to the recorder's list.

    recorder  what to add them to; one that describes tensors differently, say

    Outside, the engine asks once per step whether somebody records.
    """
    before, ENGINE.recorder = ENGINE.recorder, recorder or Recorder(most_elements)
    ENGINE.watched = True
    try:
        yield ENGINE.recorder
    finally:
        ENGINE.recorder = before
        ENGINE.watched = before is not None or ENGINE.detached
