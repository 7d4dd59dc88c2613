"""A program of hooks, its first backward walked through in labkit's engine."""

from collections.abc import Callable
from typing import Any

from labkit.course.exercise import Case


def walk(case: Case, got: Any, right: Any) -> Any:
    """The first backward of the program, with the hooks that are there by then.

    Every hook fires at its node, under its own name; a call `t0` is the node `t0Backward`.
    """
    import labkit as lab  # the course is quick to import: what draws comes when it is drawn
    from labkit import show
    from labkit.autograd import Function

    tensors: dict[str, Any] = {}
    handles: dict[str, Any] = {}
    for step, name, *rest in case.inputs[0]:
        if step == "leaf":
            tensors[name] = lab.tensor(1.0, dtype=lab.float64, requires_grad=True)
        elif step == "call":
            factors = list(rest[0].values())
            node: Any = type(name, (Function,), _sum_of(factors))
            tensors[name] = node.apply(*(tensors[one] for one in rest[0]))
        elif step == "hook" and rest[0] != "multi":
            handles[name] = _hung(tensors[rest[1]], name, *rest)
        elif step == "remove" and name in handles:
            handles[name].remove()
        elif step == "backward":
            w0, w1, w2 = (tensors.get(f"w{n}") for n in range(3))  # noqa: RUF059  the picture's names
            return show.backward(tensors[name], title=f"backward from {name}", at=1)
    return None


def _sum_of(factors: list[int]) -> dict[str, Any]:
    def forward(ctx: Any, *inputs: Any) -> Any:
        return sum(factor * one for factor, one in zip(factors, inputs, strict=True))

    def backward(ctx: Any, grad: Any) -> Any:
        return tuple(factor * grad for factor in factors)

    return {"forward": staticmethod(forward), "backward": staticmethod(backward)}


def _hung(tensor: Any, name: str, kind: str, where: str, action: Any) -> Any:
    """The handle of a hook of this name; only one that returns a number does more than look."""
    factor = action if isinstance(action, int) else 1

    def changed(grad: Any) -> Any:
        return grad * factor

    by_kind: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "tensor": (tensor.register_hook, changed),
        "stored": (tensor.register_post_accumulate_grad_hook, lambda leaf: None),
    }
    if kind in ("pre", "post"):
        node = tensor.grad_fn
        by_kind["pre"] = node.register_prehook, lambda grads: (changed(grads[0]),)
        by_kind["post"] = node.register_hook, lambda grads, _: tuple(map(changed, grads))
    register, hook = by_kind[kind]
    hook.__name__ = name
    return register(hook)
