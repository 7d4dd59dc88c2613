"""Small graphs as lists of steps: random ones, and their picture with the steps that went wrong."""

import re
from collections.abc import Collection, Iterable
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT

Reads = dict[str, list[str]]


def drawn(reads: Reads, wrong: Collection[str] = (), labels: Any = None) -> Any:
    """The graph, with the steps that went wrong marked."""
    from labkit.widgets.graph.graph_view import GraphView  # drawn for a failing case alone

    names = list(reads)
    edges = [
        {"source": names.index(one), "target": names.index(name)}
        for name, inputs in reads.items()
        for one in dict.fromkeys(inputs)
        if one in names
    ]
    marks = {names.index(name): "error" for name in wrong if name in names}
    frame = {"text": f"look at: {', '.join(wrong)}", "marks": marks}
    nodes = [{"label": (labels or {}).get(name, name)} for name in names]
    return GraphView(nodes, edges, [frame] if marks else (), simple=True)


# --- only_reader


def _a_graph(rng: Rng, size: int) -> tuple[Reads, str, str]:
    names = [f"t{n}" for n in range(2 + size)]
    reads: Reads = {names[0]: []}
    for place, name in enumerate(names[1:], start=1):
        reads[name] = [names[rng.randint(max(0, place - 2), place - 1)] for _ in (1, 2)]
        if rng.chance(0.5):
            reads[name].pop()
    reads["result"] = [names[-1], *([rng.choice(names)] if rng.chance(0.3) else [])]
    value = rng.choice(names)
    readers = [name for name, inputs in reads.items() if value in inputs]
    reader = rng.choice(readers) if readers and rng.chance(0.8) else rng.choice(list(reads))
    return reads, value, reader


def _only_reader(reads: Reads, value: str, reader: str) -> bool:
    return {name for name, inputs in reads.items() if value in inputs} == {reader}


only_reader = Exercise(
    id="fusion_and_inplace.only_reader",
    case=_a_graph,
    expected=_only_reader,
    rung="warm-up",
    cases=120,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("Here {got} came back; the answer is True or False.",
             when=lambda e: e.kind == "value" and not isinstance(e.value, bool)),
        Hint("A reader that reads the value twice is still one reader.",
             when=lambda e: e.value is False and e.right is True),
        Hint("Somebody else reads the value, too; result counts as a reader like any other. Or the "
             "reader itself does not read it.", when=lambda e: e.value is True),
        "Make a list of all names whose inputs hold the value.",
        "That list must be [reader].",
    ),
    must_fail=("asks only whether the reader reads it", "forgets the result",
               "counts a value that is read twice as two readers",
               "asks whether anybody reads it once"),
    picture=lambda case, got, right: drawn(case.inputs[0], [case.inputs[1]]),
)  # fmt: skip


# --- last_read

Step = tuple[str, list[str]]


def _steps(rng: Rng, size: int) -> Case:
    reads, value, _ = _a_graph(rng, size)
    steps = [(name, inputs) for name, inputs in reads.items()]
    readers = [name for name, inputs in steps if value in inputs]
    return Case((steps, value), readers[-1] if readers else None)


last_read = Exercise(
    id="fusion_and_inplace.last_read",
    case=_steps,
    rung="warm-up",
    cases=120,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("Nobody reads this value: return None.", when=lambda e: e.right is None),
        Hint("{got} reads it, and {expected} reads it later.",
             when=lambda e: isinstance(e.value, str)),
        "Go through the steps in order, and remember the name of each that reads the value.",
        "The one you remembered last is the answer.",
    ),
    must_fail=("returns the first reader", "returns the last step", "raises when nobody reads it"),
    picture=lambda case, got, right: drawn(dict(case.inputs[0]), [case.inputs[1]]),
)  # fmt: skip


# --- pointwise_codegen

Made = tuple[str, str, str, str]
OPERATORS = ("+", "-", "*")
LARGEST, MANY = 8, 40
DECLARES, STORES = re.compile(r"const float (\w+) *="), re.compile(r"p_out\[i\] *=")


def chain(rng: Rng, size: int, single: float = 0.3) -> tuple[list[Made], int]:
    """Steps over arrays and, beside them, single numbers, whose names begin with s."""
    inputs = [f"{'s' if n and rng.chance(single) else 'x'}{n}" for n in range(1 + size // 2)]
    names, steps = list(inputs), []
    for place in range(1 + size):
        first, second = names[-1], rng.choice(names)
        if rng.chance(0.4):
            first, second = second, first
        steps.append((f"t{place}", rng.choice(OPERATORS), first, second))
        names.append(f"t{place}")
    return steps, rng.randint(0, 10**6)


def _some_or_many(rng: Rng, size: int, single: float = 0.3) -> tuple[list[Made], int]:
    """A chain; the largest has more inputs than a warp has lanes, and reads each of them."""
    if size < LARGEST:
        return chain(rng, size, single)
    inputs = [f"{'s' if n and rng.chance(single) else 'x'}{n}" for n in range(MANY)]
    made = ["x0", *(f"t{n}" for n in range(1, MANY))]
    steps = [
        (to, rng.choice(OPERATORS), before, one)
        for before, to, one in zip(made, made[1:], inputs[1:], strict=False)
    ]
    return steps, rng.randint(0, 10**6)


def _body_truth(steps: list[Made], seed: int) -> dict[str, Any]:
    values = _inputs(steps, seed)
    reads: dict[str, int] = {}
    for made, operator, first, second in steps:
        reads |= {one: 1 for one in (first, second) if one not in _made(steps)}
        values[made] = _apply(values[first], operator, values[second])
    return {"written": [("p_out", values[steps[-1][0]])], "reads": dict(sorted(reads.items()))}


@handed_out
def _made(steps: Iterable[Made]) -> list[str]:
    return [step[0] for step in steps]


@handed_out
def _inputs(steps: list[Made], seed: int) -> dict[str, int]:
    rng, made = Rng(seed), _made(steps)
    names = sorted({one for step in steps for one in step[2:]} - set(made))
    return {name: rng.randint(-9, 9) for name in names}


def _apply(a: int, operator: str, b: int) -> int:
    return a + b if operator == "+" else a - b if operator == "-" else a * b


class _Memory:
    """An array that notes each read and write; a thread has element i of it, or the only one."""

    def __init__(self, name: str, value: int | None, said: dict[str, Any]) -> None:
        self.name, self.value, self.said = name, value, said

    def __getitem__(self, index: str | int) -> int:
        if index != (0 if self.name.startswith("p_s") else "i") or self.value is None:
            raise NameError(f"{self.name}[{index}] is not what this thread has to load")
        self.said["reads"][self.name[2:]] = self.said["reads"].get(self.name[2:], 0) + 1
        return self.value

    def __setitem__(self, index: str, value: int) -> None:
        self.said["written"].append((self.name, value))


def _drive_body(answer: Any, steps: list[Made], seed: int) -> Any:
    """What the lines read and wrote, run one by one as one thread would."""
    lines = answer(steps)
    said: dict[str, Any] = {"written": [], "reads": {}}
    inputs = _inputs(steps, seed)
    scope: dict[str, Any] = {
        f"p_{name}": _Memory(f"p_{name}", v, said) for name, v in inputs.items()
    }
    scope |= {"i": "i", "p_out": _Memory("p_out", None, said), "__builtins__": {}}
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return f"a list of lines is wanted, not {type(lines).__name__}"
    for line in lines:
        text = line.strip()
        if not text.endswith(";"):
            return f"{text!r} does not end in ;"
        declares = DECLARES.match(text)
        if declares and declares[1] in scope:
            return f"{text!r} declares {declares[1]} a second time"
        if "=" in text and not declares and not STORES.match(text):
            return f"{text!r} declares nothing: const float ... = ...;"
        try:
            exec(text[declares.start(1) if declares else 0 :].removesuffix(";"), scope)
        except (NameError, SyntaxError) as error:
            return f"{text!r}: {error}"
    return said | {"reads": dict(sorted(said["reads"].items()))}


pointwise_codegen = Exercise(
    id="fusion_and_inplace.pointwise_codegen",
    case=_some_or_many,
    expected=_body_truth,
    drive=_drive_body,
    rung="core",
    cases=80,
    sizes=LARGEST,
    minutes=9,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    stages=(
        Stage("arrays", case=lambda rng, size: _some_or_many(rng, size, 0.0), cases=30),
        Stage("single numbers"),
    ),
    hints=(
        Hint("A name with s is one number for all threads: [0]. All others are arrays: [i].",
             when=lambda e: isinstance(e.value, str) and "has to load" in e.value),
        Hint("A line is not as C++ wants it: {got}.",
             when=lambda e: isinstance(e.value, str)),
        Hint("An input is read twice from memory. Note which names have a register already.",
             when=lambda e: isinstance(e.value, dict)
             and any(n > 1 for n in e.value["reads"].values())),
        Hint("Only the last value is written; the others stay in registers.",
             when=lambda e: isinstance(e.value, dict) and len(e.value["written"]) != 1),
        "For each step: load what has no register yet, then compute, then note the new register.",
    ),
    must_fail=("reads an input once per use", "writes every step", "writes the first step",
               "loads what an earlier step made", "changes the two inputs round",
               "takes a single number for an array", "takes every input for a single number",
        "breaks at 32 inputs", "spreads a single number over an array first",
    ),
    picture=lambda case, got, right: drawn(
        {name: [] for name in _inputs(*case.inputs)}
        | {step[0]: list(step[2:]) for step in case.inputs[0]}
    ),
)  # fmt: skip
