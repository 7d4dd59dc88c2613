"""Captured programs: what needs numbers, where a recording is cut, and the same in one piece."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._recorded_calls import checked_replay, needs_numbers, pieces

NOTEBOOK = "3_internals/7_ecosystem"
NAMES = ("pick", "limit", "log", "first")
TORCHS = ("aten", "prims", "higher_order")
LIBRARIES = ("torch", "_operator", "operator", "builtins", "math")
COUNTS = {0: "none", 1: "one"}
Runs = list[list[float]]


def pick(x: Any) -> Any:
    """Twice x, or x less 10, as its sum is positive or not."""
    return x * 2 if x.sum() > 0 else x - 10


def limit(x: Any, most: float) -> Any:
    """x, made shorter where its norm is above `most`."""
    norm = float(x.norm())
    return x * (most / norm) if norm > most else x


def log(x: Any, seen: list[Any]) -> Any:
    """Twice x and one; the sum of twice x is noted."""
    y = x * 2
    seen.append(float(y.sum()))
    return y + 1


def first(x: Any, most: float) -> int:
    """The place of the first number above `most`; as many as there are where none is."""
    found = [place for place, number in enumerate(x.tolist()) if number > most]
    return found[0] if found else len(x)


def _expected(names: tuple[str, ...], runs: Runs, most: float) -> dict[str, Any]:
    originals = {"pick": pick, "limit": limit, "log": log, "first": first}
    return {name: {"programs": "one"} | asked(originals[name], name, runs, most) for name in names}


@handed_out
def asked(function: Any, name: str, runs: Runs, most: float) -> dict[str, Any]:
    """What the function returns and does, run after run."""
    returned, noted, kept = [], [], []
    for numbers in runs:
        x, *more = given = inputs_of(name, numbers, most)
        out = function(*given)
        returned.append(int(out) if name == "first" else out)
        noted.append([float(one) for one in more[0][1:]] if name == "log" else [])
        kept.append(x.tolist() == numbers)
    return {"returned": returned, "noted": noted, "x is as it was": kept}


@handed_out
def inputs_of(name: str, numbers: list[float], most: float) -> tuple[Any, ...]:
    """What the function of this name is called with, made anew."""
    more: dict[str, tuple[Any, ...]] = {"pick": (), "log": ([7.0],)}
    return torch.tensor(numbers), *more.get(name, (most,))


@handed_out
def in_one_program(answers: Any, names: tuple[str, ...], runs: Runs, most: float) -> dict[str, Any]:
    """What torch.compile, told to make one program of it, makes of the answers of these names."""
    wanted = {name: answers[NAMES.index(name)] for name in names}
    for name, function in wanted.items():
        asked(function, name, runs[:1], most)  # a stub says so here
    return {name: compiled_whole(function, name, runs, most) for name, function in wanted.items()}


@handed_out
def compiled_whole(function: Any, name: str, runs: Runs, most: float) -> dict[str, Any]:
    """What one function returns and does, compiled; and of how many programs that is made.

    Two questions, as no single one finds every cut: of a program that has to be whole,
    torch.compile lets numbers be read; and `explain` tells of no cut before the first graph.
    """
    found: list[Any] = []

    def keep(graph: Any, inputs: Any) -> Any:
        found.append(graph)
        return graph.forward

    torch._dynamo.reset()
    told = torch._dynamo.explain(function)(*inputs_of(name, runs[0], most))
    if told.break_reasons:
        return cut_at(told.break_reasons[0].user_stack[-1].line)
    torch._dynamo.reset()
    try:
        seen = asked(torch.compile(function, backend=keep, fullgraph=True), name, runs, most)
    except torch._dynamo.exc.TorchDynamoException as error:
        return cut_at(named_line(str(error)))
    finally:
        torch._dynamo.reset()
    nodes = [node for graph in found for node in graph.graph.nodes]
    foreign = [str(node.target) for node in nodes if is_foreign(node)]
    programs = COUNTS.get(len(found), str(len(found)))
    return {"programs": f"{programs}, calling {foreign[0]}" if foreign else programs} | seen


@handed_out
def cut_at(line: str) -> dict[str, Any]:
    """What is said of a function that is cut there: it is not asked for anything else."""
    return {"programs": f"cut at: {line}", "returned": [], "noted": [], "x is as it was": []}


@handed_out
def named_line(error: str) -> str:
    """The reader's line that an error of the compiler names; else how the error begins."""
    said, _, code = error.partition("from user code:")
    lines = [line.strip() for line in code.split("\n\n")[0].splitlines()]
    named = [line for line in lines if line and not line.startswith(("File ", "^"))]
    return named[-1] if named else said.splitlines()[0]


@handed_out
def is_foreign(node: Any) -> bool:
    """Whether a node calls something that is no operator of torch: work that no graph shows."""
    if node.op != "call_function":
        return False
    full_name = getattr(node.target, "_qualified_op_name", "aten::")
    space = getattr(node.target, "namespace", full_name.partition("::")[0])
    module = (getattr(node.target, "__module__", None) or "builtins").partition(".")[0]
    return space not in TORCHS or module not in LIBRARIES


def _runs(names: tuple[str, ...]) -> Callable[[Rng, int], tuple[tuple[str, ...], Runs, float]]:
    def case(rng: Rng, size: int) -> tuple[tuple[str, ...], Runs, float]:
        count, most = rng.randint(6, 8), rng.choice((2.0, 4.0))
        runs = [[float(rng.randint(-5, 5)) for _ in range(count)] for _ in range(4)]
        runs += [[0.0] * count, [most] * count, [-2.0] * count, [0.25] + [0.0] * (count - 1)]
        rng.shuffle(runs)
        return names, runs, most

    return case


def _is(name: str, text: str) -> Callable[[Any], bool]:
    return lambda e: text in str(e.value[name])


def _differs(name: str, what: str) -> Callable[[Any], bool]:
    return lambda e: e.value[name].get(what) != e.right[name][what]


def _told(text: str) -> Callable[[Any], bool]:
    return lambda e: any(text in one["programs"] for one in e.value.values())


explain_the_break = Exercise(
    id="ecosystem.explain_the_break",
    case=_runs(NAMES),
    expected=_expected,
    drive=in_one_program,
    stages=(*(Stage(name, case=_runs((name,)), cases=1) for name in NAMES), Stage("all")),
    cases=1,
    seconds=30.0,
    tolerance=1e-5,
    minutes=15,
    hints=(
        Hint("Nothing of it was captured: no operator of torch works on x.",
             when=_told("none")),
        Hint("The work has to stand in the function itself, in torch's own operators.",
             when=_told("calling")),
        Hint("Compute both answers, and choose between them: torch.where(condition, a, b).",
             when=_is("pick", "cut")),
        Hint("The norm may stay a tensor; most / norm is one then, and never above 1 if you clamp "
             "it.", when=_is("limit", "cut")),
        Hint("A number of the norm 0: 0 * (most / 0) is NaN. Clamp the factor before you multiply.",
             when=_is("limit", "nan")),
        Hint("The list may hold the sum as a tensor.", when=_is("log", "cut")),
        Hint("Who reads `seen` must find the sum there.", when=_differs("log", "noted")),
        Hint("Which numbers are above `most` is a tensor of True and False. How many stand before "
             "the first True?", when=_is("first", "cut")),
        Hint("What comes back where no number is above `most`? len(x) does.",
             when=_differs("first", "returned")),
        "Compute all that any input may need, then choose with data in place of an if.",
    ),
    must_fail=(
        "removes the side effect", "special-cases the sample input", "disables capture",
        "moves work outside the function", "writes into x", "decides after all is computed",
        "forgets that no number may be above", "takes a number for above that is equal",
        "knows five places", "decides at another sum",
        "makes a NaN of a norm of 0", "returns the literal answer of the example in the statement",
        "catches every exception and returns a default",
    ),
)  # fmt: skip

EXERCISES = (checked_replay, needs_numbers, pieces, explain_the_break)
