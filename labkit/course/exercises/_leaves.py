"""Which tensors of a program are leaves, require grad, and have a grad: PyTorch is asked."""

import warnings
from collections.abc import Iterable
from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._leaf_mistakes import (
    asks_too_much,
    binds_again,
    grad_too_often,
    has,
    only_grad_wrong,
    records,
)
from labkit.course.exercises._leaf_text import Statement, in_python
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._never_right import BANNED, CONSTANT, FIRST, TOO_SLOW

Facts = dict[str, bool]

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


@handed_out
def _named(*facts: bool) -> Facts:
    """What is asked of a name, in words."""
    return dict(zip(("leaf", "requires grad", "has grad"), facts, strict=True))


def _facts(program: list[Statement]) -> dict[str, Facts]:
    with _Run() as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reading the grad of a tensor that is no leaf
        for statement in program:
            run.step(statement)
        return {
            name: _named(tensor.is_leaf, tensor.requires_grad, tensor.grad is not None)
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


def _who_has_a_grad(rng: Rng, size: int) -> tuple[list[Statement]]:
    """A program, or one in which a leaf that was told to retain is switched off before backward."""
    if rng.chance(0.85):
        return _a_program(rng, size)
    start = [("a", "tensor", rng.choice(FLOATS), True), ("", "retain_grad", "a")]
    rest = [("b", "mul", "a", "a"), ("", "requires_grad_", "a", False), ("", "backward", "b")]
    return ([*start, *rest],)


def _any_program(rng: Rng, size: int) -> tuple[list[Statement]]:
    """One of many kinds of statement, or a large one of products, with 2 to its length ways."""
    if size < 7 or rng.chance(0.85):
        return _who_has_a_grad(rng, size)
    product = ("b", "mul", "b", "b")
    many = [product] * rng.randint(28, 40)
    start = [("a", "tensor", rng.choice(FLOATS), True), ("b", "mul", "a", "a")]
    return ([*start, *many, ("", "backward", "b")],)


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


def _recorded(case: Case, got: Any, right: Any) -> Any:
    """What PyTorch recorded of the program: the graphs of all that is no leaf."""
    from labkit import show

    with _Run() as run:
        for statement in case.inputs[0]:
            run.step(statement)
    roots = [tensor for tensor in run.names.values() if tensor.grad_fn is not None]
    if not roots:
        return None
    called = {"graph": show.graph, "roots": roots}  # a leaf is named as its caller's variable is
    return eval("graph(*roots, simple=True)", called, run.names)


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


OPERATIONS = ("Parameter", "detach", "requires_grad_", "view", "contiguous", "mul", "greater")
MODES = (*OPERATIONS, "to", "no_grad", "enable_grad", "end")


@handed_out
class Value:
    """As much of a tensor as leaves and gradients depend on."""

    def __init__(self, dtype: str, requires: bool, history: Iterable["Value"] = ()) -> None:
        self.dtype = dtype  # "bool", "int64", "float32" or "float64"
        self.requires = requires  # requires_grad
        self.history = history  # the Values it was recorded from
        self.retains = False  # retain_grad() was called
        self.has_grad = False


@handed_out
def _replay(answer: Any, program: list[Statement]) -> dict[str, Facts]:
    """The program by the two rules of an answer; or whole, by an answer that reads programs."""
    if callable(answer):
        return {name: _named(*facts) for name, facts in answer(program).items()}
    result, reach = answer
    names: dict[str, Any] = {}
    modes = [True]
    for target, op, *arguments in program:
        first: Any = names.get(arguments[0]) if arguments else None
        new = first
        if op in ("no_grad", "enable_grad"):
            modes.append(op == "enable_grad")
        elif op == "end":
            modes.pop()
        elif op == "tensor":
            new = Value(*arguments)
        elif op == "Parameter":
            new = Value(first.dtype, arguments[1])
        elif op == "detach":
            new = Value(first.dtype, False)
        elif op in ("view", "mul", "greater") or (op == "to" and arguments[1] != first.dtype):
            new = result(*_result_of(op, [names.get(a, a) for a in arguments]), modes[-1])
        elif op == "requires_grad_" and not first.history:
            first.requires = arguments[1]
        elif op == "retain_grad":
            first.retains = True
        elif op == "backward":
            reach(first)
        if target:
            names[target] = new
    return {name: _named(not v.history, v.requires, v.has_grad) for name, v in names.items()}


@handed_out
def _result_of(op: str, arguments: list[Any]) -> tuple[str, list[Value]]:
    """The dtype of an operation's result, and its inputs."""
    inputs = [argument for argument in arguments if not isinstance(argument, str)]
    if op in ("greater", "to"):
        return "bool" if op == "greater" else arguments[1], inputs
    return max((value.dtype for value in inputs), key=DTYPES.index), inputs


leaf_or_not = Exercise(
    id="autograd.leaf_or_not",
    stages=(
        Stage("operations", case=_program_of(*OPERATIONS)),
        Stage("casts", case=_program_of(*OPERATIONS, "to")),
        Stage("grad mode", case=_program_of(*MODES)),
        Stage("who has a grad", case=_who_has_a_grad, cases=60),
        Stage("many ways"),
    ),
    rules=PLAIN_PYTHON,
    case=_any_program,
    expected=_facts,
    drive=_replay,
    smaller=_fewer_statements,
    show=in_python,
    picture=_recorded,
    cases=200,
    seconds=1.0,
    minutes=15,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint(
            "Every line of this program uses `b` twice, so there are 2 to the 28 ways or more from "
            "the root to `a`. Go into a Value once: keep a set of those seen.",
            when=lambda evidence: evidence.kind == "time",
        ),
        Hint(
            "result() gets recording=False under no_grad. Then the new Value has no history and "
            "requires no grad, whatever its inputs are.",
            when=lambda evidence: (
                not only_grad_wrong(evidence) and has(evidence, "no_grad") and records(evidence)
            ),
        ),
        Hint(
            "A bool or an integer never requires grad, and has no history: `>` makes bools, and a "
            "cast may make integers.",
            when=lambda evidence: not only_grad_wrong(evidence) and asks_too_much(evidence),
        ),
        Hint(
            "A result that requires grad needs three things: recording, a float dtype, and an "
            "input that requires grad at this very line. Its history is those inputs.",
            when=lambda evidence: not only_grad_wrong(evidence),
        ),
        Hint(
            "A name that is bound again does not cut the history of the tensor it stood for. "
            "reach() follows objects, from history to history.",
            when=lambda evidence: (
                only_grad_wrong(evidence)
                and binds_again(evidence)
                and not has(evidence, "retain_grad")
            ),
        ),
        Hint(
            "A grad that is not there. A gradient stays in a leaf that requires grad at this very "
            "moment, and in a value with history that retains. retain_grad() on a leaf does "
            "nothing.",
            when=grad_too_often,
        ),
        Hint(
            "A grad that you miss. Backward may start at a leaf; a gradient reaches everything in "
            "the history, and in its history; and a value that retains keeps its own.",
            when=lambda evidence: only_grad_wrong(evidence) and not grad_too_often(evidence),
        ),
        "A leaf is a Value without history. Whether it requires grad is another question.",
        "reach() is a walk: a list of Values still to visit, and a set of those seen.",
    ),
    must_fail=(
        "leaf means no grad_fn only for requires_grad",
        "any float tensor is a leaf",
        "grad everywhere after backward",
        "ignores retain_grad",
        "retain_grad on a leaf outlives its requires_grad",
        "ignores casts",
        TOO_SLOW,
        BANNED,
        FIRST,
        CONSTANT,
    ),
)
