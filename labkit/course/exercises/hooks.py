"""Hooks in the order they fire: of tensors, nodes, leaves, and of several tensors together."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.course.exercises._hook_picture import walk
from labkit.course.exercises._hook_steps import clip, firing_order, through
from labkit.course.exercises._never_right import CONSTANT, FIRST

NOTEBOOK = "3_internals/5_hooks"


Program = list[tuple[Any, ...]]
Maker = Callable[[Rng, str, list[str], list[str]], tuple[Any, ...]]


def _graph(rng: Rng, size: int) -> tuple[Program, list[str], list[str]]:
    """Steps that make leaves and calls, and the names of both."""
    leaves = [f"w{i}" for i in range(1 + min(size, 4) // 2)]
    steps: Program = [("leaf", name) for name in leaves]
    calls: list[str] = []
    for number in range(1 + rng.randint(0, 1 + size // 2)):
        near = [calls[-1]] if calls and rng.chance(0.85) else []
        if len(calls) > 1 and rng.chance(0.4):
            near = [*dict.fromkeys([*near, rng.choice(calls[:-1])])]
        inputs = [*near, rng.choice(leaves)] if not near or rng.chance(0.5) else near
        steps.append(("call", f"t{number}", {name: rng.choice((1, 2, 3)) for name in inputs}))
        calls.append(f"t{number}")
    return steps, leaves, calls


def _programs(hook: Maker | None, removes: float = 0.0) -> Callable[[Rng, int], tuple[Program]]:
    """Makes programs whose hooks come from `hook`, and which remove one so often."""

    def program(rng: Rng, size: int) -> tuple[Program]:
        steps, leaves, calls = _graph(rng, size)
        hooks = 0
        for turn in range(rng.choice((1, 2, 2, 3)) if size else 1):
            for _ in range(rng.randint(1 if turn == 0 else 0, 2 + size)):
                if hook is None:
                    continue
                hooks += 1
                steps.append(("hook", f"h{hooks}", *hook(rng, f"h{hooks}", leaves, calls)))
            if turn and hooks and rng.chance(removes):
                steps.append(("remove", f"h{rng.randint(1, hooks)}"))
            steps.append(("backward", calls[-1] if rng.chance(0.75) else rng.choice(calls)))
        return (steps,)

    return program


def _of(kinds: tuple[str, ...], actions: tuple[Any, ...]) -> Maker:
    def hook(rng: Rng, name: str, leaves: list[str], calls: list[str]) -> tuple[Any, ...]:
        kind = rng.choice(kinds)
        where = {"stored": leaves, "tensor": [*leaves, *calls]}.get(kind, calls)
        fitting = [a for a in actions if a != "clear"] if kind != "stored" else (
            [a for a in actions if isinstance(a, str)]
        )  # fmt: skip
        return kind, rng.choice(where), rng.choice(fitting)

    return hook


def _several(rng: Rng, name: str, leaves: list[str], calls: list[str]) -> tuple[Any, ...]:
    pool = [*leaves, *calls]
    where = sorted(rng.sample(pool, rng.randint(1, min(3, len(pool)))))
    return "multi", where, rng.choice(("watch", "watch", "watch", "once"))


def _raising(rng: Rng, name: str, leaves: list[str], calls: list[str]) -> tuple[Any, ...]:
    kind, where, action = _any_hook(rng, name, leaves, calls)
    return kind, where, "raise" if rng.chance(0.12) else action


def _with_several(rng: Rng, name: str, leaves: list[str], calls: list[str]) -> tuple[Any, ...]:
    return (_several if rng.chance(0.35) else _any_hook)(rng, name, leaves, calls)


def _all_there_is(rng: Rng, name: str, leaves: list[str], calls: list[str]) -> tuple[Any, ...]:
    kind, where, action = _with_several(rng, name, leaves, calls)
    return kind, where, "raise" if rng.chance(0.08) else action


_any_hook = _of(
    ("tensor", "tensor", "tensor", "pre", "post", "stored"),
    ("watch", "once", "clear", 2, 3, -1),
)


class _Weighted(torch.autograd.Function):  # type: ignore[misc]
    """The sum of its inputs, each times a factor; one node, which logs that it runs."""

    @staticmethod
    def forward(ctx: Any, log: list[Any], name: str, factors: list[int], *inputs: Any) -> Any:
        ctx.log, ctx.name, ctx.factors = log, name, factors
        return sum(factor * one for factor, one in zip(factors, inputs, strict=True))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        ctx.log.append(("run", ctx.name, grad.item()))
        return (None, None, None, *(factor * grad for factor in ctx.factors))


def _numbers(grads: Any) -> list[float | None]:
    return [None if grad is None else grad.item() for grad in grads]


def _register(step: tuple[Any, ...], tensors: dict[str, Any], log: list[Any], handles: Any) -> None:
    _, name, kind, where, action = step

    def fired(value: Any) -> None:
        log.append((name, value))
        if action == "once":
            handles[name].remove()
        if action == "raise":
            raise ValueError(name)

    def tensor_hook(grad: Any) -> Any:
        fired(grad.item())
        return grad * action if isinstance(action, int) else None

    def pre(grads: Any) -> Any:
        fired(grads[0].item())
        return (grads[0] * action,) if isinstance(action, int) else None

    def post(grads: Any, _: Any) -> Any:
        fired(_numbers(grads))
        if not isinstance(action, int):
            return None
        return tuple(None if grad is None else grad * action for grad in grads)

    def stored(leaf: Any) -> None:
        fired(None if leaf.grad is None else leaf.grad.item())
        if action == "clear":
            leaf.grad = None

    if kind == "multi":
        handles[name] = torch.autograd.graph.register_multi_grad_hook(
            [tensors[one] for one in where], lambda grads: fired(_numbers(grads))
        )
    elif kind == "tensor":
        handles[name] = tensors[where].register_hook(tensor_hook)
    elif kind == "pre":
        handles[name] = tensors[where].grad_fn.register_prehook(pre)
    elif kind == "post":
        handles[name] = tensors[where].grad_fn.register_hook(post)
    else:
        handles[name] = tensors[where].register_post_accumulate_grad_hook(stored)


def _truth(program: Program) -> list[Any]:
    tensors: dict[str, Any] = {}
    handles: dict[str, Any] = {}
    log: list[Any] = []
    for step in program:
        if step[0] == "leaf":
            tensors[step[1]] = torch.ones((), dtype=torch.float64, requires_grad=True)
        elif step[0] == "call":
            inputs = [tensors[name] for name in step[2]]
            tensors[step[1]] = _Weighted.apply(log, step[1], list(step[2].values()), *inputs)
        elif step[0] == "hook":
            _register(step, tensors, log, handles)
        elif step[0] == "remove":
            handles[step[1]].remove()
        else:
            try:
                root = tensors[step[1]] * 1  # a several-tensor hook miscounts the root itself
                root.backward(retain_graph=True)
            except ValueError as error:
                log.append(("error", str(error)))
    return log


def _fewer_steps(program: Program) -> Any:
    removed = {step[1] for step in program if step[0] == "remove"}
    for at, step in enumerate(program):
        if step[0] in ("remove", "backward") or (step[0] == "hook" and step[1] not in removed):
            yield ([*program[:at], *program[at + 1 :]],)


def _has(kind: str, action: str = "") -> Callable[[Any], bool]:
    """Evidence with a hook of this kind, or with this action."""
    return lambda evidence: any(
        step[0] == "hook" and kind in (step[2], "") and action in (step[4], "")
        for step in evidence.inputs[0]
    )


WRONG = (
    "leaf hook after accumulation",
    "hook sees the summed gradient twice",
    "removed hook still fires",
    "order by registration across kinds",
    "assumes hooks of one kind run in reverse order of registration",
    FIRST,
    CONSTANT,
)
PLACES = (
    "Without hooks first: send each result on along its edge, and add up what arrives at one name",
    "Then the places: tensor hooks, pre, run, post; at a leaf tensor hooks, add, stored",
)

hook_log = Exercise(
    id="hooks.hook_log",
    case=_programs(_any_hook, removes=0.6),
    expected=_truth,
    smaller=_fewer_steps,
    show=lambda program: "\n".join(map(str, program)),
    picture=walk,
    rules=("plain Python; torch and labkit are out of reach",),
    cases=80,
    sizes=8,
    banned=("torch.*", "labkit.autograd"),
    stages=(
        Stage("no hooks", case=_programs(None)),
        Stage("tensor", case=_programs(_of(("tensor",), ("watch",)))),
        Stage("node", case=_programs(_of(("pre", "post"), ("watch",)))),
        Stage("returned values", case=_programs(_of(("tensor", "pre", "post"), (2, 3, -1)))),
        Stage("stored", case=_programs(_of(("stored",), ("watch", "clear")))),
        Stage("everything"),
    ),
    hints=(
        *PLACES,
        Hint("The stored hook came too early, or saw something else: it gets the sum, after this "
             "gradient was added", stage="stored"),
        Hint("A leaf has no run event: only its hooks are logged", stage="no hooks"),
        Hint("A hook with the action once is gone after its first event; go through a copy of the "
             "hooks while one may go", when=_has("", "once")),
        Hint("Every hook gets what the one before it returned; for post the whole list is "
             "multiplied", stage="returned values"),
    ),
    must_fail=WRONG,
    minutes=15,
)  # fmt: skip

every_hook = Exercise(
    id="hooks.every_hook",
    case=_programs(_all_there_is, removes=0.6),
    expected=_truth,
    smaller=_fewer_steps,
    show=lambda program: "\n".join(map(str, program)),
    picture=walk,
    rules=("plain Python; torch and labkit are out of reach",),
    cases=100,
    sizes=8,
    banned=("torch.*", "labkit.autograd"),
    stages=(
        Stage("as before", case=_programs(_any_hook, removes=0.6)),
        Stage("raise", case=_programs(_raising)),
        Stage("multi", case=_programs(_with_several)),
        Stage("everything"),
    ),
    hints=(
        "Begin with your hook_log, whole",
        Hint("A several-tensor hook is one hook on each of its tensors: it takes its place among "
             "their tensor hooks, and the last of those that this backward reaches calls the "
             "function", stage="multi"),
        Hint("After a hook raised, nothing more runs in this backward; what was added stays",
             when=lambda e: any(event[0] == "error" for event in e.right)),
        "What a multi hook has noted belongs to one backward: begin each with nothing noted",
    ),
    must_fail=(
        "goes on after a hook raised",
        "waits for tensors that this backward does not reach",
        "notes a gradient before the hooks in front of it changed it",
        "keeps what it noted for the next backward",
        FIRST,
        CONSTANT,
    ),
    rung="boss",
    minutes=20,
)  # fmt: skip

EXERCISES = (clip, firing_order, through, hook_log, every_hook)
