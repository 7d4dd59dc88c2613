"""Four tasks: find a fact in the files, write an engine, write C++, and find planted faults."""

import math
import re
from typing import Any

from labkit.course.benches.part_questions import questions, wrong_answers
from labkit.course.benches.seeded_bugs import FAULTS, HEALTHY, planted
from labkit.course.checking.guard import outside
from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage, handed_out
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
from labkit.course.exercises._never_right import BANNED
from labkit.course.exercises._objective_cases import (
    KEYS,
    LISTS,
    ROWS,
    out_of_reach,
    question,
    text_of,
    two_logs,
)
from labkit.course.exercises._ported import extension_port

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
            "The place is asked for, a number: not the line that stands there.",
            when=lambda e: e.kind == "value" and isinstance(e.value, (str, tuple)),
        ),
        Hint(
            "Places count from 0. So the first line stands at place 0, and a test like `if place` "
            "takes it for none.",
            when=lambda e: (
                e.kind == "value"
                and e.right is not None
                and (e.value == e.right + 1 or (all(e.inputs) and e.value is None))
            ),
        ),
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
        "returns the line",
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
        if fault:
            questions(fault.part)
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
    if not (isinstance(said, tuple) and len(said) == 3 and isinstance(said[1], tuple)):
        raise ValueError(
            f"find returned {said!r}, not None or (name, a tuple of arguments, mended)"
        )
    part, arguments, instead = said
    with outside():
        wrong = sick[part](*arguments) != HEALTHY[part](*arguments)
        asked = questions(part)
    answers = [instead(*given) for given, _ in asked]
    with outside():
        first_wrong = (*wrong_answers(part, answers), "right everywhere")[0]
    return {"the part": part, "its answer is wrong there": wrong, "mended": first_wrong}


def _right_find(number: int) -> Any:
    if number < 0:
        return "all are healthy"
    part = FAULTS[number].part
    return {"the part": part, "its answer is wrong there": True, "mended": "right everywhere"}


_INPUTS = {
    "round_size": "Ask at the edges: 1, 512, 513, 1024, 1025.",
    "winner": "Ask for every pair of keys, and for the one that has to win.",
    "next_node": "Put the highest number in each place once, and ask for longer numbers, too.",
    "stretched": "Stretch a size of 1, and add a dimension in front.",
    "sectors": "Ask for one address twice. Where does a sector end? Ask just before, and there.",
}


def _missed(part: str) -> Any:
    """The part is sick, and nobody is blamed."""
    return lambda e: e.value == "all are healthy" and e.right["the part"] == part


def _unmended(evidence: Evidence) -> bool:
    """The part is found, and it does answer wrongly there; what is put in its place does, too."""
    said: dict[str, Any] = evidence.value
    return bool(said != evidence.right and said | {"mended": "right everywhere"} == evidence.right)


def _healthy_blamed(evidence: Evidence) -> bool:
    """A part is named that answers rightly there: the function it is compared with is wrong."""
    return not evidence.value["its answer is wrong there"]


def _meaning(part: str) -> Any:
    return lambda e: _unmended(e) and e.value["the part"] == part


_ANEW = {
    "round_size": "The next multiple of 512 is -(-nbytes // 512) * 512. And the least?",
    "winner": "A list of the four keys, from weak to strong: which of `keys` stands last there?",
    "next_node": "max compares pairs by their first number. The name is asked for.",
    "stretched": "First a 0 for each new dimension. Then, where size and shape are equal, the "
    "stride stays; elsewhere it is 0.",
    "sectors": "address // 32 is the sector. How many different ones are there?",
}

seeded_bugs = Exercise(
    id="learning_objectives.seeded_bugs",
    case=_sickness(),
    expected=_right_find,
    drive=_drive_find,
    show=lambda number: "five healthy parts" if number < 0 else f"a fault in {FAULTS[number].part}",
    cases=1 + len(FAULTS),
    sizes=len(FAULTS),
    minutes=15,
    rules=("no HEALTHY", "no labkit"),
    banned=(
        *(f"labkit.course.benches.seeded_bugs.{name}" for name in HEALTHY),
        "labkit.course.benches.part_questions",
        "labkit.memory.sizes",
        "labkit.core.strides",
        "labkit.core.dispatch_key_set",
    ),
    stages=(
        *(
            Stage(part, case=_sickness(part), cases=sum(f.part == part for f in FAULTS))
            for part in HEALTHY
        ),
        Stage("all"),
    ),
    hints=(
        Hint(
            "HEALTHY and labkit are no judges: in life there is no healthy copy. Write down what "
            "each part should answer, before you ask it.",
            when=lambda e: e.kind == "banned",
        ),
        Hint(
            "The part that you name answers rightly for your arguments. So is your own function "
            "for it right? A tuple never equals a list. If all five are healthy, return None.",
            when=_healthy_blamed,
        ),
        *(Hint(text, when=_meaning(part)) for part, text in _ANEW.items()),
        *(Hint(text, when=_missed(part)) for part, text in _INPUTS.items()),
        Hint(
            "Three things: the name, a tuple of arguments (for one: `(1024,)`), a function.",
            when=lambda e: e.kind == "raised" and "find returned" in e.got,
        ),
        "Write the parts anew, as their docstrings say. Then ask both at the edges: the first "
        "that differs is what you return.",
    ),
    must_fail=(
        "always blames the allocator",
        "tests far from every edge",
        "puts the sick part back",
        "returns the name and the arguments alone",
        "returns one argument without its tuple",
        "knows one part alone",
        "blames a part for a tuple",
        "special-cases the failing input",
        "disables the feature",
        "restores by importing the intact module",
        "copies the answers of the questions",
        "is equal to everything",
        "breaks a neighbour test",
        "names the part alone, with any input",
        "never says None",
        "reads the text of the parts",
        "asks a healthy copy",
        "changes the parts",
        "catches and ignores the error",
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
    minutes=10,
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
            "An entry begins with `- name: ` and the whole name, an overload's included; then "
            "comes `(`.",
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
        "answers for another release",
        "lists what it may be",
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
        Stage("used again", case=lambda rng, size: any_expression(rng, min(size, LONGEST - 1))),
        Stage("long", case=chain, cases=1),
        Stage("all"),
    ),
    hints=(
        Hint(
            "The root may be a number alone, without inputs: it runs, and its gradient is 1.0.",
            when=lambda e: not e.inputs[0],
        ),
        Hint(
            "The order is right, a gradient is not. An input gets the gradient of the value times "
            "the slope; what comes over a second edge is added.",
            when=_only_numbers,
        ),
        Hint(
            "Every value reached has a gradient, and be it 0.0.",
            when=lambda e: _all_in_order(e) and not _only_numbers(e),
        ),
        Hint(
            "Only values that are reached from the root run. Some of the others have numbers, too.",
            when=lambda e: set(e.value[0]) > set(e.right[0]),
        ),
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
        "forgets the gradient that came in",
        "runs what is not reached, too",
        "calls the finished one",
        BANNED,
        "keeps gradients in 32 bits",
    ),
)


EXERCISES = (first_difference, seeded_bugs, scavenger_hunt, mini_engine, extension_port)
