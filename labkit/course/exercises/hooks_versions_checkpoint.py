"""Hooks in the order they fire, in-place writes to views, and a checkpoint of one's own."""

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from labkit.course.exercise import Case, Exercise, Hint, Rng, handed_out

NOTEBOOK = "3_internals/5_hooks_versions_checkpoint"

FIRST = "remembers the answer of the first random case and returns it for all later cases"

# --- hook_log

Program = list[tuple[Any, ...]]


def _hook(rng: Rng, name: str, leaves: list[str], calls: list[str]) -> tuple[Any, ...]:
    kind = rng.choice(("tensor", "tensor", "tensor", "pre", "post", "accumulated", "multi"))
    if kind == "multi":
        pool = [*leaves, *calls]
        return "hook", name, kind, sorted(rng.sample(pool, rng.randint(1, min(3, len(pool))))), (
            "raise" if rng.chance(0.08) else "once" if rng.chance(0.1) else "watch"
        )  # fmt: skip
    if kind == "accumulated":
        action: Any = rng.choice(("watch", "watch", "once", "clear"))
        return "hook", name, kind, rng.choice(leaves), action
    where = rng.choice([*leaves, *calls]) if kind == "tensor" else rng.choice(calls)
    action = rng.choice(("watch", "once", rng.choice((2, 3, -1)), rng.choice((2, 3, -1))))
    return "hook", name, kind, where, "raise" if rng.chance(0.07) else action


def _program(rng: Rng, size: int) -> tuple[Program]:
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
    hooks = 0
    for turn in range(rng.choice((1, 2, 2, 3)) if size else 1):
        for _ in range(rng.randint(1 if turn == 0 else 0, 2 + size)):
            hooks += 1
            steps.append(_hook(rng, f"h{hooks}", leaves, calls))
        if turn and rng.chance(0.6):
            steps.append(("remove", f"h{rng.randint(1, hooks)}"))
        steps.append(("backward", calls[-1] if rng.chance(0.75) else rng.choice(calls)))
    return (steps,)


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

    def accumulated(leaf: Any) -> None:
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
        handles[name] = tensors[where].register_post_accumulate_grad_hook(accumulated)


def _hook_truth(program: Program) -> list[Any]:
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


hook_log = Exercise(
    id="hooks_versions_checkpoint.hook_log",
    statement="Predict the full event log of a program of backward calls and hooks that modify, "
    "watch, raise or remove themselves, several-tensor hooks included.",
    case=_program,
    expected=_hook_truth,
    smaller=_fewer_steps,
    show=lambda program: "\n".join(map(str, program)),
    rules=("plain Python; torch and labkit are out of reach",),
    cases=200,
    sizes=8,
    banned=("torch.*", "labkit.autograd"),
    hints=(
        Hint("The post-accumulate hook came too early: .grad must have been added to before it",
             when=lambda e: any(s[0] == "hook" and s[2] == "accumulated" for s in e.inputs[0])
             and not any(s[0] == "hook" and s[2] != "accumulated" for s in e.inputs[0])),
        "Separate the hook kinds by where they sit",
        "Tensor pre-hooks, node pre, run, node post; leaf hook, accumulate, post-accumulate",
        Hint("A several-tensor hook is one tensor hook on each of its tensors: it takes its place "
             "among them, and the last of those that this backward reaches calls the function",
             when=lambda e: any(s[0] == "hook" and s[2] == "multi" for s in e.inputs[0])),
        Hint("After a hook raised, nothing more runs in this backward; what is in .grad stays",
             when=lambda e: any(event[0] == "error" for event in e.right)),
    ),
    must_fail=(
        "leaf hook after accumulation",
        "hook sees the summed gradient twice",
        "removed hook still fires",
        "order by registration across kinds",
        "assumes hooks of one kind run in reverse order of registration",
        FIRST,
        "returns the literal answer of the example in the statement",
    ),
    minutes=25,
    difficulty=4,
)  # fmt: skip

# --- rebase_history


class Node:
    """One step of history.

    name      as PyTorch prints it
    edges     the nodes that its gradients go to
    backward  (gradient, a list of floats) -> one such list per edge
    """

    def __init__(self, name: str, edges: "list[Node]", backward: Callable[[Any], Any]) -> None:
        self.name, self.edges, self.backward = name, edges, backward


class Tensor:
    """A tensor of floats, or a view of one.

    memory     the list of floats; a base and its views share it
    places     the positions in memory that this tensor covers. A base covers all of it
    node       its grad_fn
    version    a list of one int
    made_at    the version at which `node` was right
    base       the tensor this one is a view of, never a view itself; None for a base
    view_name  of a view: the node that made it. output_nr: which output of it this is
    several    True when this may not be written since it comes from a function with several views
    """

    def __init__(
        self,
        memory: list[float],
        places: tuple[int, ...],
        node: Node,
        version: list[int],
        base: "Tensor | None" = None,
        view_name: str = "",
        output_nr: int = 0,
        several: bool = False,
    ) -> None:
        self.memory, self.places, self.node = memory, places, node
        self.version, self.made_at = version, version[0]
        self.base, self.view_name, self.output_nr = base, view_name, output_nr
        self.several = several


def _views_case(rng: Rng, size: int) -> tuple[int, int, Program]:
    rows, columns = rng.randint(1, 2 + size // 4), rng.randint(1, 2 + size // 4)
    shapes: dict[str, tuple[int, ...]] = {"base": (rows, columns)}
    several = False
    steps: Program = []
    for number in range(2 + size):
        name = rng.choice(list(shapes))
        shape = shapes[name]
        roll = rng.random()
        if roll < 0.45:
            steps.append(("mul_", name, float(rng.choice((2, 3, -1, 0.5)))))
        elif roll < 0.55:
            steps.append(("history", name))
        elif roll < 0.68 and shape and shape[0] and not (several and rng.chance(0.7)):
            several = True
            outputs = [f"v{number}.{i}" for i in range(shape[0])]
            steps.append(("unbind", name, outputs))
            shapes |= {one: shape[1:] for one in outputs}
        elif shape and shape[0] and rng.chance(0.5):
            steps.append(("select", name, f"v{number}", rng.randrange(shape[0])))
            shapes[f"v{number}"] = shape[1:]
        elif shape:
            start = rng.randint(0, shape[0])
            end = rng.randint(start, shape[0])
            steps.append(("slice", name, f"v{number}", start, end))
            shapes[f"v{number}"] = (end - start, *shape[1:])
    return rows, columns, steps


@handed_out
def _sentence(error: Exception) -> str:
    return str(error).partition(".")[0]


@handed_out
def _weights(count: int) -> list[float]:
    return [float(1 + i) for i in range(count)]


@handed_out
def _part(
    steps: tuple[Any, ...], shape: tuple[int, ...]
) -> list[tuple[tuple[int, ...], list[int]]]:
    """For each view that a step makes of a tensor of this shape: its shape and places in it."""
    inner = 1
    for length in shape[1:]:
        inner *= length
    row = [list(range(i * inner, (i + 1) * inner)) for i in range(shape[0])]
    if steps[0] == "unbind":
        return [(shape[1:], places) for places in row]
    if steps[0] == "select":
        return [(shape[1:], row[steps[3]])]
    start, end = steps[3:]
    return [((end - start, *shape[1:]), [p for places in row[start:end] for p in places])]


@handed_out
def _chain(node: Any) -> list[str]:
    names: list[str] = []
    while node is not None and len(names) < 100:
        names.append(node.name)
        node = node.edges[0] if node.edges else None
    return names


@handed_out
def _gradient(node: Any, count: int) -> list[float]:
    grad = _weights(count)
    while node.edges:
        (grad,) = node.backward(grad)
        node = node.edges[0]
    return list(grad)


def _drive_views(answer: Any, rows: int, columns: int, steps: Program) -> dict[str, Any]:
    """What the answer's functions did, step by step, and what is there at the end."""
    view, mul_, history = answer
    count = rows * columns
    leaf = Node("AccumulateGrad", [], lambda grad: [])
    start = Node("MulBackward0", [leaf], lambda grad: [[2 * g for g in grad]])
    memory = [2.0 * (1 + i) for i in range(count)]
    tensors = {"base": (Tensor(memory, tuple(range(count)), start, [0]), (rows, columns))}
    log: list[Any] = []
    for step in steps:
        if step[1] not in tensors:
            continue
        tensor, shape = tensors[step[1]]
        try:
            if step[0] == "mul_":
                mul_(tensor, step[2])
            elif step[0] == "history":
                log.append((*step, _chain(history(tensor))))
            else:
                names = step[2] if step[0] == "unbind" else [step[2]]
                node_name = f"{step[0].capitalize()}Backward0"
                made = {}
                for number, (new_shape, places) in enumerate(_part(step, shape)):
                    given = list(places)
                    one = view(tensor, given, node_name, number)
                    if given != places:
                        log.append("view changed the list of places")
                    made[names[number]] = one, new_shape
                tensors |= made
        except NotImplementedError:  # the untouched stub; it is a RuntimeError as well
            raise
        except RuntimeError as error:
            log.append((*step, _sentence(error)))
    end = {}
    for name, (tensor, _) in tensors.items():
        values = [tensor.memory[place] for place in tensor.places]
        try:
            node = history(tensor)
            found: Any = (_chain(node), _gradient(node, len(values)))
        except RuntimeError as error:
            found = _sentence(error)
        end[name] = {"version": tensor.version[0], "values": values, "graph, gradient": found}
    return {"on the way": log, "at the end": end}


def _names(node: Any) -> list[str]:
    names: list[str] = []
    while node is not None:
        names.append(node.name().rpartition("::")[2])
        node = node.next_functions[0][0] if node.next_functions else None
    return names


def _views_truth(rows: int, columns: int, steps: Program) -> dict[str, Any]:
    count = rows * columns
    x = torch.arange(1, count + 1, dtype=torch.float64).reshape(rows, columns).requires_grad_()
    tensors = {"base": x * 2}
    log: list[Any] = []
    for step in steps:
        if step[1] not in tensors:
            continue
        tensor = tensors[step[1]]
        try:
            if step[0] == "mul_":
                tensor.mul_(step[2])
            elif step[0] == "history":
                log.append((*step, _names(tensor.grad_fn)))
            elif step[0] == "unbind":
                tensors |= dict(zip(step[2], tensor.unbind(), strict=True))
            elif step[0] == "select":
                tensors[step[2]] = tensor.select(0, step[3])
            else:
                tensors[step[2]] = tensor[step[3] : step[4]]
        except RuntimeError as error:
            log.append((*step, _sentence(error)))
    end = {}
    for name, tensor in tensors.items():
        weights = torch.tensor(_weights(tensor.numel()), dtype=torch.float64).reshape(tensor.shape)
        try:
            names = _names(tensor.grad_fn)
            (grad,) = torch.autograd.grad(tensor, x, weights, retain_graph=True)
            found: Any = (names, grad.flatten().tolist())
        except RuntimeError as error:
            found = _sentence(error)
        end[name] = {
            "version": tensor._version,
            "values": tensor.detach().flatten().tolist(),
            "graph, gradient": found,
        }
    return {"on the way": log, "at the end": end}


def _judge_views(case: Case, got: Any) -> Any:
    right = _views_truth(*case.inputs)
    if not isinstance(got, dict):
        return f"the program should run; it {got!r}"
    if got["on the way"] != right["on the way"]:
        pairs = [*zip(right["on the way"], got["on the way"], strict=False)]
        for wanted, found in pairs:
            if wanted != found:
                return f"event {wanted}; yours: {found}"
        return f"events {right['on the way']}; yours: {got['on the way']}"
    if list(got["at the end"]) != list(right["at the end"]):
        return f"tensors {list(right['at the end'])}; yours: {list(got['at the end'])}"
    for name, wanted in right["at the end"].items():
        for what, value in wanted.items():
            found = got["at the end"][name][what]
            if found != value:
                return f"{what} of {name}: {value}; yours: {found}"
    return None


rebase_history = Exercise(
    id="hooks_versions_checkpoint.rebase_history",
    statement="Write view, mul_ and history: a write to a view gives the base a new history, makes "
    "the nodes of its siblings stale and counts in the version they share; outputs of functions "
    "with several views refuse.",
    case=_views_case,
    judge=_judge_views,
    drive=_drive_views,
    show=lambda rows, columns, steps: f"base of {rows} x {columns}; "
    + ", ".join(" ".join(map(str, step)) for step in steps),
    rules=("plain Python; torch and labkit.autograd are out of reach",),
    cases=150,
    sizes=12,
    banned=("torch.*", "labkit.autograd"),
    hints=(
        Hint("Gradient of an untouched row is zero? The write must let it through",
             when=lambda e: "gradient of" in e.property and "0.0" in e.property),
        "The write changes the base, so the base's history changes",
        "Insert a node that routes the slice through the new function and copies the rest",
        Hint("One list of one int, the very same object in the base and in every view",
             when=lambda e: e.property.startswith("version")),
        Hint("A view is stale when its made_at is not the version: history makes an "
             "AsStridedBackward0 from the base then", when=lambda e: "AsStrided" in e.property),
        Hint("Who refuses, and in which words: a write says 'is being modified inplace', a stale "
             "node 'its base or another view of its base has been modified inplace'",
             when=lambda e: "Output" in e.property),
    ),
    must_fail=(
        "rebases the view only",
        "siblings keep stale nodes",
        "version per tensor",
        "allows unbind outputs",
        "chain of views loses the restriction",
        FIRST,
        "returns NaN or an uninitialised buffer where a value is expected",
        "returns the right value but changes one of its inputs",
    ),
    minutes=25,
    difficulty=5,
)  # fmt: skip

# --- checkpoint

LONG = 1_500


def _checkpoint_case(rng: Rng, size: int) -> tuple[dict[str, Any]]:
    if size == 30:
        layers: list[Any] = ["linear", "tanh"] * (LONG // 2)
        return ({"layers": layers, "rows": 1, "width": 1, "seed": 1, "grad": True, "twice": False,
                 "rest": "tensor", "scale": None, "together": True},)  # fmt: skip
    kinds = ("linear", "linear", "tanh", "relu", "dropout", "dropout", "square", "nested")
    layers = []
    for _ in range(2 + size // 5 + rng.randint(0, 1)):
        kind = rng.choice(kinds)
        if kind == "nested":
            inner = [rng.choice(("linear", "tanh", "dropout")) for _ in range(rng.randint(1, 3))]
            layers.append(inner)
        else:
            layers.append(kind)
    spec = {
        "layers": ["linear", *layers, "tanh"],
        "rows": rng.randint(1, 4),
        "width": rng.randint(1, 4),
        "seed": rng.randint(0, 10**6),
        "grad": not rng.chance(0.12),
        "twice": rng.chance(0.25),
        "rest": rng.choice(("tensor", "tensor", "tuple", "dict")),
        "scale": rng.choice((None, 3.0)),
        "together": rng.chance(0.7),
    }
    return (spec,)


class _Work:
    """The function to be checkpointed, with what it has to be asked about afterwards."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        made = torch.Generator().manual_seed(spec["seed"])
        width = spec["width"]

        def weight() -> torch.Tensor:
            drawn = torch.randn(width, width, dtype=torch.float64, generator=made)
            return (drawn * 0.9).requires_grad_()

        count = sum(len(one) if isinstance(one, list) else 1 for one in spec["layers"])
        self.weights = [weight() for _ in range(min(count, 12))]
        self.x = torch.randn(spec["rows"], width, dtype=torch.float64, generator=made)
        self.x.requires_grad_()
        self.between: list[Any] = []
        self.allowed: set[Any] = set()
        self.runs: dict[int, int] = {}
        self.ends = 0

    def layers(self, names: Any, first: int, x: Any, wrap: Any) -> Any:
        for number, name in enumerate(names, first):
            if isinstance(name, list):
                self.allowed.add(_storage(x))  # its own input is a nested checkpoint's to keep
                x = wrap(self.layers, name, first=100 * (number + 1), x=x, wrap=wrap)
                continue
            self.runs[number] = self.runs.get(number, 0) + 1
            if name == "linear":
                x = x @ self.weights[number % len(self.weights)]  # a closure, not an argument
            elif name == "dropout":
                x = torch.nn.functional.dropout(x, 0.5)
            else:
                x = x * x if name == "square" else getattr(torch, name)(x)
            self.between.append(_storage(x))
        return x

    def run(self, x: Any, note: str, *, wrap: Any, scale: float | None = None) -> Any:
        y = self.layers(self.spec["layers"], 0, x, wrap)
        out = y.sum(1) + 1  # nothing of this is needed by backward
        if scale is not None:
            out = out * scale
        self.ends += 1
        rest = self.spec["rest"]
        return out if rest == "tensor" else (out, 7, note) if rest == "tuple" else {note: out}


@handed_out
def _storage(tensor: Any) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


@handed_out
def _tensor_of(result: Any) -> Any:
    if isinstance(result, dict):
        return next(iter(result.values()))
    return result[0] if isinstance(result, tuple) else result


@handed_out
def _direct(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


@handed_out
def _observed(wrap: Any, spec: dict[str, Any], checked: bool) -> dict[str, Any]:
    """Values, gradients, kept memory and work of one step under `wrap`."""
    work = _Work(spec)
    before = torch.get_rng_state()
    torch.manual_seed(spec["seed"])
    try:
        with torch.set_grad_enabled(spec["grad"]):
            options = {} if spec["scale"] is None else {"scale": spec["scale"]}
            result = wrap(work.run, work.x, "note", wrap=wrap, **options)
        out = _tensor_of(result)
        gc.collect(0)
        kept = sum(not one.expired() for one in work.between if one not in work.allowed)
        found: dict[str, Any] = {
            "result": _plain(result),
            "asks for gradients": out.requires_grad,
            "tensors between kept by forward": kept if checked else 0,
        }
        torch.rand(3)  # somebody else draws between forward and backward
        if out.requires_grad:
            for again in range(1 + spec["twice"]):
                out.backward(torch.linspace(1, 2, len(out), dtype=out.dtype),
                             retain_graph=spec["twice"] and not again)  # fmt: skip
        found["gradients"] = [one.grad for one in (work.x, *work.weights)]
        found["next random numbers"] = torch.rand(2, dtype=torch.float64)
        backwards = 1 + spec["twice"] if out.requires_grad else 0
        extra = {n: c for n, c in work.runs.items() if c > 1 + backwards * (1 + (n >= 100))}
        found["layers that ran too often"] = extra if checked and len(work.runs) < 90 else (
            {"of a long chain": max(extra.values())} if checked and extra else {}
        )  # fmt: skip
        found["runs to the end"] = work.ends
        return found
    finally:
        torch.set_rng_state(before)


@handed_out
def _plain(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.detach().clone()
    if isinstance(result, dict):
        return {name: _plain(one) for name, one in result.items()}
    return [_plain(one) for one in result] if isinstance(result, tuple) else result


def _drive_checkpoint(answer: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """One step under the answer."""
    return _observed(answer, spec, checked=True)


def _checkpoint_truth(spec: dict[str, Any]) -> dict[str, Any]:
    return _observed(_direct, spec, checked=False)


checkpoint = Exercise(
    id="hooks_versions_checkpoint.checkpoint",
    statement="Write checkpoint(function, *args, **kwargs): the result of function, without "
    "keeping what it saves for backward; backward computes that again, once, with the same random "
    "numbers, and stops as soon as it has all.",
    case=_checkpoint_case,
    expected=_checkpoint_truth,
    drive=_drive_checkpoint,
    rules=(
        "torch.utils.checkpoint is out of reach; everything else of torch is yours",
        "a nested checkpoint may keep its own arguments",
        "one more forward per backward call: 4/3 of the work of a step",
    ),
    tolerance=1e-9,
    cases=80,
    sizes=30,
    seconds=6,
    banned=("torch.utils.checkpoint.*",),
    hints=(
        Hint("Dropout gradients differ run to run", when=lambda e: "dropout" in e.input
             and "gradients" in e.property),
        "Which state did the forward see?",
        "Save generator state, replay under it, hand out saved values in order",
        Hint("Other code has drawn numbers since: put the generator back when you are done",
             when=lambda e: "random" in e.property),
        Hint("Compute all saved tensors in one go, when the first of them is asked for",
             when=lambda e: "too often" in e.property),
        Hint("Once the last tensor is there, leave the function: raise an exception in your pack "
             "hook and catch it outside", when=lambda e: "to the end" in e.property),
        Hint("The first pack hook returns something that is not the tensor: a number will do",
             when=lambda e: "kept by forward" in e.property),
    ),
    must_fail=(
        "reruns without the random state",
        "runs the whole function again for each saved tensor",
        "keeps the first activations",
        "breaks under no_grad",
        "gradients of closures lost",
        FIRST,
        "is right on small cases and exceeds the size limit on large ones (quadratic, recursive "
        "or waiting for ever)",
    ),
    minutes=25,
    difficulty=4,
)  # fmt: skip

EXERCISES = (hook_log, rebase_history, checkpoint)
