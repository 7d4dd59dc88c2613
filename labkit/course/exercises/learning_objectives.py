"""Four tasks: find a fact in the files, write an engine, write C++, and find planted faults."""

import math
import re
from typing import Any

import torch

from labkit.course.benches.seeded_bugs import FAULTS, HEALTHY, planted
from labkit.course.checking.guard import outside
from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._cpp_matrix import a_matrix, compiled
from labkit.course.exercises._limits import TORCH_AND_LABKIT
from labkit.course.exercises._mini_graph import (
    LONGEST,
    any_expression,
    built,
    chain,
    describe,
    edges,
    in_torch,
)
from labkit.course.exercises._objective_cases import (
    KEYS,
    LISTS,
    ROWS,
    out_of_reach,
    question,
    text_of,
    two_logs,
    with_holes,
)

NOTEBOOK = "3_internals/8_learning_objectives"


# --- first_difference


def _first(one: list[str], other: list[str]) -> int | None:
    for place in range(max(len(one), len(other))):
        if one[place : place + 1] != other[place : place + 1]:
            return place
    return None


first_difference = Exercise(
    id="learning_objectives.first_difference",
    case=two_logs,
    expected=_first,
    rung="warm-up",
    cases=100,
    minutes=3,
    hints=(
        Hint(
            "The two logs are equal: return None.",
            when=lambda e: e.kind == "value" and e.right is None,
        ),
        Hint(
            "One log ends before the other: they differ at the first place that one of them lacks.",
            when=lambda e: e.kind == "value" and e.right == min(map(len, e.inputs)),
        ),
        "Go through both at once, and return the place where they differ first.",
    ),
    must_fail=(
        "names the last difference",
        "overlooks that one log is longer",
        "never says None",
        "counts from 1",
        "asks whether they are one object",
        "compares the first letters",
        "compares the letters in any order",
        "takes capital and small letters for the same",
        "gives up after 64 lines",
        "compares the lengths first",
        "compares without the spaces at the ends",
        "compares the first 12 letters",
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
    sick = planted(*([FAULTS[number]] if number >= 0 else []))
    given = {name: out_of_reach(part) for name, part in sick.items()}
    parts = dict(given)
    said = answer(parts)
    if parts != given:
        raise ValueError("find changed the dict of parts")
    if said is None:
        return "all are healthy"
    part, arguments, right = said
    with outside():
        healthy = HEALTHY[part](*arguments)
        wrong = sick[part](*arguments) != healthy
    right = list(right) if isinstance(right, tuple) else right
    return {
        "the part": part,
        "its answer is wrong there": wrong,
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
    return lambda e: e.kind == "value" and e.right["the part"] == part


def _misjudged(evidence: Evidence) -> bool:
    """The part is found, and it does answer wrongly there; what would be right is not known."""
    said: dict[str, Any] = evidence.value
    mended = {**said, "you know the right one": True}
    return bool(said != evidence.right and mended == evidence.right)


seeded_bugs = Exercise(
    id="learning_objectives.seeded_bugs",
    case=_sickness(),
    expected=_right_find,
    drive=_drive_find,
    show=lambda number: "five healthy parts" if number < 0 else f"a fault in {FAULTS[number].part}",
    cases=1 + len(FAULTS),
    sizes=len(FAULTS),
    minutes=14,
    rules=("no HEALTHY",),
    banned=tuple(f"labkit.course.benches.seeded_bugs.{name}" for name in HEALTHY),
    stages=(
        *(
            Stage(part, case=_sickness(part), cases=sum(f.part == part for f in FAULTS))
            for part in HEALTHY
        ),
        Stage("all"),
    ),
    hints=(
        Hint(
            "HEALTHY is no judge: in life there is no healthy copy. Write down what each part "
            "should answer, before you ask it.",
            when=lambda e: e.kind == "banned",
        ),
        Hint(
            "Nothing is wrong here: return None.",
            when=lambda e: e.kind == "value" and isinstance(e.right, str),
        ),
        Hint(
            "The part is found, and it answers wrongly there; the right answer is another one "
            "than yours. What does the part's docstring say?",
            when=_misjudged,
        ),
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
        "asks a healthy copy",
        "changes the parts",
    ),
)


# --- scavenger_hunt


def _truth(kind: str, name: str) -> Any:
    if kind == "overloads":
        return len(re.findall(rf"^- func: {name}[.(]", text_of(LISTS), re.MULTILINE))
    if kind == "formula":
        return bool(re.search(rf"^- name: {re.escape(name)}\(", text_of(ROWS), re.MULTILINE))
    lines = [line.strip() for line in text_of(KEYS).splitlines()]
    places = {one: lines.index(f"{one},") for one in name.split()}
    return max(places, key=lambda one: places[one])


scavenger_hunt = Exercise(
    id="learning_objectives.scavenger_hunt",
    case=question(),
    expected=_truth,
    show=lambda kind, name: f"{kind!r}, {name!r}",
    cases=40,
    minutes=11,
    stages=(
        Stage("overloads", case=question("overloads"), cases=12),
        Stage("formula", case=question("formula"), cases=12),
        Stage("stronger", case=question("stronger"), cases=12),
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
        "takes the beginning of an entry for it",
        "overlooks the overload",
        "lets a dot stand for any letter",
        "finds a key in a comment",
    ),
)


# --- mini_engine


@handed_out
def _drive_engine(answer: Any, program: Any, start: float) -> Any:
    root = built(program, start)
    order, gradients = answer(root)
    if edges(root) != edges(built(program, start)):
        raise ValueError("the expression is not what it was")
    return list(order), dict(gradients)


def _all_in_order(evidence: Evidence) -> bool:
    order, gradients = evidence.value
    return bool(order == evidence.right[0] and set(gradients) <= set(order))


def _only_numbers(evidence: Evidence) -> bool:
    return _all_in_order(evidence) and evidence.value[1].keys() == evidence.right[1].keys()


mini_engine = Exercise(
    id="learning_objectives.mini_engine",
    case=any_expression,
    sizes=LONGEST,
    expected=in_torch,
    drive=_drive_engine,
    show=describe,
    tolerance=1e-9,
    cases=18,
    minutes=12,
    rules=("no torch, no labkit",),
    banned=(*TORCH_AND_LABKIT, "labkit.course.exercises._mini_graph.finished_engine"),
    stages=(
        Stage("used once", case=lambda rng, size: ([("sin", n, n) for n in range(size)], 0.5)),
        Stage("long", case=chain, cases=1),
        Stage("all"),
    ),
    hints=(
        Hint(
            "The root may be a number alone, without inputs: it runs, and its gradient is 1.0.",
            when=lambda e: not e.inputs[0],
        ),
        Hint(
            "The order is right, a gradient is not: what comes over a second edge is added.",
            when=_only_numbers,
        ),
        Hint("Every value reached has a gradient, and be it 0.0.", when=_all_in_order),
        Hint(
            "Each value runs once, the highest number first: then all that use it have run.",
            when=lambda e: sorted(set(e.value[0])) == sorted(e.right[0]),
        ),
        Hint(
            "It is 5,000 long: Python's recursion ends before.",
            when=lambda e: e.kind == "raised" and "recursion" in e.got,
        ),
        "Begin with {root.number: 1.0}. Of the values that are waiting, take the highest number.",
    ),
    must_fail=(
        "recursion",
        "overwrites a gradient",
        "runs a value for every path",
        "runs in the order of discovery",
        "leaves values out",
        "refuses a root without inputs",
        "drops a gradient of 0",
        "takes the expression apart",
        "calls the finished one",
    ),
)


# --- extension_port


@handed_out
def _drive_port(answer: Any, *given: Any) -> Any:
    x, before = with_holes(*given), with_holes(*given)
    maxima = compiled(answer(), "running_max")(x).tolist()
    if not x.equal(before) and str(x.tolist()) != str(before.tolist()):
        raise ValueError("running_max writes into x")
    return maxima


def _wrong_numbers(evidence: Evidence) -> set[float]:
    """What stands where another number should; places that should be nan are left out."""
    rows = zip(evidence.value, evidence.right, strict=True)
    pairs = [pair for got, right in rows for pair in zip(got, right, strict=True)]
    return {got for got, right in pairs if right == right != got}


def _first_row(evidence: Evidence) -> bool:
    return len(evidence.right) > 1 and str(evidence.value[0]) == str(evidence.right[0])


extension_port = Exercise(
    id="learning_objectives.extension_port",
    case=a_matrix(("contiguous", "transposed", "gaps")),
    expected=lambda *given: torch.cummax(with_holes(*given), 1).values.tolist(),
    drive=_drive_port,
    show=lambda kind, rows, cols, seed: f"{rows} by {0 if seed == 3 else cols}, {kind}",
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
            "A row may have no numbers at all: read nothing before the loop.",
            when=lambda e: e.kind == "ended" and e.inputs[-1] == 3,
        ),
        Hint(
            "A nan is lost. No comparison with nan is true: `x != x` says that x is nan.",
            when=lambda e: e.kind == "value" and not _wrong_numbers(e),
        ),
        Hint(
            "The first number of a row is the largest so far, whatever it is: begin with it.",
            when=lambda e: e.kind == "value" and len(_wrong_numbers(e)) == 1,
        ),
        Hint(
            "The maximum starts anew in every row.",
            when=lambda e: e.kind == "value" and _first_row(e),
            stage="contiguous",
        ),
        "Element (i, j) of x is x[i * row_step + j * col_step], that of the result "
        "out[i * cols + j]; all of them are double.",
    ),
    must_fail=(
        "ignores the strides",
        "loses nan",
        "goes on from row to row",
        "starts from 0",
        "starts from a number that is small",
        "writes into x",
        "reads a number of a row that has none",
    ),
)

EXERCISES = (first_difference, seeded_bugs, scavenger_hunt, mini_engine, extension_port)
