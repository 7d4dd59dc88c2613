"""The autograd engine: who runs next, rows of a derivative table, a Function, the whole loop."""

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._derivative_rows import derivative_row
from labkit.course.exercises._engine_graphs import (
    a_chain,
    a_small_graph,
    drive_engine,
    engine_case,
    judge_engine,
    one_root,
    right_order,
    several_roots,
    shown,
)
from labkit.course.exercises._never_right import FIRST, TOO_SLOW
from labkit.course.exercises._orders_drawn import engine_drawn, tensors_drawn
from labkit.course.exercises._ready_nodes import arrive, next_node

NOTEBOOK = "3_internals/4_autograd_engine"


def _function_case(rng: Rng, size: int) -> Case:
    sizes = rng.sizes(rank=2, largest=1 + size // 3, smallest=1)
    x = torch.randn(sizes, dtype=torch.float64, generator=rng.generator()) + 2
    w = torch.randn(sizes, dtype=torch.float64, generator=rng.generator())
    return Case((x, w, rng.randint(2, 4), rng.choice(("both", "first", "second"))))


class _Native:
    """The same two outputs, from PyTorch's own operators."""

    @staticmethod
    def apply(x: Any, w: Any, n: int) -> tuple[Any, Any]:
        return w * x**n, x + w


class _Names(TorchDispatchMode):  # type: ignore[misc]
    """Collects the names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


@handed_out
def _outcome(function: Any, x: Any, w: Any, n: int, used: str) -> dict[str, Any]:
    """Values, first and second derivatives."""
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    p, q = function.apply(x, w, n)
    weights = torch.linspace(0.5, 1.5, p.numel(), dtype=p.dtype).reshape(p.shape)
    first = {"both": (p + q * q), "first": p, "second": q * q}[used]
    gx, gw = torch.autograd.grad((first * weights).sum(), (x, w), create_graph=True)
    second = torch.autograd.grad(
        (gx * weights + gw * gw).sum(), (x, w), allow_unused=True, materialize_grads=True
    )
    return {
        "values": [p.detach(), q.detach()],
        "first derivatives": [gx.detach(), gw.detach()],
        "second derivatives": [g.detach() for g in second],
        "inputs unchanged": [x.detach(), w.detach()],
    }


def _drive_function(answer: Any, x: Any, w: Any, n: int, used: str) -> dict[str, Any]:
    """What the function computes, what it makes for nobody, what it keeps."""
    found = _outcome(answer, x, w, n, used)
    found["is a Function"] = issubclass(answer, torch.autograd.Function)
    leaf, other = x.clone().requires_grad_(), w.clone().requires_grad_()
    between = leaf * 1
    p, q = answer.apply(between, other, n)
    watched = _Names()
    with watched:
        torch.autograd.grad(q, (between, other), torch.ones_like(q), retain_graph=True)
    ran = {name.partition(".")[0] for name in watched.seen}
    made = [] if used == "both" else sorted(ran & {"mul", "pow", "zeros"})
    found["operators run for the output nobody used"] = made
    kept = weakref.ref(between)
    torch.autograd.grad(p, (leaf, other), torch.ones_like(p))
    del between
    found["input kept after its node was released"] = kept() is not None
    return found


def _function_truth(x: Any, w: Any, n: int, used: str) -> dict[str, Any]:
    return {
        **_outcome(_Native, x, w, n, used),
        "is a Function": True,
        "operators run for the output nobody used": [],
        "input kept after its node was released": False,
    }


custom_function = Exercise(
    id="autograd_engine.custom_function",
    case=_function_case,
    expected=_function_truth,
    drive=_drive_function,
    picture=lambda case, got, right: tensors_drawn(got, right),
    rules=(
        "n is an int: no gradient",
    ),
    tolerance=1e-9,
    cases=50,
    seconds=20,  # the first dispatch mode of a process imports much
    hints=(
        Hint("The first derivatives are right, the second are not. Was your backward recorded?",
             when=lambda e: "second derivatives" in e.property
             or "does not require grad" in e.got or "not have been used" in e.got),
        Hint("Nobody used one output, and its gradient was made all the same: call "
             "ctx.set_materialize_grads(False) in forward, and compute nothing for a None",
             when=lambda e: "nobody used" in e.property),
        "Use differentiable operations and saved tensors only",
        Hint("An attribute of ctx lives as long as the node; a saved tensor goes when the node is "
             "released", when=lambda e: "kept after" in e.property),
        Hint("With gradients of None: add only what is there",
             when=lambda e: e.kind == "raised" and "NoneType" in e.got),
        Hint("backward returns one value per argument of forward, None for the int",
             when=lambda e: "number of gradients" in e.got),
    ),
    must_fail=(
        "saves on ctx attributes (leak)",
        "breaks on None gradient",
        "detaches inside backward",
        "returns too few values",
        FIRST,
        "returns the right value but changes one of its inputs",
        "catches every exception and returns a default",
    ),
    minutes=15,
    stages=(
        Stage("both outputs", only=lambda x, w, n, used: used == "both", cases=10),
        Stage("one output", only=lambda x, w, n, used: used != "both", cases=10),
        Stage("everything"),
    ),
)  # fmt: skip

engine_loop = Exercise(
    id="autograd_engine.engine_loop",
    case=engine_case,
    judge=judge_engine,
    picture=lambda case, got, right: engine_drawn(case, got, right_order(*case.inputs)),
    drive=drive_engine,
    show=shown,
    rules=(
        "a node runs once, when everything that will come has come",
        "of the ready nodes the one with the largest sequence_nr runs; ties are free",
    ),
    cases=61,
    sizes=60,
    seconds=30,
    banned=("labkit.autograd", "torch.*"),
    hints=(
        "Order differs only where two nodes are ready",
        "Which number decides between them?",
        "Max-heap on sequence number, accumulators at infinity",
        Hint("Too deep for Python's stack: keep the nodes that are ready in a list of your own",
             when=lambda e: "RecursionError" in e.got),
        Hint("Only edges out of nodes you can reach from the roots ever bring a gradient; `uses` "
             "counts all that were recorded", when=lambda e: isinstance(e.value, dict)
             and bool(e.value["order"]) and "leaf grads" in e.property),
        Hint("A dictionary keeps a buffer alive until you pop it", when=lambda e: "alive"
             in e.property),
    ),
    must_fail=(
        "recursion",
        "first in first out queue",
        "counts unreachable edges",
        "runs a node before all inputs arrived",
        "keeps buffers alive",
        "adds into a shared buffer in place",
        FIRST,
        TOO_SLOW,
    ),
    rung="boss",
    minutes=35,
    stages=(
        Stage("one root", case=a_small_graph, only=one_root),
        Stage("several roots", case=a_small_graph, only=several_roots),
        Stage("a chain", case=a_chain, cases=1),
        Stage("everything"),
    ),
)  # fmt: skip

EXERCISES = (next_node, arrive, derivative_row, custom_function, engine_loop)
