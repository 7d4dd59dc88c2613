"""One backward call: gradients from the roots to the leaves, every node once, in PyTorch's order.

A node runs when all gradients that will ever come to it have come: the edges into it are counted
first. Of the nodes that can run, the one made last runs first. There is no recursion anywhere, so
a graph may be a million nodes deep.

Source   torch/csrc/autograd/graph_task.h  GraphTask
         torch/csrc/autograd/engine.cpp  Engine::thread_main, Engine::evaluate_function
"""

from collections.abc import Callable, Sequence
from typing import Any

from labkit.autograd.anomaly import check_nan, warn_of_failure
from labkit.autograd.engine import ready_queue
from labkit.autograd.engine.exec_info import ExecInfo, compute_exec_info
from labkit.autograd.engine.hook_results import check_grad, check_grads
from labkit.autograd.engine.input_buffer import accumulate
from labkit.autograd.engine.validate import validate_outputs
from labkit.autograd.node import Edge, Node, next_sequence_nr
from labkit.autograd.state import ANOMALY, STATE


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
                if node not in counts:
                    counts[node] = 0
                    stack.append(node)
                counts[node] += 1
    return counts


class GraphTask:
    """A backward call, and where it has come to.

    keep_graph     saved tensors stay
    dependencies   node -> gradients that are still to come
    not_ready      node -> its input buffer, while some are
    queue          nodes that can run, of this call and of those around it
    exec_info      node -> what to do with it; None when every node runs
    captured       the gradients that were asked for

    Source   torch/csrc/autograd/graph_task.h  GraphTask
    """

    def __init__(
        self,
        roots: Sequence[Edge],
        grads: list[Any],
        keep_graph: bool,
        outputs: Sequence[Edge] = (),
        accumulate_grad: bool = True,
    ) -> None:
        self.keep_graph = keep_graph
        if len(roots) == 1:
            ((self.root, input_nr),) = roots
            self.grads = [None] * max(self.root.num_inputs, input_nr + 1)
            self.grads[input_nr] = grads[0]
        else:
            self.root, self.grads = GraphRoot(roots, grads), []
        self.dependencies = compute_dependencies(self.root)
        self.not_ready: dict[Node, list[Any]] = {}
        self.exec_info: dict[Node, ExecInfo] | None = None
        if outputs:
            self.exec_info = compute_exec_info(self.root, outputs, accumulate_grad)
        self.captured: list[Any] = [] if accumulate_grad else [None] * len(outputs)
        self.final_callbacks: list[Callable[[], None]] = []
        self.queue = STATE.queue
        self.floor = STATE.depth << 64  # a backward inside a backward runs to its end first

    # -- which node is next ---------------------------------------------------------------

    def run(self) -> None:
        """Nodes run as long as any of this call is ready.

        Source   torch/csrc/autograd/engine.cpp  Engine::thread_main
        """
        node = self.root
        self.push(node, self.grads)
        try:
            while self.is_any_ready:
                node, buffer = self.pop()
                self.evaluate(node, buffer)
        except BaseException as error:
            self.abandon(node, error)
            raise

    @property
    def is_any_ready(self) -> bool:
        """A node of this call can run; those of calls around it wait."""
        return bool(self.queue) and self.queue[0][0] >= self.floor

    def push(self, node: Node, buffer: list[Any]) -> None:
        """The node can run: all its gradients are in the buffer."""
        ready_queue.push(self.queue, (self.floor + node.sequence_nr, node, buffer))

    def pop(self) -> tuple[Node, list[Any]]:
        """The node to run now, and its gradients."""
        _number, node, buffer = ready_queue.pop(self.queue)
        return node, buffer

    def abandon(self, node: Node, error: BaseException) -> None:
        """Nothing is ready any more; in anomaly mode, the node's forward call has been shown."""
        while self.is_any_ready:
            ready_queue.pop(self.queue)
        if ANOMALY.enabled and isinstance(error, Exception):
            warn_of_failure(node)

    # -- one node -------------------------------------------------------------------------

    def evaluate(self, node: Node, buffer: list[Any]) -> None:
        """The node has run, and its gradients have been passed on.

        Source   torch/csrc/autograd/engine.cpp  Engine::evaluate_function
        """
        if self.exec_info is not None:
            info = self.exec_info[node]
            self.capture(node, info, buffer)
            if not info.needed:
                return
        gradients = self.call(node, buffer)
        if node.has_saved and not self.keep_graph:
            self.release(node)
        if ANOMALY.enabled and ANOMALY.check_nan:
            check_nan(node, gradients)
        for edge, gradient in zip(node.next_edges, gradients, strict=True):
            if edge:
                self.pass_on(edge, gradient)

    def capture(self, node: Node, info: ExecInfo, grads: list[Any]) -> None:
        """The results hold the gradients that were asked for here.

        Tensor hooks fire first where the node itself, which would call them, does not run.
        """
        if not info.needed:
            self.call_tensor_hooks(node, grads)
        for input_nr, result_nr in info.captures:
            self.captured[result_nr] = grads[input_nr]

    def call(self, node: Node, grads: list[Any]) -> Sequence[Any]:
        """The node's results, one per edge, each as its edge needs it; hooks before and after.

        Source   torch/csrc/autograd/engine.cpp  call_function
        """
        STATE.running = node
        self.call_tensor_hooks(node, grads)
        if node.pre_hooks:
            self.call_pre_hooks(node, grads)
        seen = tuple(grads) if node.post_hooks else ()
        needs = node.next_edges if self.exec_info is None else self.needs(node)
        results = self.apply(node, grads, needs)
        results = validate_outputs(node.next_edges, results, node)
        return self.call_post_hooks(node, results, seen) if node.post_hooks else results

    def apply(self, node: Node, grads: list[Any], needs: tuple[Any, ...]) -> Sequence[Any]:
        """The node itself."""
        results: Sequence[Any] = node.apply(grads, needs)
        return results

    def needs(self, node: Node) -> tuple[Any, ...]:
        """Per edge of the node, something true when a gradient is wanted there."""
        return tuple(edge and self.is_needed(edge[0]) for edge in node.next_edges)

    def is_needed(self, node: Node) -> bool:
        """Gradients have to come to the node, although only some are wanted."""
        info = (self.exec_info or {}).get(node)
        return info is not None and info.should_execute

    def release(self, node: Node) -> None:
        """What the node saved is gone."""
        node.release_variables()

    def pass_on(self, edge: Edge, gradient: Any) -> None:
        """One more gradient has come to the node the edge leads to; with the last, it is ready."""
        node, input_nr = edge
        self.dependencies[node] -= 1
        if self.exec_info is not None and not self.is_needed(node):
            return
        buffer = self.not_ready.pop(node, None) or [None] * node.num_inputs
        if gradient is not None:
            self.add(node, input_nr, buffer, gradient)
        if self.dependencies[node]:
            self.not_ready[node] = buffer
        else:
            self.push(node, buffer)

    def add(self, node: Node, input_nr: int, buffer: list[Any], gradient: Any) -> None:
        """The gradient is in the node's buffer, or in the sum that is there.

        Source   torch/csrc/autograd/input_buffer.cpp  InputBuffer::add
        """
        held, buffer[input_nr] = buffer[input_nr], None  # so that nobody but `held` has it
        buffer[input_nr] = gradient if held is None else accumulate(held, gradient)

    # -- hooks ----------------------------------------------------------------------------

    def call_tensor_hooks(self, node: Node, grads: list[Any]) -> None:
        """Hooks of the tensors the gradients belong to; then the gradients are retained."""
        for hooks, number in node.tensor_hooks() or ():
            grads[number] = self.through(node, tuple(hooks.values()), grads[number], number)
        if node.retains_grad_hooks:
            for number, retain in node.retains_grad_hooks.items():
                if grads[number] is not None:
                    self.call_hook(node, "retain_grad", retain, grads[number], slot=number)

    def through(
        self, node: Node, hooks: Sequence[Callable[..., Any]], grad: Any, number: int
    ) -> Any:
        """What is left of the gradient after all hooks of its tensor."""
        for hook in hooks:
            result = self.call_hook(node, "tensor", hook, grad, slot=number)
            if result is not None:
                grad = check_grad(hook, result, grad)
        return grad

    def call_pre_hooks(self, node: Node, grads: list[Any]) -> None:
        """Hooks that see the node's inputs, and may replace them."""
        for hook in tuple((node.pre_hooks or {}).values()):
            result = self.call_hook(node, "pre", hook, tuple(grads))
            if result is not None:
                grads[:] = check_grads(hook, result, grads)

    def call_post_hooks(
        self, node: Node, results: Sequence[Any], seen: tuple[Any, ...]
    ) -> Sequence[Any]:
        """The results, after the hooks that see and may replace them."""
        results = tuple(results)
        for hook in tuple((node.post_hooks or {}).values()):
            result = self.call_hook(node, "post", hook, results, seen)
            if result is not None:
                results = check_grads(hook, result, results)
        return results

    def call_hook(
        self, node: Node, kind: str, hook: Callable[..., Any], *values: Any, slot: int = 0
    ) -> Any:
        """What the hook returns: every hook of a backward call fires here.

        kind   tensor, retain_grad, pre, post, post-accumulate
        slot   of a tensor's hooks: which input of the node
        """
        return hook(*values)
