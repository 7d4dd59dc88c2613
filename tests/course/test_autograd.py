"""The exercises of 2_core_code/6_autograd: right answers pass, every known wrong answer fails."""

import heapq
import math
from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from labkit.course.checks import outcomes
from labkit.course.exercise import Case
from labkit.course.exercises import find
from labkit.course.exercises._leaves import Value
from labkit.course.exercises._never_right import TOO_SLOW
from labkit.course.progress_file import Attempt, record_attempt
from tests.course.answers import Answers, remembers

answers = Answers("autograd")
FIRST = "remembers the answer of the first random case and returns it for all later cases"
CONSTANT = "returns the literal answer of the example in the statement"
BANNED = "calls the torch or labkit function it is meant to rebuild (a recording mode bans it)"

# --- leaf_or_not

DTYPES = ("bool", "int64", "float32", "float64")


def leaves(
    program,
    *,
    leaf=lambda t: not t.came_from,
    casts=True,
    cast_to_the_same_is_new=False,
    retains=True,
    grad_everywhere=False,
    leaf_needs_no_requires=False,
    by_name=False,
    no_grad=True,
    floats_only=True,
):
    """The model solution with switches for its mistakes."""
    names, modes = {}, [True]

    def made(dtype, requires=False, came_from=()):
        return SimpleNamespace(
            dtype=dtype, requires=requires, came_from=came_from, retains=False, grad=False
        )

    def result(dtype, *inputs):
        came_from = [t for t in inputs if t.requires]
        if not (modes[-1] or not no_grad) or (floats_only and dtype not in DTYPES[2:]):
            came_from = []
        return made(dtype, bool(came_from), came_from)

    def backward(root):
        todo, seen = [root], set()
        while todo:
            t = todo.pop()
            if id(t) in seen:
                continue
            seen.add(id(t))
            todo += t.came_from
            if grad_everywhere or t.retains or not t.came_from:
                t.grad |= t.requires or leaf_needs_no_requires

    for target, op, *arguments in program:
        if op in ("no_grad", "enable_grad"):
            modes.append(op == "enable_grad")
            continue
        if op == "end":
            modes.pop()
            continue
        first = names.get(arguments[0])
        if op == "tensor":
            new = made(*arguments)
        elif op == "Parameter":
            new = made(first.dtype, arguments[1])
        elif op == "detach":
            new = made(first.dtype)
        elif op == "to":
            same = arguments[1] == first.dtype and not cast_to_the_same_is_new
            new = first if same or not casts else result(arguments[1], first)
        elif op == "view":
            new = result(first.dtype, first)
        elif op in ("mul", "greater"):
            second = names[arguments[1]]
            dtype = max(first.dtype, second.dtype, key=DTYPES.index)
            new = result("bool" if op == "greater" else dtype, first, second)
        else:
            new = first
            if op == "requires_grad_" and not first.came_from:
                first.requires = arguments[1]
            if op == "retain_grad":
                first.retains = retains
            if op == "backward":
                backward(first)
        if target and by_name and target in names:
            old = names[target]
            vars(old).update(vars(new))
        elif target:
            names[target] = new
    return {name: (bool(leaf(t)), bool(t.requires), bool(t.grad)) for name, t in names.items()}


answers.right("leaf_or_not")(lambda program: leaves(program))


@answers.right("leaf_or_not")
def model(program):
    """The solution of the notebook."""
    order = ["bool", "int64", "float32", "float64"]
    names, modes = {}, [True]

    def result(dtype, *inputs):
        history = [t for t in inputs if t["requires"]]
        if not modes[-1] or not dtype.startswith("float"):
            history = []
        return tensor(dtype, bool(history), history)

    def tensor(dtype, requires, history=()):
        return {"dtype": dtype, "requires": requires, "history": history, "retain": 0, "grad": 0}

    for target, op, *args in program:
        first = names.get(args[0]) if args else None
        new = first
        if op == "end":
            modes.pop()
        elif op in ("no_grad", "enable_grad"):
            modes.append(op == "enable_grad")
        elif op == "tensor":
            new = tensor(*args)
        elif op == "Parameter":
            new = tensor(first["dtype"], args[1])
        elif op == "detach":
            new = tensor(first["dtype"], False)
        elif op == "view" or (op == "to" and args[1] != first["dtype"]):
            new = result(args[1] if op == "to" else first["dtype"], first)
        elif op == "mul":
            second = names[args[1]]
            new = result(max(first["dtype"], second["dtype"], key=order.index), first, second)
        elif op == "greater":
            new = tensor("bool", False)
        elif op == "requires_grad_" and not first["history"]:
            first["requires"] = args[1]
        elif op == "retain_grad":
            first["retain"] = 1
        elif op == "backward":
            todo, seen = [first], set()
            while todo:
                t = todo.pop()
                if id(t) not in seen:
                    seen.add(id(t))
                    todo += t["history"]
                    if t["requires"] and (t["retain"] or not t["history"]):
                        t["grad"] = 1
        if target:
            names[target] = new
    return {n: (not t["history"], t["requires"], bool(t["grad"])) for n, t in names.items()}


def executes(program):
    run = {"a": torch.ones(2)}
    return {name: (t.is_leaf, t.requires_grad, False) for name, t in run.items()}


def executes_with_labkit(program):
    import labkit as lab

    t = lab.ones(2, requires_grad=True)
    return {"a": (t.is_leaf, t.requires_grad, False)}


for why, switches in [
    (
        "leaf means no grad_fn only for requires_grad",
        {"leaf": lambda t: t.requires and not t.came_from},
    ),
    ("any float tensor is a leaf", {"leaf": lambda t: t.dtype in DTYPES[2:]}),
    ("grad everywhere after backward", {"grad_everywhere": True}),
    ("grad everywhere after backward", {"leaf_needs_no_requires": True}),
    ("grad everywhere after backward", {"by_name": True}),
    ("grad everywhere after backward", {"no_grad": False}),
    ("ignores retain_grad", {"retains": False}),
    ("ignores casts", {"casts": False}),
    ("ignores casts", {"cast_to_the_same_is_new": True}),
    ("ignores casts", {"floats_only": False}),
]:
    answers.wrong("leaf_or_not", why)(
        lambda program, switches=switches: leaves(program, **switches)
    )

answers.wrong("leaf_or_not", FIRST, make=True)(lambda: remembers(leaves))


def by_rules(recorded=True, floats=True, retaining=True, on_leaves=False):
    """The two rules a reader writes, with switches for their mistakes."""

    def result(dtype, inputs, recording):
        history = [value for value in inputs if value.requires]
        if (recorded and not recording) or (floats and not dtype.startswith("float")):
            history = []
        return Value(dtype, bool(history), history)

    def reach(root):
        todo, seen = [root], set()
        while todo:
            value = todo.pop()
            if value not in seen:
                seen.add(value)
                todo += value.history
                stays = not value.history or (retaining and value.retains)
                value.has_grad |= (value.requires and stays) or (on_leaves and value.retains)

    return result, reach


answers.right("leaf_or_not")(by_rules())
answers.wrong("leaf_or_not", "ignores retain_grad")(by_rules(retaining=False))
answers.wrong("leaf_or_not", "retain_grad on a leaf outlives its requires_grad")(
    by_rules(on_leaves=True)
)


@pytest.mark.parametrize(
    ("mistake", "stage", "hint"),
    [
        ({"recorded": False}, "grad mode", "recording=False"),
        ({"floats": False}, "operations", "never requires grad"),
        ({"retaining": False}, "who has a grad", "a grad that you miss"),
        ({"on_leaves": True}, "who has a grad", "retain_grad() on a leaf"),
    ],
)
def test_the_hint_of_leaf_or_not_fits_the_mistake(mistake, stage, hint):
    exercise = find("autograd.leaf_or_not")
    found = outcomes(exercise, by_rules(**mistake), 5)
    wrong = next(outcome for outcome in found if outcome.state == "wrong")
    assert wrong.name == stage
    said = next(one for one in exercise.hints if one.fits(wrong.failures[0]))
    assert hint in said.text.lower() or hint in said.text


def test_a_grad_too_many_of_leaf_or_not_is_never_called_missed():
    exercise = find("autograd.leaf_or_not")
    found = outcomes(exercise, by_rules(on_leaves=True), 5)
    wrong = next(outcome for outcome in found if outcome.state == "wrong")
    missed = next(one for one in exercise.hints if "A grad that you miss" in str(one))
    assert not missed.fits(wrong.failures[0])


def by_plain_recursion():
    result, _ = by_rules()

    def reach(root):
        if root.requires and (root.retains or not root.history):
            root.has_grad = True
        for value in root.history:
            reach(value)

    return result, reach


answers.wrong("leaf_or_not", TOO_SLOW)(by_plain_recursion())


def test_recursion_is_right_on_small_programs_and_is_told_to_go_in_once():
    exercise = find("autograd.leaf_or_not")
    *small, large = outcomes(exercise, by_plain_recursion(), 5)
    assert {outcome.state for outcome in small} == {"done"}
    said = next(one for one in exercise.hints if one.fits(large.failures[0]))
    assert "a set of those seen" in said.text
    assert large.failures[0].input.count("b * b") == 1, "a loop, not thirty lines"


def test_no_stage_of_leaf_or_not_is_done_by_its_stub():
    def untouched(*_):
        raise NotImplementedError

    found = outcomes(find("autograd.leaf_or_not"), (untouched, untouched), 5)
    assert {outcome.state for outcome in found} == {"open"}


answers.wrong("leaf_or_not", BANNED)(executes)
answers.wrong("leaf_or_not", BANNED)(executes_with_labkit)


@answers.wrong("leaf_or_not", CONSTANT)
def example(program):
    return {"a": (True, True, True), "b": (False, True, False)}


# --- read_the_graph


def numbered(edge):
    numbers, stack = {}, [edge[0]]
    while stack:
        node = stack.pop()
        if node not in numbers:
            numbers[node] = len(numbers)
            stack += [following for following, _ in reversed(node.next_functions)]
    return numbers


def serialise(edge, slots=True, key=None, order=lambda edges: edges):
    numbers = numbered(edge)
    key = key or numbers.__getitem__
    lines = [f"root {key(edge[0])}:{edge[1]}"]
    for node in numbers:
        if hasattr(node, "variable"):
            rest = ",".join(repr(v) for v in node.variable.detach().reshape(-1).tolist())
        else:
            edges = order(node.next_functions)
            rest = " ".join(f"{key(n)}:{slot if slots else 0}" for n, slot in edges)
        lines.append(f"{key(node)} {node.name()} {rest}")
    return "\n".join(lines)


FORWARD = {
    "AddBackward0": lambda a, b: a + b,
    "SubBackward0": lambda a, b: a - b,
    "MulBackward0": lambda a, b: a * b,
    "Atan2Backward0": math.atan2,
    "NegBackward0": lambda a: -a,
    "SinBackward0": math.sin,
    "TanhBackward0": math.tanh,
    "StackBackward0": lambda *parts: list(parts),
}


def rebuild(text, swap=False, slots=True):
    root, *lines = text.split("\n")
    rows, values = {}, {}
    for line in lines:
        number, name, *rest = line.split()
        rows[number] = name, [edge.split(":") for edge in rest]

    def output(number, slot):
        name, _ = rows[number]
        whole = values[number]
        return whole[int(slot) if slots else 0] if name.startswith("Unbind") else whole

    stack = [root.split()[1].split(":")[0]]
    while stack:
        number = stack[-1]
        name, edges = rows[number]
        if name.endswith("AccumulateGrad"):
            held = [float(v) for v in edges[0][0].split(",")]
            values[number] = held if len(held) > 1 else held[0]
        elif waiting := [n for n, _ in edges if n not in values]:
            stack += waiting
            continue
        elif number not in values:
            inputs = [output(*edge) for edge in edges]
            if swap:
                inputs.reverse()
            values[number] = inputs[0] if "Unbind" in name else FORWARD[name](*inputs)
        stack.pop()
    return output(*root.split()[1].split(":"))


answers.right("read_the_graph")((serialise, rebuild))


def as_a_tree(edge):
    """Writes what two edges lead to twice."""
    lines, stack = [f"root 0:{edge[1]}"], [(edge[0], 0)]
    count = 0
    while stack:
        node, own = stack.pop()
        children = [
            (following, count + 1 + i) for i, (following, _) in enumerate(node.next_functions)
        ]
        count += len(children)
        if hasattr(node, "variable"):
            rest = ",".join(repr(v) for v in node.variable.detach().reshape(-1).tolist())
        else:
            slots = [slot for _, slot in node.next_functions]
            rest = " ".join(f"{n}:{slot}" for (_, n), slot in zip(children, slots, strict=True))
        lines.append(f"{own} {node.name()} {rest}")
        stack += reversed(children)
    return "\n".join(lines)


def recursive(edge):
    numbers = {}

    def visit(node):
        if node not in numbers:
            numbers[node] = len(numbers)
            for following, _ in node.next_functions:
                visit(following)

    visit(edge[0])
    return serialise(edge, key=numbers.__getitem__)


def recursive_rebuild(text):
    root, *lines = text.split("\n")
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    known = {}

    def value(number):
        if number not in known:
            name, *rest = rows[number]
            if name.endswith("AccumulateGrad"):
                held = [float(v) for v in rest[0].split(",")]
                known[number] = held if len(held) > 1 else held[0]
            else:
                inputs = [output(*edge.split(":")) for edge in rest]
                known[number] = inputs[0] if "Unbind" in name else FORWARD[name](*inputs)
        return known[number]

    def output(number, slot):
        return value(number)[int(slot)] if rows[number][0].startswith("Unbind") else value(number)

    return output(*root.split()[1].split(":"))


def every_path(edge):
    """Walks every path, and drops what it has met before at the end."""
    met, stack = [], [edge[0]]
    while stack:
        node = stack.pop()
        met.append(node)
        stack += [following for following, _ in reversed(node.next_functions)]
    numbers = {node: number for number, node in enumerate(dict.fromkeys(met))}
    return serialise(edge, key=numbers.__getitem__)


def remembering():
    kept = []

    def first(edge):
        if not kept:
            kept.append(serialise(edge))
        return kept[0]

    return first, rebuild


for why, answer in [
    ("duplicates shared nodes", (as_a_tree, rebuild)),
    ("ignores the input number", (lambda edge: serialise(edge, slots=False), rebuild)),
    ("ignores the input number", (serialise, lambda text: rebuild(text, slots=False))),
    ("recursion fails at depth 5,000", (recursive, rebuild)),
    ("recursion fails at depth 5,000", (serialise, recursive_rebuild)),
    ("names by memory address", (lambda edge: serialise(edge, key=id), rebuild)),
    (
        "loses the order of inputs of a non-commutative node",
        (lambda edge: serialise(edge, order=sorted_by_name), rebuild),
    ),
    (
        "loses the order of inputs of a non-commutative node",
        (serialise, lambda text: rebuild(text, swap=True)),
    ),
    (TOO_SLOW, (every_path, rebuild)),
]:
    answers.wrong("read_the_graph", why)(answer)

answers.wrong("read_the_graph", FIRST, make=True)(remembering)


def sorted_by_name(edges):
    return sorted(edges, key=lambda edge: edge[0].name())


# --- the small steps of the engine

answers.right("formula")(lambda x, g: [g * math.cos(x)])
answers.right("waits")(
    lambda nodes: Counter(after for node in nodes for after in node.edges if after is not None)
)

for why, answer in {
    "returns the slope and forgets what arrived": lambda x, g: [math.cos(x)],
    "takes sin for its own slope": lambda x, g: [g * math.sin(x)],
    "has the sign of the slope of cos": lambda x, g: [-g * math.cos(x)],
    "returns a number, not a list": lambda x, g: g * math.cos(x),
}.items():
    answers.wrong("formula", why)(answer)

for why, answer in {
    "counts a node once however many edges lead to it": lambda nodes: {
        after: 1 for node in nodes for after in node.edges if after is not None
    },
    "counts the edges that leave a node": lambda nodes: {
        node: sum(after is not None for after in node.edges) for node in nodes
    },
    "lets somebody wait at None": lambda nodes: Counter(
        after for node in nodes for after in node.edges
    ),
    "counts the edges of the first node alone": lambda nodes: Counter(
        after for after in nodes[0].edges if after is not None
    ),
}.items():
    answers.wrong("waits", why)(answer)


def sender(add=True, down=True, when=lambda count: count == 0, push=heapq.heappush, sign=-1):
    """`send`, with switches for its mistakes."""

    def send(after, g, buffers, waiting, ready):
        buffers[after] = (buffers.get(after, 0.0) if add else 0.0) + g
        waiting[after] -= down
        if when(waiting[after]):
            push(ready, (sign * after.number, after))

    return send


def expects_a_buffer(after, g, buffers, waiting, ready):
    buffers[after] += g
    sender()(after, 0.0, buffers, waiting, ready)


def pushes_the_node(after, g, buffers, waiting, ready):
    sender(push=lambda heap, pair: heapq.heappush(heap, pair[1]))(after, g, buffers, waiting, ready)


answers.right("send")(sender())
for why, answer in {
    "keeps the last gradient alone": sender(add=False),
    "does not count down": sender(down=False),
    "lets a node run at its first gradient": sender(when=lambda count: True),
    "lets no node run": sender(when=lambda count: False),
    "appends to the heap": sender(push=list.append),
    "takes the node made first": sender(sign=1),
    "expects every node in buffers": expects_a_buffer,
    "pushes a node without its number": pushes_the_node,
}.items():
    answers.wrong("send", why)(answer)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_formula_earns_the_hint_of_its_mistake_in_any_order(first, monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    exercise = find("autograd.formula")
    mistakes = [
        (lambda x, g: g * math.cos(x), "a list, with one number"),
        (lambda x, g: [math.cos(x)], "g, is multiplied by the slope"),
        (lambda x, g: [g * math.sin(x)], "slope of sin at x"),
    ]
    for number, (answer, hint) in enumerate(mistakes[first:] + mistakes[:first]):
        wrong = next(one for one in outcomes(exercise, answer, 5) if one.state == "wrong")
        attempt = Attempt(5, [wrong.failures[0].rows()])
        assert hint in record_attempt(exercise, str(number), attempt, wrong.failures[0])


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (sender(add=False), "got lost"),
        (sender(down=False), "still to come"),
        (sender(push=list.append), "not append, puts it"),
        (expects_a_buffer, "before its first gradient"),
        (pushes_the_node, "cannot be compared"),
    ],
)
def test_the_hint_of_send_fits_the_mistake(answer, hint):
    exercise = find("autograd.send")
    wrong = next(one for one in outcomes(exercise, answer, 5) if one.state == "wrong")
    assert hint in next(one for one in exercise.hints if one.fits(wrong.failures[0])).text


def test_what_was_recorded_is_drawn_with_the_leaf_by_its_name():
    exercise = find("autograd.leaf_or_not")
    plain = ("a", "tensor", "float32", False)
    assert exercise.picture(Case(([plain],)), {}, {}) is None
    program = [("a", "tensor", "float32", True), ("b", "mul", "a", "a")]
    nodes = exercise.picture(Case((program,)), {}, {}).levels["all"]["nodes"]
    assert [node["label"] for node in nodes] == ["MulBackward0", "AccumulateGrad"]
    assert any(badge.startswith("a ") for badge in nodes[1]["badges"])


test_answers = answers.tests()
