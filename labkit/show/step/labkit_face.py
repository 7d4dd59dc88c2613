"""A step of labkit's: its dispatcher and its engine tell of every hop and every gradient."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

from labkit.autograd.recording import Kind as StepKind
from labkit.autograd.variables.variable import edge_of_history
from labkit.core.dispatch_key import RUNTIME_KEYS
from labkit.core.tensor_impl import TensorImpl
from labkit.dispatch import dispatcher
from labkit.dispatch.recorder import Recorder
from labkit.dispatch.table import Cell
from labkit.show.backward.recorder import WalkingRecorder
from labkit.show.dispatch.paths import shortened
from labkit.show.step.gradients import Gradients
from labkit.show.step.record import Hop, Recording


class HopRecorder(Recorder):
    """Every kernel that labkit's dispatcher enters, on any thread, is a hop of a call."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording

    def wrap(
        self, operator: str, slot: int, cell: Cell, bits: int, via: Literal["call", "redispatch"],
        kernel: Callable[..., Any],
    ) -> Callable[..., Any]:  # fmt: skip
        """The kernel, telling when it is entered, and which node it recorded."""
        recording = self._recording
        where = RUNTIME_KEYS[slot].name
        debug = shortened(cell.kernel.debug) if cell.kernel else ""

        def entered(*args: Any, **kwargs: Any) -> Any:
            outer = recording.call
            if via == "redispatch" and outer >= 0 and recording.calls[outer].operator == operator:
                recording.hop(outer, Hop(where, debug))
                return kernel(*args, **kwargs)
            place = recording.enter(operator, Hop(where, debug))
            try:
                result = kernel(*args, **kwargs)
                _note_nodes(recording, result)
                return result
            finally:
                recording.leave(place)

        return entered


def _note_nodes(recording: Recording, result: Any) -> None:
    """The nodes that made these results are recorded, unless they were before."""
    for one in result if isinstance(result, list | tuple) else (result,):
        edge = edge_of_history(one) if isinstance(one, TensorImpl) else None
        if edge is None:
            continue
        node = edge[0]
        if node.next_edges and node.sequence_nr not in recording.made_by:
            text = f"{node.name()} is recorded"
            recording.made_by[node.sequence_nr] = recording.tick("node recorded", text)


class GradientRecorder(WalkingRecorder):
    """labkit's engine tells of its nodes and gradients."""

    def __init__(self, gradients: Gradients) -> None:
        super().__init__(gradients.walk)
        self._gradients = gradients
        self._came: Counter[Any] = Counter()

    def graph(self, roots: Any) -> None:
        """The graph is known; backward is about to begin."""
        self._came.clear()
        super().graph(roots)
        self._gradients.begins()

    def value(self, tensor: Any) -> Any:
        """What is kept of the tensor; nothing waits for its numbers."""
        if tensor is None:
            return None
        return self._gradients.gradient(
            tensor.data_ptr(), tensor.sizes, tensor.strides, str(tensor.dtype), tensor.device.type
        )

    def unpacked(self, node: Any, tensor: Any, expected: int) -> None:
        """A saved tensor was asked for: no event of the step."""

    def note(self, kind: StepKind, node: Any = None, heap: Any = (), **facts: Any) -> None:
        """The engine's step is an event where the picture shows it."""
        gradients, place = self._gradients, self.walk.place.get(node, -1)
        value = facts.get("value")
        if kind == "pop":
            gradients.runs(place)
        elif kind == "buffer" and value is not None:
            gradients.arrives(self._edge(node, facts["slot"]), place, value)
        elif kind == "accumulate":
            gradients.accumulated(place, value, facts["text"])
        elif kind == "error":
            gradients.fails(facts["text"])
        elif kind == "end":
            gradients.ends()

    def _edge(self, node: Any, slot: int) -> int:
        """The edge from the running node along which the gradient came, the first unused one."""
        source = self._gradients.running
        target = self.walk.place.get(node, -1)
        if source < 0 or target < 0:
            return -1
        return next(iter(self.walk.edge(source, target, slot, self._came)), -1)


@contextmanager
def watching(recording: Recording, gradients: Gradients) -> Iterator[None]:
    """What labkit's dispatcher and engine do inside becomes events."""
    where = dispatcher()
    before = where.recorder
    with ExitStack() as stack:
        stack.enter_context(GradientRecorder(gradients).recording())
        where.set_recorder(HopRecorder(recording))
        stack.callback(where.set_recorder, before)
        yield
