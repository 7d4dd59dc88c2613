"""Autograd from the outside: which tensors are leaves, and what a graph says about a formula."""

from typing import Any

import torch

from labkit.course.exercise import Exercise, Hint, Rng, handed_out
from labkit.course.exercises._engine_steps import formula, send, waits
from labkit.course.exercises._leaves import leaf_or_not
from labkit.course.exercises._never_right import FIRST, TOO_SLOW

NOTEBOOK = "2_core_code/6_autograd"


# --- read_the_graph

ONE = ("neg", "sin", "tanh")
TWO = ("add", "sub", "mul", "atan2")
LONG = 5_000
"""Nodes in a row in the longest cases."""
MOST_DRAWN = 40

Step = tuple[Any, ...]


def _a_formula(rng: Rng, size: int) -> tuple[list[Step], str, bool]:
    """(steps, the library whose graph it is, whether leaves are made in reverse order)."""
    library = rng.choice(("torch", "labkit"))
    _root([("leaf", 1.0)], library, False)  # the first use imports operators: not on answers' time
    steps: list[Step] = [("leaf", _a_number(rng))]
    if size == 8 and rng.chance(0.4):
        steps += [("leaf", _a_number(rng)), *_long(rng)]
        return steps, "torch", False
    if size >= 6 and rng.chance(0.3):
        steps += _ladder(rng)
        return steps, library, rng.chance(0.5)
    for _ in range(rng.randint(0, 1) if size == 0 else 3 * size):
        scalars, vectors = _kinds(steps)
        draw = rng.random()
        if draw < 0.15:
            steps.append(("leaf", _a_number(rng)))
        elif draw < 0.22 and size:
            steps.append(("leaf", [_a_number(rng) for _ in range(rng.randint(2, 4))]))
        elif draw < 0.34 and vectors:
            steps.append(("unbind", rng.choice(vectors)))
        elif draw < 0.42 and size:
            steps.append(("stack", *rng.choices(scalars, k=rng.randint(2, 4))))
        elif draw < 0.60:
            steps.append((rng.choice(ONE), rng.choice(scalars[-4:])))
        else:
            steps.append((rng.choice(TWO), rng.choice(scalars[-3:]), rng.choice(scalars)))
    if "unbind" in steps[-1] and rng.chance(0.5):
        steps.append(("tanh", _kinds(steps)[0][-1]))
    return _tamed(steps), library, rng.chance(0.5)


def _a_number(rng: Rng) -> float:
    return rng.randint(-24, 24) / 8


def _long(rng: Rng) -> list[Step]:
    """A chain that no recursion survives: every link uses the last one and a leaf."""
    links = ("sin", "tanh", "sub", "atan2", "neg")
    made: list[Step] = []
    for number in range(1, LONG + 1):
        op = rng.choice(links)
        pair = [number, 0] if rng.chance(0.5) else [0, number]
        made.append((op, *pair) if op in TWO else (op, number))
    return made


def _ladder(rng: Rng) -> list[Step]:
    """Every value is used twice: 60 steps, and 2 to the 60 paths."""
    made: list[Step] = []
    for number in range(60):
        last = 2 * number
        made += [(rng.choice(("sub", "atan2", "add")), last, last), ("sin", last + 1)]
    return made


def _kinds(steps: list[Step]) -> tuple[list[int], list[int]]:
    """The numbers of the scalar values, and of the vectors."""
    scalars: list[int] = []
    vectors: list[int] = []
    lengths: dict[int, int] = {}  # of value: 0 for a scalar
    count = 0
    for op, *arguments in steps:
        if op == "unbind":
            new = lengths[arguments[0]]
            scalars += range(count, count + new)
            count += new
            continue
        length = len(arguments) if op == "stack" else 0
        if op == "leaf" and isinstance(arguments[0], list):
            length = len(arguments[0])
        (vectors if length else scalars).append(count)
        lengths[count] = length
        count += 1
    return scalars, vectors


def _tamed(steps: list[Step]) -> list[Step]:
    """Products become additions where values would grow without end."""
    values = [value for value in _values(steps, torch) if value.dim() == 0]
    if all(abs(value.item()) < 1e3 for value in values):
        return steps
    return [("add", *step[1:]) if step[0] == "mul" else step for step in steps]


@handed_out
def _values(steps: list[Step], library: Any, reverse: bool = False) -> list[Any]:
    """Every value of the formula, made by this library; the leaves made in reverse order or not."""
    leaves = [number for number, step in enumerate(steps) if step[0] == "leaf"]
    made = {
        number: library.tensor(steps[number][1], dtype=library.float64, requires_grad=True)
        for number in (reversed(leaves) if reverse else leaves)
    }
    values: list[Any] = []
    for number, (op, *arguments) in enumerate(steps):
        if op == "leaf":
            values.append(made[number])
            continue
        inputs = [values[a] for a in arguments]
        if op == "unbind":
            values += inputs[0].unbind()
        elif op == "stack":
            values.append(library.stack(inputs))
        else:
            values.append(getattr(library, op)(*inputs))
    return values


@handed_out
def _root(steps: list[Step], library: str, reverse: bool) -> tuple[Any, int]:
    """The edge at which backward from the last value starts."""
    if library == "torch":
        edge = torch.autograd.graph.get_gradient_edge(_values(steps, torch, reverse)[-1])
        return edge.node, edge.output_nr
    import labkit
    from labkit.autograd.graph import get_gradient_edge

    own = get_gradient_edge(_values(steps, labkit, reverse)[-1])
    return own.node, own.output_nr


def _drive_graph(answer: Any, steps: list[Step], library: str, reverse: bool) -> dict[str, Any]:
    serialise, rebuild = answer
    text = serialise(_root(steps, library, reverse))
    return {"text": text, "value": rebuild(text)}


def _right_graph(steps: list[Step], library: str, reverse: bool) -> dict[str, Any]:
    """The text of PyTorch's graph, whichever library was asked; the value that forward had."""
    value = _values(steps, torch, reverse)[-1]
    start = torch.autograd.graph.get_gradient_edge(value)
    numbers: dict[Any, int] = {}
    stack: list[Any] = [start.node]
    while stack:
        node = stack.pop()
        if node not in numbers:
            numbers[node] = len(numbers)
            stack += [following for following, _ in reversed(node.next_functions)]
    lines = [f"root 0:{start.output_nr}"]
    for node, number in numbers.items():
        edges = [f"{numbers[following]}:{slot}" for following, slot in node.next_functions]
        if hasattr(node, "variable"):
            edges = [",".join(map(repr, node.variable.detach().reshape(-1).tolist()))]
        lines.append(f"{number} {node.name()} {' '.join(edges)}")
    return {"text": "\n".join(lines), "value": value.tolist()}


def _fewer_steps(steps: list[Step], library: str, reverse: bool) -> Any:
    for kept in (1, len(steps) // 2, len(steps) - 1):
        if 0 < kept < len(steps):
            yield steps[:kept], library, reverse
    if library == "labkit":
        yield steps, "torch", reverse


def _show_formula(steps: list[Step], library: str, reverse: bool) -> str:
    lines = []
    for number, (op, *arguments) in enumerate(steps[:24]):
        name = f"v{sum(map(len, _kinds(steps[:number])))}{', ...' if op == 'unbind' else ''}"
        inputs = ", ".join(str(a) if op == "leaf" else f"v{a}" for a in arguments)
        lines.append(f"{name} = {op}({inputs})")
    more = f"\n... {len(steps) - 24} more steps" if len(steps) > 24 else ""
    return f"the graph, in {library}, of the last value of\n" + "\n".join(lines) + more


def _graph_drawn(case: Any, got: Any, right: Any) -> Any:
    """The graph that the text is about; None where it is too large to read."""
    from labkit import show

    steps, _, reverse = case.inputs
    if len(steps) > MOST_DRAWN:
        return None
    return show.graph(_root(steps, "torch", reverse)[0], simple=True)


def _texts(evidence: Any) -> tuple[list[str], list[str]]:
    return evidence.value["text"].splitlines(), evidence.right["text"].splitlines()


def _too_many_lines(evidence: Any) -> bool:
    got, right = _texts(evidence)
    return len(got) > len(right)


def _same_but_slots(evidence: Any) -> bool:
    got, right = _texts(evidence)
    bare = [" ".join(part.partition(":")[0] for part in line.split()) for line in right]
    return got != right and bare == [
        " ".join(part.partition(":")[0] for part in line.split()) for line in got
    ]


def _value_only(evidence: Any) -> bool:
    return bool(evidence.value["text"] == evidence.right["text"])


read_the_graph = Exercise(
    id="autograd.read_the_graph",
    rung="boss",
    rules=("nodes of either library; rebuild sees the text alone",),
    case=_a_formula,
    expected=_right_graph,
    drive=_drive_graph,
    smaller=_fewer_steps,
    show=_show_formula,
    picture=_graph_drawn,
    tolerance=1e-6,
    cases=120,
    minutes=30,
    hints=(
        Hint(
            "Your text has more lines than the graph has nodes. A node that two edges lead to is "
            "one node: keep a dictionary from node to number, and ask it before you go in.",
            when=_too_many_lines,
        ),
        Hint(
            "Only the slots differ. Two edges may lead into one node from different outputs of "
            "its forward call: unbind has one output per element, and the number after the colon "
            "says which.",
            when=_same_but_slots,
        ),
        Hint(
            "The text is right and the value is not. Edges stand in the order of the arguments: "
            "a - b is not b - a. And each line's value is made once, whoever uses it.",
            when=_value_only,
        ),
        Hint(
            "This graph is thousands of nodes deep, or has far more paths than nodes. Iterate "
            "with an explicit stack, and visit every node once; both functions need that.",
            when=lambda evidence: evidence.kind == "raised",
        ),
        "Give nodes numbers in discovery order: the number is known when the node is first met.",
        "A dictionary that holds the nodes themselves also keeps them alive. An address alone "
        "does not: a freed wrapper's address is used again.",
    ),
    must_fail=(
        "duplicates shared nodes",
        "ignores the input number",
        "recursion fails at depth 5,000",
        "names by memory address",
        "loses the order of inputs of a non-commutative node",
        TOO_SLOW,
        FIRST,
    ),
)

EXERCISES = (formula, waits, send, leaf_or_not, read_the_graph)
