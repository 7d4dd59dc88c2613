"""Small functions with a gradient, traced; and training with a check that keeps too much."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.benches.step_trace import Saved
from labkit.course.exercise import Rng, handed_out

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
            elif name == "back":
                made.append(made[other])
            elif name == "detach":
                made.append(made[-1] + made[other].detach())
            else:
                made.append(getattr(torch, name)(made[-1]))
        return made[-1].sum()

    return f


def a_function(*names: str) -> Any:
    """A case maker: functions of these steps; in every other case x has a gradient already."""
    drawn = names or (*ONE, "mul", "add", "mul", "view", "detach")

    def case(rng: Rng, size: int) -> tuple[list[Step], list[float], bool]:
        steps = [(rng.choice(drawn), rng.randint(0, n)) for n in range(1 + size // 2)]
        return steps, _two_values(rng), size % 2 == 1

    return case


def two_branches(rng: Rng, size: int) -> tuple[list[Step], list[float], bool]:
    """A product of two different functions of x: neither way from its node meets all nodes."""
    one, other = rng.sample(ONE, 2)
    return [(one, 0), ("back", 0), (other, 0), ("mul", 1)], _two_values(rng), size % 2 == 1


def _two_values(rng: Rng) -> list[float]:
    return [0.5 + rng.randint(0, 8) / 8 for _ in range(2)]


@handed_out
def leaf(values: list[float], graded: bool) -> Any:
    """An x with these values; graded: with a gradient of ones already."""
    x = torch.tensor(values, requires_grad=True)
    x.grad = torch.ones(len(values)) if graded else None
    return x


@handed_out
def traced(answer: Any, steps: list[Step], values: list[float], graded: bool) -> list[str]:
    """The events that an answer returns.

    Raises   ValueError   it calls the function again, leaves another x or x.grad than the
                          backward pass does, or a hook on x
    """
    f, called = function_of(steps), list[Any]()

    def once(x: Any) -> Any:
        called.append(x)
        if len(called) > 1:
            raise ValueError("f is called a second time")
        return f(x)

    x, plain = leaf(values, graded), leaf(values, graded)
    events: list[str] = answer(once, x)
    f(plain).backward()
    if x.tolist() != values:
        raise ValueError("x is not what it was")
    if x.grad is None or not torch.allclose(x.grad, plain.grad, equal_nan=True):
        raise ValueError("x.grad is not what backward makes of it")
    hooks = len(x._post_accumulate_grad_hooks or ()) + len(x._backward_hooks or ())
    if hooks:
        raise ValueError(f"x still has {hooks} of your hooks: each later backward calls it again")
    return events


def described(steps: list[Step], values: list[float], graded: bool) -> str:
    """The function as it is computed; x0 is x."""
    lines = []
    for n, (name, other) in enumerate(steps):
        texts = {
            "mul": f"x{n} * x{other}",
            "add": f"x{n} + x{other}",
            "detach": f"x{n} + x{other}.detach()",
            "back": f"x{other}",
        }
        lines.append(f"x{n + 1} = {texts.get(name, f'{name}(x{n})')}")
    grad = "; x0.grad = [1.0, 1.0]" if graded else ""
    return f"{'; '.join(lines)}; x{len(steps)}.sum(), x0 = {values}{grad}"


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
    """The losses and weights of a training, and what autograd held on the way.

    Raises   ValueError   the batches or the check are other ones afterwards, or w is frozen
    """
    made = torch.Generator().manual_seed(seed)
    batches = [torch.rand(width, generator=made) for _ in range(steps)]
    check = torch.rand(4, width, generator=made)
    w = torch.ones(width, requires_grad=True)
    with Saved(w, check, *batches) as saved:
        before = [batch.tolist() for batch in (*batches, check)]
        history = train(w, batches, check)
        held = saved.held
    if [batch.tolist() for batch in (*batches, check)] != before:
        raise ValueError("the batches or the check are not what they were")
    if not w.requires_grad:
        raise ValueError("w does not require a gradient any more")
    return {
        "losses": [float(one) for one in history],
        "weights": w.tolist(),
        "most bytes held": saved.peak,
        "bytes held at the end": held,
    }
