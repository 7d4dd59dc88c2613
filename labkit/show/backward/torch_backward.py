"""Backward calls of torch, recorded through hooks on every node as labkit records its own.

PyTorch tells of a node only that it is about to run, and that it ran. What lies between, how many
gradients each node waits for, what the ready heap holds, what the buffers add up to, follows from
the graph by the engine's rules, and is computed here beside the real run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from labkit.autograd.engine import ready_queue
from labkit.autograd.recording import NodeNote, Recorder, Value
from labkit.show.backward.autograd_walk import VERSIONS, Walk, short_name
from labkit.show.backward.recorder import MOST_ELEMENTS, saved_names

Hook = Callable[..., Any]


class TorchRecorder(Recorder):
    """Describes torch's nodes and tensors."""

    def __init__(self, walk: Walk) -> None:
        super().__init__(MOST_ELEMENTS)
        self.walk = walk

    def recording(self) -> AbstractContextManager[Any]:
        """Inside the `with`, backward calls add their steps here."""
        return torch_recording(self)

    def engine(self, roots: Sequence[Any], gradients: Sequence[Any], **options: Any) -> None:
        """Run backward."""
        torch.autograd.backward(roots, gradients, **options)

    def number(self, node: Any) -> int:
        """The node's number; nodes met for the first time get the next one."""
        if id(node) not in self._numbers:
            self._numbers[id(node)] = len(self.nodes)
            self._alive.append(node)
            inputs = len(node._input_metadata)
            self.nodes.append(NodeNote(node.name(), node._sequence_nr(), inputs, []))
        return self._numbers[id(node)]

    def graph(self, roots: Sequence[Any]) -> None:
        """All nodes from these roots are described, and have numbers."""
        self.walk.add(roots)
        for node in self.walk.order:
            self.number(node)

    def value(self, tensor: Any) -> Value | None:
        """What is kept of a tensor."""
        if tensor is None:
            return None
        small = tensor.layout is torch.strided and tensor.numel() <= self.most_elements
        with _disable_current_modes():  # a mode would be handed wrapped numbers as Python's
            numbers = tensor.detach().reshape(-1).tolist() if small else None
        return Value(tuple(tensor.shape), str(tensor.dtype), tensor._version, numbers)


@contextmanager
def torch_recording(recorder: TorchRecorder) -> Iterator[TorchRecorder]:
    """Inside the `with`, torch's backward calls add their steps to the recorder's.

    Differs  hooks of tensors are seen on leaves, on roots, and where they were registered inside
             the `with`; others fire unseen, as do hooks that were registered on nodes
    """
    run = torch.autograd._engine_run_backward
    register = torch.Tensor.register_hook

    def watched(outputs: Any, grads: Any, keep: bool, create: bool, inputs: Any = (), *rest: Any,
                **options: Any) -> Any:  # fmt: skip
        call = _Call(recorder, outputs, grads, keep, inputs, options)
        try:
            with call.hooks():
                result = run(outputs, grads, keep, create, inputs, *rest, **options)
        except BaseException as error:
            recorder.note("error", text=f"{type(error).__name__}: {error}")
            raise
        call.finish()
        return result

    def registered(tensor: Any, hook: Hook) -> Any:
        return register(tensor, _noted(recorder, tensor.grad_fn, "tensor", hook))

    torch.autograd._engine_run_backward = watched
    torch.Tensor.register_hook = registered
    try:
        yield recorder
    finally:
        torch.autograd._engine_run_backward = run
        torch.Tensor.register_hook = register


def _noted(recorder: TorchRecorder, node: Any, kind: str, hook: Hook) -> Hook:
    name = getattr(hook, "__name__", "")

    def noting(*values: Any) -> Any:
        recorder.note("hook", node, text=f"{kind} {name}".strip())
        return hook(*values)

    return noting


class _Call:
    """One backward call: what the engine does between the hooks it calls."""

    def __init__(
        self, recorder: TorchRecorder, outputs: Any, grads: Any, keep: bool, inputs: Any,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.recorder, self.keep = recorder, keep
        self.roots = [(edge.node, edge.output_nr) for edge in gradient_edges(outputs)]
        self.tensors = [one for one in outputs if isinstance(one, torch.Tensor)]
        recorder.graph([node for node, _ in self.roots])
        self.nodes = _reachable([node for node, _ in self.roots])
        self.waiting = dict.fromkeys(self.nodes, 0)
        for node in self.nodes:
            for target, _ in node.next_functions:
                if target is not None:
                    self.waiting[target] += 1
        self.wanted = self._wanted(inputs)
        captures = not options.get("accumulate_grad", True)
        ends = gradient_edges(inputs if captures else ())
        self.captured = {edge.node: i for i, edge in enumerate(ends)}
        self.heap: list[Any] = []
        self.sums: dict[tuple[Any, int], Any] = {}
        self.had_grad = False
        self._begin(grads)

    def _wanted(self, inputs: Any) -> set[Any]:
        """The nodes on a path to one of the inputs; all, when none is named."""
        if not inputs:
            return set(self.nodes)
        wanted = {edge.node for edge in gradient_edges(inputs)}
        by_age = sorted(self.nodes, key=lambda node: node._sequence_nr())
        for node in by_age:  # targets were made before
            if any(target in wanted for target, _ in node.next_functions):
                wanted.add(node)
        return wanted

    def _begin(self, grads: Any) -> None:
        recorder = self.recorder
        counts = {recorder.number(node): count for node, count in self.waiting.items() if count}
        if len(self.roots) == 1:
            ((root, slot),) = self.roots
            recorder.note("start", root, [(0, root)], dependencies=counts)
            self.sums[root, slot] = _copy(grads[0])
            ready_queue.push(self.heap, (root._sequence_nr(), root, None))
            return
        for root, _ in self.roots:
            self.waiting[root] += 1
            counts[recorder.number(root)] = self.waiting[root]
        recorder.note("start", dependencies=counts)
        for (root, slot), grad in zip(self.roots, grads, strict=True):
            self._arrives(root, slot, grad)

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Every node tells before and after it runs; hooks of leaves and roots tell as well."""
        removable, replaced = [], []
        for tensor, node in [*_leaves(self.nodes), *((t, t.grad_fn) for t in self.tensors)]:
            kinds = (("tensor", "_backward_hooks"), ("post-accumulate",
                     "_post_accumulate_grad_hooks"))  # fmt: skip
            for kind, attribute in kinds:
                table = getattr(tensor, attribute, None) or {}
                for key, hook in list(table.items()):
                    replaced.append((table, key, hook))
                    table[key] = _noted(self.recorder, node, kind, hook)
        for node in self.nodes:
            removable.append(node.register_prehook(self._before(node)))
            removable.append(node.register_hook(self._after(node)))
        try:
            yield
        finally:
            for handle in removable:
                handle.remove()
            for table, key, hook in replaced:
                table[key] = hook

    def _before(self, node: Any) -> Hook:
        def before(grads: Any) -> None:
            fired = self._take_hooks(node)  # tensor hooks fire first, yet after the node was popped
            self._pop_until(node)
            self.recorder.steps += fired
            self._saved(node)
            leaf = short_name(node) == "AccumulateGrad"
            self.had_grad = leaf and node.variable.grad is not None

        return before

    def _take_hooks(self, node: Any) -> list[Any]:
        steps, number, taken = self.recorder.steps, self.recorder.number(node), []
        while steps and steps[-1].kind == "hook" and steps[-1].node == number:
            taken.append(steps.pop())
        return taken[::-1]

    def _pop_until(self, node: Any) -> None:
        """The node leaves the heap, or all do; what leaves without running was captured."""
        while self.heap:
            _, first, _ = ready_queue.pop(self.heap)
            self.recorder.note("pop", first, self.heap)
            if first is node:
                return
            self._capture(first)

    def _capture(self, node: Any) -> None:
        values = [held for (owner, _), held in self.sums.items() if owner is node]
        value = self.recorder.value(values[0]) if values else None
        if node in self.captured:
            self.recorder.note("capture", node, self.heap, slot=self.captured[node], value=value)
        else:
            self.recorder.note("skip", node, self.heap)

    def _saved(self, node: Any) -> None:
        for name in saved_names(node):
            try:
                saved = getattr(node, name)
            except RuntimeError as error:
                found = VERSIONS.search(str(error))
                if found:
                    now, then = map(int, found.groups())
                    self.recorder.note("unpack", node, text=name.removeprefix("_saved_"),
                                       version=now, expected=then)  # fmt: skip
                    return  # the engine stops at the first as well
                continue
            for one in saved if isinstance(saved, list | tuple) else (saved,):
                if isinstance(one, torch.Tensor):
                    self.recorder.note(
                        "unpack", node, text=name.removeprefix("_saved_"), version=one._version,
                        expected=one._version, value=self.recorder.value(one),
                    )  # fmt: skip

    def _after(self, node: Any) -> Hook:
        def after(results: Any, grads: Any) -> None:
            recorder = self.recorder
            if short_name(node) == "AccumulateGrad":
                text = "added" if self.had_grad else "set"
                fired = self._take_hooks(node)
                while fired and not fired[0].text.startswith("post"):
                    recorder.steps.append(fired.pop(0))
                value = recorder.value(node.variable.grad)
                recorder.note("accumulate", node, text=text, value=value)
                recorder.steps += fired
            elif not self.keep and saved_names(node):
                recorder.note("release", node, self.heap)
            for (target, slot), grad in zip(node.next_functions, results, strict=False):
                if target is not None:
                    self._arrives(target, slot, grad)

        return after

    def _arrives(self, node: Any, slot: int, grad: Any) -> None:
        """A gradient has come along one edge."""
        self.waiting[node] -= 1
        if node not in self.wanted:
            return
        left, recorder = self.waiting[node], self.recorder
        if grad is not None:
            held, copied = self.sums.get((node, slot)), _copy(grad)
            with torch.no_grad():
                self.sums[node, slot] = copied if held is None else held + copied
            value = recorder.value(self.sums[node, slot])
            recorder.note("buffer", node, self.heap, slot=slot, waiting=left, value=value)
        if not left:
            ready_queue.push(self.heap, (node._sequence_nr(), node, None))
            recorder.note("ready", node, self.heap)

    def finish(self) -> None:
        """Nothing is left to do."""
        self._pop_until(None)
        self.recorder.note("end")


def gradient_edges(ends: Sequence[Any]) -> list[Any]:
    """Tensors as the edges that their gradients come along; edges stay what they are."""
    edge_of = torch.autograd.graph.get_gradient_edge
    return [edge_of(one) if isinstance(one, torch.Tensor) else one for one in ends]


def _reachable(roots: Sequence[Any]) -> list[Any]:
    found = dict.fromkeys(roots)
    stack = list(found)
    while stack:
        for target, _ in stack.pop().next_functions:
            if target is not None and target not in found:
                found[target] = None
                stack.append(target)
    return list(found)


def _leaves(nodes: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return ((node.variable, node) for node in nodes if short_name(node) == "AccumulateGrad")


def _copy(grad: Any) -> Any:
    """The numbers of a gradient, not the tensor: to hold that would change who may reuse it."""
    with _disable_current_modes():
        return None if grad is None else grad.detach().clone()
