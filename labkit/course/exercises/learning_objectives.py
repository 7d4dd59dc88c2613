"""Four tasks: find a fact in the files, write an engine, write C++, and find planted faults."""

import functools
import math
import re
from typing import Any

import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._cpp_matrix import a_matrix, compiled, laid_out
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._mini_graph import built, chain, describe, expression, in_torch
from labkit.course.seeded_bugs import FAULTS, HEALTHY, planted
from labkit.course.sources import installed_file

NOTEBOOK = "3_internals/8_learning_objectives"


# --- first_difference


def _two_logs(rng: Rng, size: int) -> tuple[list[str], list[str]]:
    one = [rng.choice("abc") for _ in range(rng.randint(0, 1 + size))]
    other = list(one)
    kind = rng.choice(("same", "changed", "changed", "longer", "shorter"))
    if kind == "changed" and one:
        for place in range(rng.randrange(len(one)), len(one)):
            other[place] = rng.choice("abcd")
    elif kind == "longer":
        other.append("d")
    elif kind == "shorter":
        other = other[: rng.randint(0, len(one))]
    return one, other


def _first(one: list[str], other: list[str]) -> int | None:
    for place in range(max(len(one), len(other))):
        if one[place : place + 1] != other[place : place + 1]:
            return place
    return None


first_difference = Exercise(
    id="learning_objectives.first_difference",
    case=_two_logs,
    expected=_first,
    rung="warm-up",
    cases=100,
    minutes=3,
    hints=(
        Hint("The two logs are equal: return None.", when=lambda e: e.right is None),
        Hint(
            "One log ends before the other: they differ at the first place that one of them lacks.",
            when=lambda e: e.right == min(map(len, e.inputs)),
        ),
        "Go through both at once, and return the place where they differ first.",
    ),
    must_fail=(
        "names the last difference",
        "overlooks that one log is longer",
        "never says None",
        "counts from 1",
    ),
)


# --- seeded_bugs


def _sickness(part: str = "") -> Any:
    listed: list[Any] = [fault for fault in FAULTS if part in ("", fault.part)]
    if not part:
        listed = [None, *listed]

    def case(rng: Rng, size: int) -> Case:
        """Each in turn: `size` grows from 0 to the number of faults."""
        place = math.ceil(size * len(listed) / (len(FAULTS) + 1))
        fault = listed[min(place, len(listed) - 1)]
        return Case((FAULTS.index(fault) if fault else -1,))

    return case


@handed_out
def _drive_find(answer: Any, number: int) -> Any:
    parts = planted(*([FAULTS[number]] if number >= 0 else []))
    said = answer(parts)
    if said is None:
        return "all are healthy"
    part, arguments, right = said
    healthy = HEALTHY[part](*arguments)
    return {
        "the part": part,
        "its answer is wrong there": parts[part](*arguments) != healthy,
        "you know the right one": right == healthy,
    }


def _right_find(number: int) -> Any:
    if number < 0:
        return "all are healthy"
    return {
        "the part": FAULTS[number].part, "its answer is wrong there": True,
        "you know the right one": True,
    }  # fmt: skip


_INPUTS = {
    "round_size": "Ask at the edges: 1, 512, 513, 1024, 1025.",
    "winner": "Ask for every pair of keys, and for the one that has to win.",
    "next_node": "Put the highest number in each place once; and ask for 9 beside 10.",
    "stretched": "Stretch a size of 1, and add a dimension in front.",
    "sectors": "Ask for one address twice, and for the last 4 bytes of a sector: 28.",
}


def _missed(part: str) -> Any:
    return lambda e: isinstance(e.right, dict) and e.right["the part"] == part


seeded_bugs = Exercise(
    id="learning_objectives.seeded_bugs",
    case=_sickness(),
    expected=_right_find,
    drive=_drive_find,
    show=lambda number: "five healthy parts" if number < 0 else f"a fault in {FAULTS[number].part}",
    cases=1 + len(FAULTS),
    sizes=len(FAULTS),
    minutes=14,
    stages=(
        *(
            Stage(part, case=_sickness(part), cases=sum(f.part == part for f in FAULTS))
            for part in HEALTHY
        ),
        Stage("all"),
    ),
    hints=(
        Hint("Nothing is wrong here: return None.", when=lambda e: isinstance(e.right, str)),
        *(Hint(text, when=_missed(part)) for part, text in _INPUTS.items()),
        "A list of (part, arguments, right answer): the first that differs is what you return.",
    ),
    must_fail=(
        "always blames the allocator",
        "tests far from every edge",
        "believes what the part says",
        "names the part alone, with any input",
        "never says None",
        "reads the text of the parts",
    ),
)


# --- scavenger_hunt

LISTS = "aten/src/ATen/native/native_functions.yaml"
ROWS = "tools/autograd/derivatives.yaml"
KEYS = "c10/core/DispatchKey.h"
NAMED = (
    "add", "mul", "sum", "max", "sort", "xlogy", "view", "index", "pow", "div", "abs", "cat",
    "masked_fill", "to", "normal", "std",
)  # fmt: skip
FULL = (
    "mul.Tensor", "add.Tensor", "sum", "exp", "eq.Tensor", "argmax", "view", "numel", "sort",
    "masked_fill.Scalar", "ones_like", "floor", "isnan", "cat",
)  # fmt: skip
FUNCTIONALITIES = (
    "Dense", "Quantized", "BackendSelect", "Python", "Fake", "Functionalize",
    "Conjugate", "Negative", "ADInplaceOrView", "AutogradFunctionality",
    "Batched", "PythonTLSSnapshot", "PythonDispatcher",
)  # fmt: skip


@functools.cache
def _file(path: str) -> str:
    found = installed_file(path)
    if found is None:
        raise FileNotFoundError(f"the installed torch has no {path}")
    return found.read_text(encoding="utf-8")


def _question(*kinds: str) -> Any:
    def case(rng: Rng, size: int) -> tuple[str, str]:
        kind = rng.choice(kinds or ("overloads", "formula", "stronger"))
        if kind == "stronger":
            return kind, " ".join(rng.sample(FUNCTIONALITIES, 2))
        return kind, rng.choice(NAMED if kind == "overloads" else FULL)

    return case


def _truth(kind: str, name: str) -> Any:
    if kind == "overloads":
        return len(re.findall(rf"^- func: {name}[.(]", _file(LISTS), re.MULTILINE))
    if kind == "formula":
        return bool(re.search(rf"^- name: {re.escape(name)}\(", _file(ROWS), re.MULTILINE))
    lines = [line.strip() for line in _file(KEYS).splitlines()]
    places = {one: lines.index(f"{one},") for one in name.split()}
    return max(places, key=lambda one: places[one])


scavenger_hunt = Exercise(
    id="learning_objectives.scavenger_hunt",
    case=_question(),
    expected=_truth,
    show=lambda kind, name: f"{kind!r}, {name!r}",
    cases=40,
    minutes=8,
    stages=(
        Stage("overloads", case=_question("overloads"), cases=12),
        Stage("formula", case=_question("formula"), cases=12),
        Stage("stronger", case=_question("stronger"), cases=12),
        Stage("all"),
    ),
    hints=(
        Hint(
            "The name goes on in the entries that you count too many: `add_`, or `addmm`. After "
            "the name comes `.` or `(`.",
            when=lambda e: e.inputs[0] == "overloads",
        ),
        Hint(
            "An entry begins with `- name: ` and the whole name; then comes `(`.",
            when=lambda e: e.inputs[0] == "formula",
        ),
        Hint(
            "In the enum each key stands on a line of its own, with a comma, from weak to strong. "
            "Comments name the keys, too.",
            when=lambda e: e.inputs[0] == "stronger",
        ),
        "Look at some lines of the file first. Which text stands there and nowhere else?",
    ),
    must_fail=(
        "counts longer names, too",
        "asks whether the operator exists",
        "takes the name that sorts last",
        "takes the weaker key",
    ),
)


# --- mini_engine

LONGEST = 8


@handed_out
def _drive_engine(answer: Any, program: Any, start: float) -> Any:
    order, gradients = answer(built(program, start))
    return list(order), dict(gradients)


def _only_gradients(evidence: Evidence) -> bool:
    return bool(evidence.value[0] == evidence.right[0])


def _any_expression(rng: Rng, size: int) -> Any:
    """The largest cases are long ones."""
    return chain(rng, size) if size == LONGEST else expression(rng, size)


mini_engine = Exercise(
    id="learning_objectives.mini_engine",
    case=_any_expression,
    sizes=LONGEST,
    expected=in_torch,
    drive=_drive_engine,
    show=describe,
    tolerance=1e-9,
    cases=18,
    minutes=12,
    rules=("no torch, no labkit",),
    banned=TORCH_AND_LABKIT,
    stages=(
        Stage("used once", case=lambda rng, size: ([("sin", n, n) for n in range(1 + size)], 0.5)),
        Stage("long", case=chain, cases=1),
        Stage("all"),
    ),
    hints=(
        Hint(
            "The order is right, a gradient is not: what comes over a second edge is added.",
            when=_only_gradients,
        ),
        Hint(
            "Each value runs once, the highest number first: then all that use it have run.",
            when=lambda e: sorted(e.value[0]) == sorted(e.right[0]),
        ),
        Hint("It is 5,000 long: Python's recursion ends before.", stage="long"),
        "Begin with {root.number: 1.0}. Of the values that are waiting, take the highest number.",
    ),
    must_fail=(
        "recursion",
        "overwrites a gradient",
        "runs a value for every path",
        "runs in the order of discovery",
        "leaves values out",
    ),
)


# --- extension_port


@handed_out
def _with_holes(kind: str, rows: int, cols: int, seed: int) -> Any:
    """A matrix of this layout, some of its numbers nan; it may have no columns."""
    x = laid_out(kind, rows, cols, seed)
    x.mul_(2).sub_(1)
    return x.masked_fill_(x.abs() < 0.15 * (seed % 3), math.nan)[:, : cols - (seed % 4 == 3)]


@handed_out
def _drive_port(answer: Any, kind: str, rows: int, cols: int, seed: int) -> Any:
    return compiled(answer(), "running_max")(_with_holes(kind, rows, cols, seed)).tolist()


extension_port = Exercise(
    id="learning_objectives.extension_port",
    case=a_matrix(("contiguous", "transposed", "gaps")),
    expected=lambda *given: torch.cummax(_with_holes(*given), 1).values.tolist(),
    drive=_drive_port,
    show=lambda kind, rows, cols, seed: f"{rows} by {cols - (seed % 4 == 3)}, {kind}",
    rung="boss",
    cases=9,
    sizes=6,
    seconds=20.0,
    minutes=25,
    processes=True,
    apart=True,
    stages=(
        Stage("contiguous", case=a_matrix(("contiguous",)), cases=3),
        Stage("transposed", case=a_matrix(("transposed",)), cases=3),
        Stage("all"),
    ),
    hints=(
        Hint(
            "A nan is lost. No comparison with nan is true: `x != x` says that x is nan.",
            when=lambda e: "nan" in e.expected,
        ),
        Hint(
            "Element (i, j) is x[i * row_step + j * col_step]; the result is contiguous.",
            stage="transposed",
        ),
        Hint("The maximum starts anew in every row.", stage="contiguous"),
        "A row may have no numbers at all: read nothing before the loop.",
    ),
    must_fail=(
        "ignores the strides",
        "loses nan",
        "goes on from row to row",
        "starts from 0",
    ),
)

EXERCISES = (first_difference, seeded_bugs, scavenger_hunt, mini_engine, extension_port)
