"""Autograd from the outside: which tensors are leaves, and what a graph says about a formula."""

import warnings
from typing import Any

import torch

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._engine_steps import formula, waits

NOTEBOOK = "2_core_code/6_autograd"

FIRST = "remembers the answer of the first random case and returns it for all later cases"


# --- leaf_or_not

Statement = tuple[Any, ...]
Facts = tuple[bool, bool, bool]

DTYPES = ("bool", "int64", "float32", "float64")
FLOATS = ("float32", "float64")
MAKING = ("to", "view", "detach", "contiguous", "mul", "mul", "mul", "greater", "Parameter")


class _Run:
    """PyTorch runs a program statement by statement; `names` is what is bound so far."""

    def __init__(self) -> None:
        self.names: dict[str, torch.Tensor] = {}
        self.modes: list[Any] = []

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, *_exception: object) -> None:
        while self.modes:
            self.modes.pop().__exit__(None, None, None)

    def step(self, statement: Statement) -> None:
        target, op, *arguments = statement
        if op in ("no_grad", "enable_grad"):
            self.modes.append(getattr(torch, op)())
            self.modes[-1].__enter__()
        elif op == "end":
            self.modes.pop().__exit__(None, None, None)
        else:
            made = _call(op, [self.names.get(a, a) for a in arguments])
            if target:
                self.names[target] = made

    def asks(self) -> list[str]:
        """The names of tensors that require grad."""
        return [name for name, tensor in self.names.items() if tensor.requires_grad]


def _call(op: str, arguments: list[Any]) -> Any:
    first = arguments[0]
    if op == "tensor":
        dtype, requires_grad = arguments
        return torch.ones(2, dtype=getattr(torch, dtype), requires_grad=requires_grad)
    if op == "Parameter":
        return torch.nn.Parameter(first, requires_grad=arguments[1])
    if op == "to":
        return first.to(getattr(torch, arguments[1]))
    if op == "view":
        return first.view(2)
    if op == "mul":
        return first * arguments[1]
    if op == "greater":
        return first > arguments[1]
    if op == "backward":
        return first.backward(torch.ones_like(first), retain_graph=True)
    return getattr(first, op)(*arguments[1:])


def _facts(program: list[Statement]) -> dict[str, Facts]:
    with _Run() as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reading the grad of a tensor that is no leaf
        for statement in program:
            run.step(statement)
        return {
            name: (tensor.is_leaf, tensor.requires_grad, tensor.grad is not None)
            for name, tensor in run.names.items()
        }


def _a_program(rng: Rng, size: int) -> tuple[list[Statement]]:
    program: list[Statement] = []
    with _Run() as run:

        def add(statement: Statement) -> None:
            run.step(statement)
            program.append(statement)

        add(("a", "tensor", rng.choice(FLOATS), rng.chance(0.75)))
        for _ in range(rng.randint(0, 1) if size == 0 else 2 + 2 * size):
            add(_a_statement(rng, run))
        while run.modes:
            add(("", "end"))
        if run.asks() and rng.chance(0.8):
            add(("", "backward", run.asks()[-1]))
    return (program,)


def _a_statement(rng: Rng, run: _Run) -> Statement:
    asks = run.asks()
    tied = [name for name in asks if not run.names[name].is_leaf]
    draw = rng.random()
    if draw < 0.10 and len(run.modes) < 2:
        return ("", rng.choice(("no_grad", "no_grad", "enable_grad")))
    if draw < 0.20 and run.modes:
        return ("", "end")
    if draw < 0.35 and asks:
        return ("", "retain_grad", rng.choice(tied or asks))
    if draw < 0.48 and asks:
        return ("", "backward", rng.choice(tied or asks))
    viewed = [id(t._base) for t in run.names.values() if t._base is not None]
    able = [
        name
        for name, t in run.names.items()
        if t.is_floating_point() and t.is_leaf and id(t) not in viewed
    ]
    if draw < 0.56 and able:  # on, and of leaves off: where PyTorch allows it
        return ("", "requires_grad_", rng.choice(able), rng.chance(0.65))
    made = _a_making(rng, run.names)
    return made if _is_plain(made, run.names) else (made[0], "detach", made[2])


def _is_plain(made: Statement, names: dict[str, torch.Tensor]) -> bool:
    """False for a view made without recording of what requires grad.

    It claims to require grad itself, as its base does, and has no history all the same.
    """
    if made[1] != "view" or torch.is_grad_enabled():
        return True
    source = names[made[2]]
    return not (source.requires_grad or (source._base is not None and source._base.requires_grad))


def _a_making(rng: Rng, names: dict[str, torch.Tensor]) -> Statement:
    new = rng.choice(list(names)) if rng.chance(0.12) else "abcdefghijklmnopqrstuvwxyz"[len(names)]
    if rng.chance(0.15):
        dtype = rng.choice(DTYPES)
        return (new, "tensor", dtype, dtype in FLOATS and rng.chance(0.6))
    recent = [*names, *list(names)[-2:]]
    source, op = rng.choice(recent), rng.choice(MAKING)
    floating = names[source].is_floating_point()
    if op == "to":
        own = str(names[source].dtype).removeprefix("torch.")
        return (new, op, source, own if rng.chance(0.4) else rng.choice((*FLOATS, *DTYPES)))
    if op in ("mul", "greater"):
        return (new, op, source, rng.choice(recent))
    if op == "Parameter":
        return (new, op, source, floating and rng.chance(0.8))
    return (new, op, source)


def _fewer_statements(program: list[Statement]) -> Any:
    for gone in range(1, len(program)):
        left = program[:gone] + program[gone + 1 :]
        try:
            with _Run() as run:
                for statement in left:
                    run.step(statement)
                balanced = not run.modes
        except Exception:  # without that statement it is no program any more
            continue
        if balanced:
            yield (left,)


def _python(program: list[Statement]) -> str:
    """The program as lines of Python."""
    lines, depth = [], 0
    for number, (target, op, *arguments) in enumerate(program):
        if op == "end":
            depth -= 1
            continue
        lines.append("    " * depth + _line(target, op, arguments))
        depth += op in ("no_grad", "enable_grad")
        if program[number + 1 : number + 2] == [("", "end")] and lines[-1].endswith(":"):
            lines.append("    " * depth + "pass")
    return "\n" + "\n".join(lines)


def _line(target: str, op: str, arguments: list[Any]) -> str:
    if op in ("no_grad", "enable_grad"):
        return f"with torch.{op}():"
    if op == "tensor":
        call = f"torch.ones(2, dtype=torch.{arguments[0]}, requires_grad={arguments[1]})"
    elif op == "Parameter":
        call = f"nn.Parameter({arguments[0]}, requires_grad={arguments[1]})"
    elif op in ("mul", "greater"):
        call = f"{arguments[0]} {'*' if op == 'mul' else '>'} {arguments[1]}"
    elif op == "backward":
        call = f"{arguments[0]}.backward(ones, retain_graph=True)"
    elif op == "view":
        call = f"{arguments[0]}.view(2)"
    else:
        inside = ", ".join(f"torch.{a}" if op == "to" else str(a) for a in arguments[1:])
        call = f"{arguments[0]}.{op}({inside})"
    return f"{target} = {call}" if target else call


def _wrong_names(evidence: Any) -> list[tuple[str, Any, Facts]]:
    got = evidence.value if isinstance(evidence.value, dict) else {}
    return [(n, got.get(n), right) for n, right in evidence.right.items() if got.get(n) != right]


def _wrong_for(*ops: str) -> Any:
    """True when the first wrong name was last bound by one of these."""

    def when(evidence: Any) -> bool:
        name = _wrong_names(evidence)[0][0]
        made_by = [op for target, op, *_ in evidence.inputs[0] if target == name][-1]
        return made_by in ops

    return when


def _only_grad_wrong(evidence: Any) -> bool:
    return all(tuple(got)[:2] == right[:2] for _, got, right in _wrong_names(evidence))


def _binds_again(evidence: Any) -> bool:
    bound = [target for target, *_ in evidence.inputs[0] if target]
    return len(bound) > len(set(bound))


def _grad_too_often(evidence: Any) -> bool:
    return _only_grad_wrong(evidence) and not _wrong_names(evidence)[0][2][2]


def _program_of(*allowed: str) -> Any:
    """Cases of these operations alone, tensors aside: what is left of a random program."""

    def case(rng: Rng, size: int) -> tuple[list[Statement]]:
        while True:
            kept, bound = [], {""}
            for target, op, *arguments in _a_program(rng, size)[0]:
                used = {a for a in arguments if isinstance(a, str) and a not in DTYPES}
                if op in ("tensor", *allowed) and used <= bound:
                    kept.append((target, op, *arguments))
                    bound.add(target)
            try:
                _facts(kept)
            except RuntimeError:  # what was left out had made the rest legal
                continue
            return (kept,)

    return case


LEAVES = ("Parameter", "detach", "requires_grad_")
OPERATIONS = (*LEAVES, "view", "contiguous", "mul", "greater")
MODES = (*OPERATIONS, "to", "no_grad", "enable_grad", "end")


leaf_or_not = Exercise(
    id="autograd.leaf_or_not",
    stages=(
        Stage("leaves", case=_program_of(*LEAVES)),
        Stage("operations", case=_program_of(*OPERATIONS)),
        Stage("casts", case=_program_of(*OPERATIONS, "to")),
        Stage("grad mode", case=_program_of(*MODES)),
        Stage("who has a grad"),
    ),
    rules=("plain Python: no torch, no labkit",),
    case=_a_program,
    expected=_facts,
    smaller=_fewer_statements,
    show=_python,
    cases=300,
    minutes=15,
    difficulty=3,
    banned=("torch.*", "labkit.*"),
    hints=(
        Hint(
            "Program {number}: a cast to the dtype a tensor has already returns the same object, "
            "and so does contiguous(). Two names, one tensor: what happens to one happens to the "
            "other. A cast to another float type is an operation; to an integer type it ends the "
            "history.",
            when=_wrong_for("to", "contiguous"),
        ),
        Hint(
            "A Parameter is a new leaf, whatever it was made from; its requires_grad is "
            "the one it is given, also under no_grad.",
            when=lambda evidence: (
                _wrong_for("Parameter", "detach", "tensor")(evidence)
                and not _only_grad_wrong(evidence)
            ),
        ),
        Hint(
            "A result that requires grad needs grad mode on, an input that requires grad at this "
            "very line, and a float dtype. `>` gives bools.",
            when=lambda evidence: not _only_grad_wrong(evidence),
        ),
        Hint(
            "Program {number} binds a name again. That does not cut the history of the tensor the "
            "name stood for, nor does the new tensor take its place: keep objects, not names.",
            when=lambda evidence: _only_grad_wrong(evidence) and _binds_again(evidence),
        ),
        Hint(
            "A grad that is not there: backward follows only what was recorded, and "
            "writes into leaves that require grad at that moment, and into tensors that had asked "
            "by retain_grad() before.",
            when=_grad_too_often,
        ),
        Hint(
            "A grad that you miss. Backward may start at a leaf; a tensor that is no leaf keeps "
            "its grad if it asked by retain_grad(), under any of its names; and a gradient reaches "
            "every input that required grad when the value was recorded.",
            when=_only_grad_wrong,
        ),
        "Leaf = made without recorded history. It needs no requires_grad for that.",
        "Track an object per tensor: its dtype, requires, and the tensors it was recorded from.",
    ),
    must_fail=(
        "leaf means no grad_fn only for requires_grad",
        "any float tensor is a leaf",
        "grad everywhere after backward",
        "ignores retain_grad",
        "ignores casts",
        "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)",
        FIRST,
        "returns the literal answer of the example in the statement",
    ),
)


# --- read_the_graph

ONE = ("neg", "sin", "tanh")
TWO = ("add", "sub", "mul", "atan2")
LONG = 5_000
"""Nodes in a row in the longest cases."""

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
    tolerance=1e-6,
    cases=120,
    minutes=30,
    difficulty=3,
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
        "is right on small cases and exceeds the size limit on large ones (quadratic, recursive "
        "or waiting for ever)",
        FIRST,
    ),
)

EXERCISES = (formula, waits, leaf_or_not, read_the_graph)
