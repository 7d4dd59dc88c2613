"""The autograd engine: its loop, rows of a derivative table, a Function differentiated twice."""

import gc
import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.course.exercise import Case, Exercise, Hint, Rng, handed_out

NOTEBOOK = "3_internals/4_autograd_engine"

ACCUMULATE = 2**64 - 1
CHAIN, FAN = 1_000_000, 30_000
PASSES_ON: list[int | None] = [1]
LOOKS = 100  # times a node's number may be looked at in the fan: a heap needs about fifteen
SLACK = 4  # buffers a loop may still have in its hands beside those that are needed

# --- the engine loop


class Buffer:
    """A gradient: one number, and a count of the buffers that are alive."""

    __slots__ = ("value",)
    alive = 0

    def __init__(self, value: int) -> None:
        self.value = value
        Buffer.alive += 1

    def __del__(self) -> None:
        Buffer.alive -= 1

    def __add__(self, other: "Buffer") -> "Buffer":
        return Buffer(self.value + other.value)

    def add_(self, other: "Buffer") -> "Buffer":
        """Write the sum into this buffer."""
        self.value += other.value
        return self


class Node:
    """One node: apply turns its input gradients into one gradient per edge.

    next_edges   (node, input slot) or None, one per result
    num_inputs   how many input slots it has
    uses         how many edges lead here in everything that was ever recorded
    sequence_nr  later nodes have larger numbers; every AccumulateGrad has 2**64 - 1
    """

    __slots__ = (
        "factors",
        "grad",
        "log",
        "name",
        "next_edges",
        "num_inputs",
        "sequence_nr",
        "uses",
    )

    def __init__(self, name: str, sequence_nr: int, log: "Log") -> None:
        self.name, self.sequence_nr, self.log = name, sequence_nr, log
        self.next_edges: list[tuple[Node, int] | None] = []
        self.factors: list[int | None] = []
        self.num_inputs, self.uses, self.grad = 1, 0, 0

    def apply(self, grads: list[Buffer | None]) -> list[Buffer | None]:
        """One gradient per edge; None where it is zero. The result may hold one buffer twice."""
        self.log.ran(self, len(grads))
        if self.factors is PASSES_ON:
            return grads[:1]
        given = [grad for grad in grads if grad is not None]
        if self.sequence_nr == ACCUMULATE:
            self.grad += sum(grad.value for grad in given)
            return []
        if not given:
            return [None] * len(self.next_edges)
        total = given[0]
        for slot, grad in enumerate(given[1:], 2):
            total = Buffer(total.value + slot * grad.value)
        return [
            None if factor is None else total if factor == 1 else Buffer(factor * total.value)
            for factor in self.factors
        ]

    def release(self) -> None:
        """What the node saved is gone."""
        self.log.let_go(self)


class WatchedNode(Node):
    """A node that notices when it is looked at again and again: a search through all that wait."""

    __slots__ = ("number",)

    @property
    def sequence_nr(self) -> int:
        """Its number, which the log counts."""
        self.log.looked += 1
        if self.log.looked > LOOKS * FAN:
            raise RuntimeError(
                f"sequence_nr was read {self.log.looked:,} times for {FAN:,} nodes: a search "
                "through every node that waits takes for ever on large graphs"
            )
        return self.number

    @sequence_nr.setter
    def sequence_nr(self, number: int) -> None:
        self.number = number


class Log:
    """What happened: order, releases, and how many buffers were alive."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.released: list[str] = []
        self.peak = self.looked = 0
        self.problems: list[str] = []

    def ran(self, node: Node, inputs: int) -> None:
        """A node runs now."""
        if self.order and len(self.released) < len(self.order):
            self.problems.append(f"{self.order[-1]} was not released before {node.name} ran")
        if inputs != node.num_inputs:
            self.problems.append(f"{node.name} got {inputs} gradients, it has {node.num_inputs}")
        self.order.append(node.name)
        self.peak = max(self.peak, Buffer.alive)

    def let_go(self, node: Node) -> None:
        """A node was released."""
        self.released.append(node.name)


class ShortLog(Log):
    """Counts: what happened to a million nodes is not written out."""

    def ran(self, node: Node, inputs: int) -> None:
        """A node runs now."""
        self.order.append(node.name)
        if Buffer.alive > self.peak:
            self.peak = Buffer.alive


Spec = dict[str, Any]


def _engine_case(rng: Rng, size: int) -> Case:
    if size == 60:
        return Case(({"shape": "chain", "nodes": CHAIN},))
    if size == 59:
        return Case(({"shape": "fan", "nodes": FAN},))
    if size in (20, 40):
        return Case(({"shape": "chain", "nodes": 100 * size},))
    count = 1 + size // 4 + rng.randint(0, 2)
    leaves = rng.randint(1, 3)
    nodes = []
    for number in range(count):
        edges: list[Any] = []
        for _ in range(rng.randint(1, 3)):
            if rng.chance(0.08):
                edges.append(None)
                continue
            near = number and rng.chance(0.75)
            target = f"n{rng.randint(0, number - 1)}" if near else f"leaf{rng.randrange(leaves)}"
            slot = 0 if target.startswith("leaf") or rng.chance(0.7) else 1
            factor = rng.choice((1, 1, 1, 2, 3, -1, None))
            edges.append((target, slot, factor))
        nodes.append(edges)
    last = f"n{count - 1}"
    roots = [last] + [f"n{rng.randrange(count)}" for _ in range(rng.choice((0, 0, 1, 2)))]
    spec = {"shape": "random", "nodes": nodes, "leaves": leaves, "roots": roots,
            "grads": [rng.randint(1, 5) for _ in roots]}  # fmt: skip
    return Case((spec,))


@handed_out
def _built(spec: Spec, log: Log) -> tuple[list[tuple[Node, int]], list[Buffer], list[Node]]:
    """Root edges, their gradients, and the leaves."""
    if spec["shape"] == "random":
        leaves = [Node(f"leaf{i}", ACCUMULATE, log) for i in range(spec["leaves"])]
        named = {leaf.name: leaf for leaf in leaves}
        for number, edges in enumerate(spec["nodes"]):
            node = named[f"n{number}"] = Node(f"n{number}", number, log)
            for edge in edges:
                if edge is None:
                    node.next_edges.append(None)
                    node.factors.append(None)
                    continue
                target, slot, factor = edge
                node.next_edges.append((named[target], slot))
                node.factors.append(factor)
                named[target].num_inputs = max(named[target].num_inputs, slot + 1)
                named[target].uses += 1
        return [(named[n], 0) for n in spec["roots"]], [Buffer(g) for g in spec["grads"]], leaves
    leaf = Node("leaf0", ACCUMULATE, log)
    last = leaf
    if spec["shape"] == "chain":
        for number in range(spec["nodes"]):
            node = Node("n", number, log)
            node.next_edges, node.factors, last.uses = [(last, 0)], PASSES_ON, 1
            last = node
        return [(last, 0)], [Buffer(3)], [leaf]
    middle = []
    for number in range(spec["nodes"]):
        node = WatchedNode("n", number, log)
        node.next_edges, node.factors, node.uses = [(leaf, 0)], PASSES_ON, 1
        middle.append((node, 0))
    root = Node("root", spec["nodes"], log)
    root.next_edges, root.factors = list(middle), [1] * len(middle)
    leaf.uses = len(middle)
    return [(root, 0)], [Buffer(2)], [leaf]


@handed_out
def _in_order(names: list[str]) -> list[str]:
    """The order, with accumulators that ran one after another sorted: their ties are free."""
    tidy: list[str] = []
    run: list[str] = []
    for name in [*names, ""]:
        if name.startswith("leaf"):
            run.append(name)
            continue
        tidy += sorted(run)
        run = []
        if name:
            tidy.append(name)
    return tidy


@handed_out
def _dismantled(roots: list[tuple[Node, int]]) -> None:
    """Take a graph apart node by node: a deep one must not be freed by recursion."""
    stack = [node for node, _ in roots]
    while stack:
        node = stack.pop()
        stack += [edge[0] for edge in node.next_edges if edge]
        node.next_edges = []


def _drive_engine(answer: Any, spec: Spec) -> dict[str, Any]:
    """What the loop did with the graph."""
    enabled = gc.isenabled()
    gc.disable()  # a million nodes would be searched for cycles again and again
    large = spec["shape"] != "random"
    log, before = ShortLog() if large else Log(), Buffer.alive
    roots, grads, leaves = _built(spec, log)
    try:
        Buffer.alive = len(grads)
        answer(roots, grads)
        grads.clear()
        left = Buffer.alive
    finally:
        _dismantled(roots)
        Buffer.alive = before
        if enabled:
            gc.enable()
    return {
        "order": f"{len(log.order)} nodes, last {log.order[-1:]}"
        if large
        else _in_order(log.order),
        "leaf grads": [leaf.grad for leaf in leaves],
        "problems": log.problems[:3],
        "released": len(log.released),
        "buffers left alive": left,
        "peak of live buffers": log.peak,
    }


def _engine_truth(spec: Spec) -> dict[str, Any]:
    if spec["shape"] == "chain":
        return {"order": f"{spec['nodes'] + 1} nodes, last ['leaf0']", "leaf grads": [3],
                "released": spec["nodes"] + 1, "peak": 2}  # fmt: skip
    if spec["shape"] == "fan":
        return {
            "order": f"{spec['nodes'] + 2} nodes, last ['leaf0']",
            "leaf grads": [2 * spec["nodes"]],
            "released": spec["nodes"] + 2,
            "peak": 4,
        }
    log = Log()
    before, Buffer.alive = Buffer.alive, 0
    roots, grads, leaves = _built(spec, log)
    _reference(roots, grads)
    peak = log.peak
    Buffer.alive = before
    return {"order": _in_order(log.order), "leaf grads": [leaf.grad for leaf in leaves],
            "released": len(log.released), "peak": peak}  # fmt: skip


def _reference(roots: list[tuple[Node, int]], grads: list[Buffer]) -> None:
    waits: dict[Node, int] = {}
    stack, seen = [node for node, _ in roots], set()
    for node, _ in roots:
        waits[node] = waits.get(node, 0) + 1
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for edge in node.next_edges:
            if edge:
                waits[edge[0]] = waits.get(edge[0], 0) + 1
                stack.append(edge[0])
    held: dict[Node, list[Buffer | None]] = {}
    ready: list[Node] = []

    def deliver(edge: tuple[Node, int], grad: Buffer | None) -> None:
        target, slot = edge
        slots = held.setdefault(target, [None] * target.num_inputs)
        if grad is not None:
            there = slots[slot]
            slots[slot] = grad if there is None else there + grad
        waits[target] -= 1
        if not waits[target]:
            ready.append(target)

    for edge, grad in zip(roots, grads, strict=True):
        deliver(edge, grad)
    while ready:
        node = max(ready, key=lambda one: one.sequence_nr)
        ready.remove(node)
        results = node.apply(held.pop(node))
        node.release()
        for following, result in zip(node.next_edges, results, strict=False):
            if following:
                deliver(following, result)
        del results


def _judge_engine(case: Case, got: Any) -> Any:
    right = _engine_truth(case.inputs[0])
    if not isinstance(got, dict):
        return f"run_backward should return, it {got!r}"
    for name in ("leaf grads", "order", "released"):
        if got[name] != right[name]:
            return f"{name}: {str(right[name])[:300]}; yours: {str(got[name])[:300]}"
    if got["problems"]:
        return got["problems"][0]
    if got["buffers left alive"]:
        return f"no buffer alive at the end; {got['buffers left alive']} are"
    if got["peak of live buffers"] > right["peak"] + SLACK:
        return (
            f"at most {right['peak']} buffers alive at once, and {SLACK} in your hands; "
            f"{got['peak of live buffers']} were"
        )
    return None


def _shown(spec: Spec) -> str:
    """The graph in words: per node its edges, with what the gradient is multiplied by."""
    if spec["shape"] != "random":
        return f"a {spec['shape']} of {spec['nodes']:,} nodes"
    roots = ", ".join(f"{n} gets {g}" for n, g in zip(spec["roots"], spec["grads"], strict=True))
    lines = [
        f"n{number} -> "
        + ", ".join("no edge" if e is None else f"{e[0]} slot {e[1]} (times {e[2]})" for e in edges)
        for number, edges in enumerate(spec["nodes"])
    ]
    return "; ".join([f"roots: {roots}", *lines])[:900]


engine_loop = Exercise(
    id="autograd_engine.engine_loop",
    statement="Write run_backward(roots, grads): count dependencies, run what is ready in "
    "PyTorch's order, add up what arrives, release every node after it ran. A million nodes deep "
    "must pass.",
    case=_engine_case,
    judge=_judge_engine,
    drive=_drive_engine,
    show=_shown,
    rules=(
        "a node runs once, when everything that will come has come",
        "of the ready nodes the one with the largest sequence_nr runs; ties are free",
        "a buffer that arrived may belong to somebody else as well: never write into it",
        "no buffer outlives its use; node.release() right after node.apply()",
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
        "remembers the answer of the first random case and returns it for all later cases",
        "is right on small cases and exceeds the size limit on large ones (quadratic, recursive or "
        "waiting for ever)",
    ),
    minutes=25,
    difficulty=4,
)  # fmt: skip

# --- rows of a derivative table

OPERATORS = ("add", "mul", "div", "where", "pow")


def _row_case(rng: Rng, size: int) -> Case:
    name = OPERATORS[rng.randrange(5)]
    shape = rng.sizes(rank=min(3, 1 + size // 3), largest=4, smallest=0 if rng.chance(0.15) else 1)
    dtype = rng.choice((torch.float64, torch.float64, torch.float32, torch.complex128))
    if name == "pow":
        dtype = rng.choice((torch.float64, torch.float32))

    def operand(kind: torch.dtype) -> torch.Tensor:
        cut = [1 if rng.chance(0.3) else n for n in shape]
        sizes = cut[rng.randint(0, len(cut)) if rng.chance(0.4) else 0 :]
        count = max(1, torch.Size(sizes).numel())
        numbers = torch.randn(count, dtype=torch.float64, generator=rng.generator())
        made = numbers[: torch.Size(sizes).numel()].reshape(sizes).to(kind)
        if kind.is_complex:
            made = made + 1j * made.flip(0) if made.dim() else made * (1 + 2j)
        if made.dim() > 1 and rng.chance(0.4):
            made = made.mT.contiguous().mT
        return made

    other_dtype = torch.float64 if dtype == torch.float32 and rng.chance(0.5) else dtype
    left, right = operand(dtype), operand(other_dtype)
    inputs: tuple[Any, ...] = (left, right)
    if name == "add":
        inputs = (left, right, rng.choice((1, 2, -3)))
    if name == "div":
        right = torch.where(right.abs() < 0.2, torch.ones_like(right), right)
        inputs = (left, right)
    if name == "where":
        inputs = (operand(torch.float64) > 0, left, right)
    if name == "pow":
        left, right = left.abs(), (right.abs() * 2).round()
        if rng.chance(0.5):
            left = torch.where(left < 0.6, torch.zeros_like(left), left)
        inputs = (left, right)
    needs = tuple(
        isinstance(one, torch.Tensor) and one.dtype != torch.bool and rng.chance(0.85)
        for one in inputs
    )
    result = _forward(name, inputs)
    weights = torch.randn(max(1, result.numel()), dtype=torch.float64, generator=rng.generator())
    grad = weights[: result.numel()].reshape(result.shape).to(result.dtype)
    if grad.is_complex():
        grad = grad * (1 - 0.5j)
    return Case((name, grad, inputs, needs))


def _forward(name: str, inputs: tuple[Any, ...]) -> torch.Tensor:
    if name == "add":
        return torch.add(inputs[0], inputs[1], alpha=inputs[2])
    made: torch.Tensor = getattr(torch, name)(*inputs)
    return made


def _row_truth(name: str, grad: Any, inputs: Any, needs: Any) -> list[Any]:
    tracked = [
        one.clone().requires_grad_() if need else one
        for one, need in zip(inputs, needs, strict=True)
    ]
    wanted = [one for one, need in zip(tracked, needs, strict=True) if need]
    if not wanted:
        return [None] * len(inputs)
    found = iter(torch.autograd.grad(_forward(name, tuple(tracked)), wanted, grad))
    return [next(found) if need else None for need in needs]


derivative_row = Exercise(
    id="autograd_engine.derivative_row",
    statement="Write derivative_row(name, grad, inputs, needs): one gradient per input of add, "
    "mul, div, where and pow, reduced to the input's shape, in the input's dtype; None where none "
    "is needed.",
    case=_row_case,
    expected=_row_truth,
    rules=(
        "add has inputs (self, other, alpha), where (condition, self, other), the others "
        "(self, other)",
        "needs has one bool per input; None for the others",
        "at zero, pow follows PyTorch: a gradient that is a limit of nothing is 0",
    ),
    tolerance=2e-5,
    cases=240,
    banned=(
        "torch.autograd.grad", "torch.autograd.backward", "torch.Tensor.backward",
        "torch.Tensor.sum_to_size", "labkit.*",
    ),
    hints=(
        "Shape error only where a size-1 axis was stretched",
        "Sum over stretched axes, keep those that were one",
        "sum_to_size semantics, conj on the partner",
        Hint("log(0) is -inf, and -inf times 0 is nan: choose 0 with where before you multiply",
             when=lambda e: "nan" in e.got),
        Hint("The gradient of a float32 input is float32, also where the other one was float64",
             when=lambda e: "float32" in e.property),
    ),
    must_fail=(
        "no reduction of broadcast axes",
        "drops kept axes",
        "wrong for 0-dim",
        "zeros instead of None",
        "conjugate forgotten",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        "returns NaN or an uninitialised buffer where a value is expected",
        "is right only for square, even or contiguous shapes",
    ),
    minutes=20,
    difficulty=4,
)  # fmt: skip

# --- a Function with a second derivative


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
    found["operators run for the output nobody used"] = sorted(ran & {"mul", "pow", "zeros"})
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
    statement="Write the torch.autograd.Function PowerAndSum: apply(x, w, n) gives (w * x**n, "
    "x + w), can be differentiated twice, makes no zeros for an output nobody used, and keeps "
    "nothing once its node is released.",
    case=_function_case,
    expected=_function_truth,
    drive=_drive_function,
    rules=(
        "n is an int: no gradient",
        "switch materialised gradients off: the gradient of an unused output is None",
        "tensors for backward go through ctx.save_for_backward",
    ),
    tolerance=1e-9,
    cases=50,
    seconds=20,  # the first dispatch mode of a process imports much
    hints=(
        "gradgradcheck fails, gradcheck passes",
        "Was your backward recorded?",
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
        "remembers the answer of the first random case and returns it for all later cases",
        "returns the right value but changes one of its inputs",
        "catches every exception and returns a default",
    ),
    minutes=15,
    difficulty=3,
)  # fmt: skip

EXERCISES = (engine_loop, derivative_row, custom_function)
