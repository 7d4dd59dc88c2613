"""Seats of autograd: what is recorded, what is kept, the formulas, the loop, the hooks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from labkit.autograd.engine.graph_task import GraphTask
from labkit.autograd.engine.hook_results import check_grad
from labkit.autograd.engine.validate import validate_outputs
from labkit.autograd.node import Node, nodes_from
from labkit.autograd.state import STATE
from labkit.autograd.variables.variable import requires_grad
from labkit.core import tensor_impl
from labkit.core.tensor_impl import TensorImpl
from labkit.course.exercises._engine_steps import Step
from labkit.course.your_machine.seat import Ask, Differs, Place, Seat, place
from labkit.ops.aten import aten
from labkit.ops.tensors import copy

TOLERANCE = 1e-4
"""Relative to the largest number of a tensor: how far sums in another order may be apart."""
ROWS = {
    "add.Tensor": ("add", ("self", "other")),
    "mul.Tensor": ("mul", ("self", "other")),
    "div.Tensor": ("div", ("self", "other")),
    "pow.Tensor_Tensor": ("pow", ("self", "exponent")),
}
"""Operator -> its name in the exercise, and the arguments that it differentiates."""


def close(mine: TensorImpl, right: TensorImpl) -> bool:
    """Whether two tensors hold the same numbers, but for rounding."""
    if mine.sizes != right.sizes or mine.dtype is not right.dtype:
        return False
    a, b = copy.values(mine), copy.values(right)
    largest = float(np.abs(b).max()) if b.size else 0.0
    return bool(np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * largest))


# -- asks


def _about_inputs(tensors: Any) -> tuple[bool, str, list[bool]]:
    """Recording is on, the dtype, and per input whether it asks."""
    given = [tensor for tensor in tensors if tensor is not None]
    return bool(STATE.grad), given[0].dtype.name, [bool(requires_grad(one)) for one in given]


def _some_floats(tensors: Any) -> bool:
    """Whether a call is recorded that has inputs, in a list that can be read twice, all floats."""
    if not STATE.grad or not isinstance(tensors, list | tuple):
        return False
    given = [tensor for tensor in tensors if tensor is not None]
    return bool(given) and all(one.dtype.is_floating_point for one in given)


# -- waits


def _steps(root: Node) -> tuple[list[Step]]:
    """The graph as the exercise has it: nodes with edges."""
    steps = {node: Step(node.name(), []) for node in nodes_from(root)}
    for node, step in steps.items():
        step.node = node  # type: ignore[attr-defined]
        step.edges = [steps[edge[0]] if edge else None for edge in node.next_edges]
    return (list(steps.values()),)


def _counts(value: Any, root: Node) -> dict[Node, int]:
    return {step.node: count for step, count in dict(value).items() if count}


# -- derivative_row


def _has_row(node: Any, grads: Any, needs: Any) -> bool:
    return node.differentiation.row.operator in ROWS and grads[0] is not None


def to_torch(tensor: TensorImpl) -> torch.Tensor:
    """A copy for code that is written with torch."""
    return torch.from_numpy(np.array(copy.values(tensor)))


def from_torch(tensor: torch.Tensor, like: TensorImpl) -> TensorImpl:
    """A copy on the device of `like`, in its dtype."""
    made = tensor_impl.empty(tuple(tensor.shape), like.dtype, like.device)
    copy.store(made, tensor.detach().contiguous().numpy())
    return made


def _row(ask: Ask, node: Any, grads: Any, needs: Any) -> list[Any]:
    """The part's gradients of one node, one per edge."""
    name, arguments = ROWS[node.differentiation.row.operator]
    inputs: list[Any] = []
    for argument, edge in zip(arguments, node.next_edges, strict=True):
        saved = node._unpacked(argument) if argument in getattr(node, "saved", {}) else None
        shape = edge[0].input_metadata[edge[1]].shape if edge else ()
        inputs.append(torch.zeros(shape) if saved is None else to_torch(saved))
    if name == "add":
        inputs.append(node.values.get("alpha", 1))
    wanted = tuple(bool(need) for need in needs)
    with torch.no_grad():
        found = ask(name, to_torch(grads[0]), tuple(inputs), (*wanted, False)[: len(inputs)])
    found = list(found)[: len(arguments)]
    return [None if one is None else from_torch(one, grads[0]) for one in found]


def _row_of_labkit(function: Any, node: Any, grads: Any, needs: Any) -> Any:
    return validate_outputs(node.next_edges, function(node, grads, needs), node)


def _same_rows(mine: Sequence[Any], right: Sequence[Any], *args: Any) -> bool:
    return len(mine) == len(right) and all(
        (a is None) == (b is None) and (a is None or close(a, b))
        for a, b in zip(mine, right, strict=True)
    )


# -- engine_loop


class Dry(GraphTask):
    """Goes labkit's way through a graph and computes nothing."""

    def __init__(self, task: GraphTask) -> None:
        self.task = task
        self.root, self.grads, self.keep_graph = task.root, task.grads, True
        self.dependencies = dict(task.dependencies)
        self.not_ready, self.exec_info, self.captured = {}, None, []
        self.queue: list[Any] = []
        self.floor = task.floor
        self.order: list[Node] = []

    def evaluate(self, node: Node, buffer: list[Any]) -> None:
        """The node has its place in the order."""
        self.order.append(node)
        for edge in node.next_edges:
            if edge:
                self.pass_on(edge, None)


class Gradient:
    """A gradient as the exercise has it: two of them make a new one."""

    def __init__(self, run: "EngineRun", tensor: Any) -> None:
        self.run, self.tensor = run, tensor
        run.alive.append(tensor)  # labkit frees it, not the part

    def __add__(self, other: "Gradient") -> "Gradient":
        with self.run.ask.outside():
            return Gradient(self.run, aten.add.Tensor(self.tensor, other.tensor))


class Seen:
    """A node as the exercise has it; it sees to it that each gradient is the right one."""

    def __init__(self, run: "EngineRun", node: Node) -> None:
        self.run, self.node = run, node
        self.num_inputs, self.sequence_nr = node.num_inputs, node.sequence_nr
        self.next_edges: list[tuple[Seen, int] | None] = []

    def apply(self, grads: list[Gradient | None]) -> list[Gradient | None]:
        """The node's gradients, one per edge."""
        with self.run.ask.outside():
            given = [None if grad is None else grad.tensor for grad in grads]
            self.run.alive = given[:]
            results = self.run.apply(self, given)
            return [None if one is None else Gradient(self.run, one) for one in results]

    def release(self) -> None:
        """What the node saved is gone."""
        self.run.released.add(self.node)
        with self.run.ask.outside():
            if self.node.has_saved and not self.run.task.keep_graph:
                self.run.task.release(self.node)


class EngineRun:
    """One backward call, run by a part; what came to each node is noted, and compared."""

    def __init__(self, ask: Ask, task: GraphTask) -> None:
        self.ask, self.task = ask, task
        dry = Dry(task)
        dry.run()
        self.right = dry.order
        self.order: list[Node] = []
        self.released: set[Node] = set()
        self.alive: list[Any] = []
        """Gradients that the part may let go of."""
        self.arrived: dict[tuple[Node, int], list[Any]] = {}
        self.seen = {node: Seen(self, node) for node in nodes_from(task.root)}
        for node, seen in self.seen.items():
            seen.next_edges = [
                (self.seen[edge[0]], edge[1]) if edge else None for edge in node.next_edges
            ]

    def run(self) -> None:
        """The part has run every node.

        Raises   Differs   it left one out, ran one too early, or gave one another gradient
        """
        root = self.seen[self.task.root]
        slots = [slot for slot, grad in enumerate(self.task.grads) if grad is not None] or [0]
        given = [self.task.grads[slot] if self.task.grads else None for slot in slots]
        for slot, grad in zip(slots, given, strict=True):
            self._note(self.task.root, slot, grad)
        wrapped = [None if grad is None else Gradient(self, grad) for grad in given]
        self.ask([(root, slot) for slot in slots], wrapped)
        if len(self.order) != len(self.right):
            names = [node.name() for node in self.right if node not in self.order]
            raise Differs(f"{len(self.order)} nodes ran", f"{len(self.right)} run, also {names}")

    def apply(self, seen: Seen, grads: list[Any]) -> list[Any]:
        """One node runs, if it is its turn."""
        node, at = seen.node, len(self.order)
        if at >= len(self.right) or self.right[at].sequence_nr != node.sequence_nr:
            turn = self.right[at].name() if at < len(self.right) else "no node any more"
            raise Differs(f"step {at + 1} runs {node.name()}", turn)
        if self.order and self.order[-1] not in self.released:
            raise Differs(f"{self.order[-1].name()} keeps what it saved", "it was released")
        self.order.append(node)
        if len(grads) != node.num_inputs:
            raise Differs(f"{node.name()} got {len(grads)} gradients", node.num_inputs)
        for slot, grad in enumerate(grads):
            self._check(node, slot, grad)
        results = self.task.call(node, list(grads))
        for edge, gradient in zip(node.next_edges, results, strict=True):
            if edge:
                self._note(edge[0], edge[1], gradient)
        return list(results)

    def _note(self, node: Node, slot: int, gradient: Any) -> None:
        if gradient is not None:
            self.arrived.setdefault((node, slot), []).append(gradient)

    def _check(self, node: Node, slot: int, grad: Any) -> None:
        """The gradient is the sum of all that came.

        Raises   Differs   it is another
        """
        came = self.arrived.pop((node, slot), [])
        if len(came) == 1 and came[0] is grad:
            return
        if (grad is None) != (not came):
            raise Differs(f"input {slot} of {node.name()}: {grad}", f"the sum of {len(came)}")
        if came:
            right = came[0]
            for more in came[1:]:
                right = aten.add.Tensor(right, more)
            if not close(grad, right):
                raise Differs(
                    f"input {slot} of {node.name()}: {copy.values(grad).ravel()[:3]}, ...",
                    f"{copy.values(right).ravel()[:3]}, ..., the sum of {len(came)}",
                )


def _whole_graph(task: GraphTask) -> bool:
    return task.exec_info is None and type(task) is GraphTask


# -- unpack and through


def _unwritten(ask: Ask, saved: Any, data: TensorImpl) -> bool:
    """Whether the part gives the saved tensor back."""
    memory = [data]
    try:
        return ask((memory, [data.version], saved.version)) is memory
    except RuntimeError as error:
        if isinstance(error, NotImplementedError):
            raise
        return False


def _through(ask: Ask, task: GraphTask, node: Node, hooks: Any, grad: Any, number: int) -> Any:
    """What the part leaves of a gradient; every hook is called once, with what was left so far."""
    left: list[Any] = [grad]
    called: list[int] = []

    def watched(at: int, hook: Any) -> Any:
        def call(given: Any) -> Any:
            with ask.outside():
                if at != len(called) or given is not left[-1]:
                    raise Differs(
                        f"hook {at} was call {len(called)}", "each once, with what is left"
                    )
                called.append(at)
                result = task.call_hook(node, "tensor", hook, given, slot=number)
                left.append(given if result is None else check_grad(hook, result, given))
                return result

        return call

    found = ask([watched(at, hook) for at, hook in enumerate(hooks)], grad)
    if len(called) != len(hooks) or found is not left[-1]:
        raise Differs(f"{len(called)} hooks were called", f"{len(hooks)}, and what they left")
    return found


SEATS = (
    Seat(
        "introduction.asks",
        "is it recorded?",
        "autograd",
        "From the switch, the dtype and the inputs comes whether a call leaves a node behind.",
        "torch/csrc/autograd/functions/utils.h  compute_requires_grad",
        (
            place(
                "labkit.autograd.variables.variable.compute_requires_grad",
                _about_inputs,
                covers=_some_floats,
            ),
        ),
    ),
    Seat(
        "versions.unpack",
        "unchanged since saved?",
        "autograd",
        "A saved tensor comes back, unless somebody has written into it since.",
        "torch/csrc/autograd/saved_variable.cpp  SavedVariable::unpack",
        (Place("labkit.autograd.variables.saved_variable.SavedVariable.is_as_saved", _unwritten),),
    ),
    Seat(
        "autograd_engine.derivative_row",
        "the formulas",
        "autograd",
        "From the gradient of a sum or a product come those of its inputs.",
        "tools/autograd/derivatives.yaml  add.Tensor, mul.Tensor, div.Tensor",
        (
            Place(
                "labkit.autograd.kernels.backward_node.BackwardNode.apply",
                _row,
                right=_row_of_labkit,
                same=_same_rows,
                covers=_has_row,
            ),
        ),
    ),
    Seat(
        "autograd.waits",
        "what a node waits for",
        "autograd",
        "Per node of the graph, how many gradients will come.",
        "torch/csrc/autograd/engine.cpp  Engine::compute_dependencies",
        (
            place(
                "labkit.autograd.engine.graph_task.compute_dependencies",
                _steps,
                _counts,
            ),
        ),
    ),
    Seat(
        "autograd_engine.engine_loop",
        "the engine",
        "autograd",
        "Every node runs once, when all its gradients have come; the one made last goes first.",
        "torch/csrc/autograd/engine.cpp  Engine::thread_main, evaluate_function",
        (
            Place(
                "labkit.autograd.engine.graph_task.GraphTask.run",
                lambda ask, task: EngineRun(ask, task).run(),
                covers=_whole_graph,
                checks=True,
            ),
        ),
    ),
    Seat(
        "hooks.through",
        "gradient through hooks",
        "autograd",
        "A gradient goes through the hooks of its tensor, each sees what the one before left.",
        "torch/csrc/autograd/engine.cpp  call_tensor_pre_hooks",
        (
            Place(
                "labkit.autograd.engine.graph_task.GraphTask.through",
                _through,
                checks=True,
            ),
        ),
    ),
)
