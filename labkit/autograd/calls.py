"""One call of a node, with the hooks around it.

Tensor hooks, hooks that retain a gradient, pre-hooks; the node; a check that the results fit
their edges; post-hooks.

Source   torch/csrc/autograd/engine.cpp  call_function
"""

from typing import Any

from labkit.autograd.hook_results import check_grad, check_grads
from labkit.autograd.node import Node
from labkit.autograd.recording import ENGINE
from labkit.autograd.state import STATE
from labkit.autograd.validate import validate_outputs


def call_node(node: Node, grads: list[Any], needs: tuple[Any, ...]) -> Any:
    """The node's results, one per edge."""
    STATE.running = node
    tensor_hooks = node.tensor_hooks()
    if tensor_hooks is not None or node.retains_grad_hooks is not None:
        grads = call_tensor_hooks(node, grads)
    if node.pre_hooks:
        grads = _call_pre_hooks(node, grads)
    if not node.post_hooks:
        results = node.apply(grads, needs)
        return validate_outputs(node.next_edges, results, node)
    seen = tuple(grads)
    results = validate_outputs(node.next_edges, node.apply(grads, needs), node)
    return _call_post_hooks(node, tuple(results), seen)


def call_tensor_hooks(node: Node, grads: list[Any]) -> list[Any]:
    """The gradients after the hooks of the tensors they belong to; then they are retained."""
    grads = list(grads)
    for hooks, number in node.tensor_hooks() or ():
        for hook in tuple(hooks.values()):
            _note(node, "tensor", hook, number)
            grad = grads[number]
            result = hook(grad)
            if result is not None:
                grads[number] = check_grad(hook, result, grad)
    for number, retain in (node.retains_grad_hooks or {}).items():
        if grads[number] is not None:
            _note(node, "retain_grad", None, number)
            retain(grads[number])
    return grads


def _call_pre_hooks(node: Node, grads: list[Any]) -> list[Any]:
    for hook in tuple((node.pre_hooks or {}).values()):
        _note(node, "pre", hook)
        result = hook(tuple(grads))
        if result is not None:
            grads = list(check_grads(hook, result, grads))
    return grads


def _call_post_hooks(node: Node, results: tuple[Any, ...], seen: tuple[Any, ...]) -> Any:
    for hook in tuple((node.post_hooks or {}).values()):
        _note(node, "post", hook)
        result = hook(results, seen)
        if result is not None:
            results = check_grads(hook, result, results)
    return results


def _note(node: Node, kind: str, hook: Any, slot: int = 0) -> None:
    if ENGINE.recorder is not None:
        name = getattr(hook, "__name__", "")
        ENGINE.recorder.note("hook", node, text=f"{kind} {name}".strip(), slot=slot)
