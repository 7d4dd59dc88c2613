"""Small functions with a gradient, traced; and training with a check that keeps too much."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.exercise import Rng, handed_out
from labkit.course.step_trace import Saved

Step = tuple[str, int]
ONE = ("square", "exp", "sin", "tanh", "neg", "abs", "sqrt")
"""Functions of one tensor; `sqrt` and `exp` save their result, `neg` nothing."""


@handed_out
def function_of(steps: list[Step]) -> Callable[[Any], Any]:
    """Return x -> a number: the steps one after the other, (operator, which earlier result too)."""

    def f(x: Any) -> Any:
        made = [x]
        for name, other in steps:
            if name in ("mul", "add"):
                made.append(getattr(torch, name)(made[-1], made[other]))
            elif name == "view":
                made.append(made[-1].view(-1))
            elif name == "detach":
                made.append(made[-1] + made[other].detach())
            else:
                made.append(getattr(torch, name)(made[-1]))
        return made[-1].sum()

    return f


def a_function(*names: str) -> Any:
    """A case maker: functions of these steps."""
    drawn = names or (*ONE, "mul", "add", "mul", "view", "detach")

    def case(rng: Rng, size: int) -> tuple[list[Step], list[float]]:
        steps = [(rng.choice(drawn), rng.randint(0, n)) for n in range(1 + size // 2)]
        return steps, [0.5 + rng.randint(0, 8) / 8 for _ in range(2)]

    return case


def described(steps: list[Step], values: list[float]) -> str:
    """The function as it is computed; x0 is x."""
    lines = []
    for n, (name, other) in enumerate(steps):
        more = {"mul": f" * x{other}", "add": f" + x{other}", "detach": f" + x{other}.detach()"}
        text = f"x{n}{more[name]}" if name in more else f"{name}(x{n})"
        lines.append(f"x{n + 1} = {text}")
    return f"{'; '.join(lines)}; x{len(steps)}.sum(), x0 = {values}"


class _Ops(TorchDispatchMode):  # type: ignore[misc]  # torch is untyped here
    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self.events = events

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.events.append(f"op {func.name().removeprefix('aten::')}")
        return func(*args, **(kwargs or {}))


@handed_out
def finished_trace(f: Any, x: Any) -> list[str]:
    """All events of f(x).backward(), in order."""
    events: list[str] = []
    count = 0

    def pack(tensor: Any) -> Any:
        nonlocal count
        count += 1
        events.append(f"save {count}")
        return count, tensor

    def unpack(kept: Any) -> Any:
        events.append(f"unpack {kept[0]}")
        return kept[1]

    with _Ops(events), torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        loss = f(x)
        todo, seen = [loss.grad_fn], set()
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            noting = functools.partial(events.append, f"node {node.name()}")
            node.register_prehook(lambda grads, noting=noting: noting())
            todo += [other for other, _ in node.next_functions]
        handle = x.register_post_accumulate_grad_hook(lambda x: events.append("accumulated"))
        loss.backward()
    handle.remove()
    return events


# --- training with a check


@handed_out
def kept_too_much(w: Any, batches: Any, check: Any) -> list[Any]:
    """Training as the report has it: the loss of the check, after every step."""
    history = []
    for x in batches:
        loss = (w * x).square().mean()
        loss.backward()
        with torch.no_grad():
            w -= w.grad
        w.grad = None
        history.append((w * check).square().mean())
    return history


@handed_out
def finished_train(w: Any, batches: Any, check: Any) -> list[float]:
    """The same losses, as numbers; the check saves nothing."""
    history = []
    for x in batches:
        loss = (w * x).square().mean()
        loss.backward()
        with torch.no_grad():
            w -= w.grad
            history.append((w * check).square().mean().item())
        w.grad = None
    return history


@handed_out
def measured(train: Any, width: int, steps: int, seed: int) -> dict[str, Any]:
    """The losses and weights of a training, and what autograd held on the way."""
    made = torch.Generator().manual_seed(seed)
    batches = [torch.rand(width, generator=made) for _ in range(steps)]
    check = torch.rand(4, width, generator=made)
    w = torch.ones(width, requires_grad=True)
    with Saved(w, check, *batches) as saved:
        history = train(w, batches, check)
        held = saved.held
    return {
        "losses": [float(one) for one in history],
        "weights": w.tolist(),
        "most bytes held": saved.peak,
        "bytes held at the end": held,
    }
