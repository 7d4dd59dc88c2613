"""The engine: gradients from the roots to the leaves, every node once, in PyTorch's order.

A node runs when all gradients that will ever come to it have come: the edges into it are counted
first. Of the nodes that can run, the one made last runs first. There is no recursion anywhere, so
a graph may be a million nodes deep.

Source   torch/csrc/autograd/engine.cpp  Engine::execute
Differs  Nodes on every device run on the calling thread.
"""

from collections.abc import Callable, Sequence
from typing import Any

from labkit.autograd import ready_queue
from labkit.autograd.anomaly import check_nan, warn_of_failure
from labkit.autograd.calls import call_node
from labkit.autograd.exec_info import ExecInfo, compute_exec_info
from labkit.autograd.input_buffer import accumulate
from labkit.autograd.node import Edge, Node, next_sequence_nr
from labkit.autograd.recording import ENGINE
from labkit.autograd.state import ANOMALY, STATE
from labkit.autograd.validate import reduced, validate_outputs


class GraphRoot(Node):
    """A node in front of several roots: it hands each its gradient.

    Source   torch/csrc/autograd/functions/basic_ops.h  GraphRoot
    """

    def __init__(self, roots: Sequence[Edge], grads: list[Any]) -> None:
        self.sequence_nr = next_sequence_nr()
        self.next_edges = tuple(roots)
        self.grads = grads

    def apply(self, grads: list[Any], needs: tuple[Any, ...]) -> list[Any]:
        """The gradients the backward call was given."""
        return self.grads


class GraphTask:
    """One backward call.

    keep_graph     saved tensors stay
    dependencies   node -> gradients that are still to come
    not_ready      node -> its input buffer, while some are
    exec_info      node -> what to do with it; None when every node runs

    Source   torch/csrc/autograd/graph_task.h  GraphTask
    """

    root: Node

    def __init__(self, keep_graph: bool) -> None:
        self.keep_graph = keep_graph
        self.dependencies: dict[Node, int] = {}
        self.not_ready: dict[Node, list[Any]] = {}
        self.exec_info: dict[Node, ExecInfo] | None = None
        self.captured: list[Any] = []
        self.final_callbacks: list[Callable[[], None]] = []


def compute_dependencies(root: Node) -> dict[Node, int]:
    """Per node that can be reached, how many edges lead to it.

    Source   torch/csrc/autograd/engine.cpp  Engine::compute_dependencies
    """
    counts: dict[Node, int] = {}
    stack = [root]
    while stack:
        for edge in stack.pop().next_edges:
            if edge:
                node = edge[0]
                if node in counts:
                    counts[node] += 1
                else:
                    counts[node] = 1
                    stack.append(node)
    return counts


def execute(
    roots: Sequence[Edge],
    grads: list[Any],
    keep_graph: bool,
    create_graph: bool,
    outputs: Sequence[Edge] = (),
    accumulate_grad: bool = True,
) -> list[Any]:
    """Run backward from the roots; the gradients captured for `outputs`, if those were asked for.

    grads            one per root
    keep_graph       the graph can be run again
    create_graph     what runs is itself recorded
    outputs          edges whose gradient is wanted; with none, the whole graph runs
    accumulate_grad  the gradients of `outputs` go into `grad` of leaves instead of being captured

    Source   torch/csrc/autograd/engine.cpp  Engine::execute
    """
    grads = list(grads)
    validate_outputs(roots, grads, None)
    task = GraphTask(keep_graph)
    if len(roots) == 1:
        ((root, input_nr),) = roots
        buffer = [None] * max(root.num_inputs, input_nr + 1)
        buffer[input_nr] = grads[0]
    else:
        root, buffer = GraphRoot(roots, grads), []
    task.root, task.dependencies = root, compute_dependencies(root)
    if outputs:
        task.exec_info = compute_exec_info(root, outputs, accumulate_grad)
        if not accumulate_grad:
            task.captured = [None] * len(outputs)
    before = (STATE.grad, STATE.running, STATE.task)
    STATE.grad, STATE.task = create_graph, task
    STATE.depth += 1
    try:
        _run(task, root, buffer)
        for callback in task.final_callbacks:  # the list may grow meanwhile
            callback()
    finally:
        STATE.depth -= 1
        STATE.grad, STATE.running, STATE.task = before
    return task.captured


def _run(task: GraphTask, root: Node, buffer: list[Any]) -> None:
    """Nodes run as long as any of this task is ready."""
    recorder = ENGINE.recorder
    heap = _thread_queue()
    floor = (STATE.depth - 1) << 64  # a backward inside a backward runs to its end first
    if recorder is not None:
        recorder.graph([root])
        counts = {recorder.number(node): count for node, count in task.dependencies.items()}
        recorder.note("start", root, dependencies=counts)
    ready_queue.push(heap, (floor + root.sequence_nr, root, buffer))
    outstanding = 1
    pop = ready_queue.pop
    node = root
    try:
        while outstanding:
            _number, node, buffer = heap.pop() if len(heap) == 1 else pop(heap)
            outstanding -= 1
            if recorder is not None:
                recorder.note("pop", node, heap)
            outstanding += evaluate(task, node, buffer, heap, floor)
    except BaseException as error:
        while heap and heap[0][0] >= floor:
            ready_queue.pop(heap)
        if recorder is not None:
            recorder.note("error", text=f"{type(error).__name__}: {error}")
        if ANOMALY.enabled and isinstance(error, Exception):
            warn_of_failure(node)
        raise
    if recorder is not None:
        recorder.note("end")


def _thread_queue() -> list[ready_queue.Task]:
    heap: list[ready_queue.Task] | None = STATE.__dict__.get("queue")
    if heap is None:
        heap = STATE.__dict__["queue"] = []
    return heap


def evaluate(
    task: GraphTask, node: Node, buffer: list[Any], heap: list[ready_queue.Task], floor: int
) -> int:
    """Run one node and hand its results on; how many nodes became ready.

    Source   torch/csrc/autograd/engine.cpp  Engine::evaluate_function
    """
    exec_info = task.exec_info
    edges = needs = node.next_edges
    if exec_info is not None:
        info = exec_info[node]
        buffer = info.capture(task.captured, node, buffer)
        if not info.needed:
            return 0
        needs = tuple(
            edge if edge and edge[0] in exec_info and exec_info[edge[0]].should_execute else None
            for edge in edges
        )
    outputs = call_node(node, buffer, needs) if node.is_hooked else node.apply(buffer, needs)
    if len(outputs) != len(edges):
        validate_outputs(edges, outputs, node)  # says what is wrong
    del buffer  # so that a gradient handed on unchanged is nobody else's
    recorder = ENGINE.recorder
    if not task.keep_graph and node.has_saved:
        node.release_variables()
        if recorder is not None:
            recorder.note("release", node, heap)
    if ANOMALY.enabled and ANOMALY.check_nan:
        check_nan(node, outputs)
    dependencies, not_ready = task.dependencies, task.not_ready
    became_ready = number = 0
    for edge in edges:
        if not edge:
            number += 1
            continue
        following, input_nr = edge
        left = dependencies[following] - 1
        dependencies[following] = left
        waiting = not_ready.get(following) if not_ready else None
        if waiting is None:
            if exec_info is not None and not needs[number]:
                number += 1
                continue
            waiting = [None] * (len(following.inputs) // 3)
            if left:
                not_ready[following] = waiting
        elif not left:
            del not_ready[following]
        grad = outputs[number]
        if grad is not None:
            sizes, dtype, device = following.inputs[3 * input_nr : 3 * input_nr + 3]
            if grad.sizes != sizes or grad.dtype is not dtype or grad.device is not device:
                grad = reduced(grad, sizes, dtype, device, number, node)
            held = waiting[input_nr]
            if held is None:
                waiting[input_nr] = grad
            else:
                waiting[input_nr] = None  # so that nobody but `held` has it
                waiting[input_nr] = accumulate(held, grad)
                del held
            if recorder is not None:
                recorder.note(
                    "buffer", following, heap, slot=input_nr, waiting=left,
                    value=recorder.value(waiting[input_nr]),
                )  # fmt: skip
        number += 1
        if not left:
            became_ready += 1
            ready = (floor + following.sequence_nr, following, waiting)
            if heap:
                ready_queue.push(heap, ready)
            else:
                heap.append(ready)
            if recorder is not None:
                recorder.note("ready", following, heap)
    return became_ready
