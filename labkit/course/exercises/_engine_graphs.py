"""Graphs for an engine loop: numbers for gradients, and a log of what the loop does with them."""

import gc
from typing import Any

from labkit.course.exercise import Case, Rng, handed_out

ACCUMULATE = 2**64 - 1
CHAIN, FAN = 200_000, 30_000
PASSES_ON: list[int | None] = [1]
LOOKS = 100  # times a node's number may be looked at in the fan: a heap needs about fifteen
SLACK = 4  # buffers a loop may still have in its hands beside those that are needed


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
    """Counts: what happened to so many nodes is not written out."""

    def ran(self, node: Node, inputs: int) -> None:
        """A node runs now."""
        self.order.append(node.name)
        if Buffer.alive > self.peak:
            self.peak = Buffer.alive


Spec = dict[str, Any]


def engine_case(rng: Rng, size: int) -> Case:
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


def drive_engine(answer: Any, spec: Spec) -> dict[str, Any]:
    """What the loop did with the graph."""
    enabled = gc.isenabled()
    gc.disable()  # so many nodes would be searched for cycles again and again
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


def right_order(spec: Spec) -> list[str]:
    """The order of a small graph; none of a large one."""
    return list(_engine_truth(spec)["order"]) if spec["shape"] == "random" else []


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


def judge_engine(case: Case, got: Any) -> Any:
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


def a_chain(rng: Rng, size: int) -> Case:
    """A graph that is deep, and nothing else."""
    return Case(({"shape": "chain", "nodes": 5_000},))


def a_small_graph(rng: Rng, size: int) -> Case:
    """No case of those that only large graphs need."""
    return engine_case(rng, min(size, 39))


def one_root(spec: Spec) -> bool:
    """Whether backward starts at one node."""
    return spec["shape"] == "random" and len(set(spec["roots"])) == 1


def several_roots(spec: Spec) -> bool:
    """Whether backward starts at several nodes."""
    return spec["shape"] == "random" and len(set(spec["roots"])) > 1


def shown(spec: Spec) -> str:
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
