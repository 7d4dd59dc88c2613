"""A view of a view that may be written though the view before it may not: found and repaired."""

from collections.abc import Callable
from typing import Any

import torch

import labkit as lab
from labkit.autograd.variables.meta import CreationMeta
from labkit.conformance.autograd.chained_views import (
    KINDS,
    chained,
    described,
    outcome,
    views_by,
)
from labkit.course.exercise import Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises import _regression
from labkit.course.exercises._chained_views import (
    GREEN,
    HALF,
    RED,
    SIDES,
    newly_refused,
    some_views,
)
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._regression import red_or_green

NOTEBOOK = "6_capstones/3_the_view_that_forgot"

RECORDS = [record.name for record in CreationMeta]


# --- first_lost


def _a_chain(rng: Rng, size: int) -> tuple[list[str]]:
    made = [rng.choice(["DEFAULT", rng.choice(RECORDS)]) for _ in range(1 + size)]
    if rng.chance(0.4):  # nothing is lost
        worst = rng.choice(RECORDS)
        made = ["DEFAULT"] * rng.randint(0, size) + [worst] * rng.randint(1, 1 + size)
    return (made,)


def _lost(chain: list[str]) -> int | None:
    for place in range(1, len(chain)):
        if chain[place] == "DEFAULT" != chain[place - 1]:
            return place
    return None


first_lost = Exercise(
    id="view_that_forgot.first_lost",
    case=_a_chain,
    expected=_lost,
    rung="warm-up",
    cases=80,
    minutes=3,
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    hints=(
        Hint("Nothing is lost in this chain: return None.", when=lambda e: e.right is None),
        Hint(
            "The first view has none before it, so nothing can be lost there.",
            when=lambda e: e.value == 0,
        ),
        "Compare each record with the one before it.",
        "It is lost where the record is DEFAULT and the one before is another.",
    ),
    must_fail=(
        "names the first view without a ban",
        "names the last one",
        "names the view before",
        "never says None",
        "takes a change of the ban for its loss",
    ),
)


# --- carried


@handed_out
def _drive_rule(answer: Any, program: list[Any]) -> dict[str, Any]:
    """What labkit does with the program when the answer is its rule."""
    with views_by(answer):
        return outcome(lab, program)


def _programs(*kinds: str) -> Callable[[Rng, int], Any]:
    return lambda rng, size: chained(rng, size, kinds)


carried = Exercise(
    id="view_that_forgot.carried",
    case=_programs(*KINDS),
    expected=lambda program: outcome(torch, program),
    drive=_drive_rule,
    show=described,
    cases=60,
    sizes=6,
    minutes=10,
    stages=(
        Stage("unbind, split", case=_programs("slice", "unbind", "split"), cases=15),
        Stage("no_grad", case=_programs("slice", "no_grad"), cases=15),
        Stage("Reverse", case=_programs("slice", "Reverse"), cases=15),
        Stage("two bans", case=_programs("no_grad", "unbind", "Reverse", "split"), cases=25),
        Stage("all views"),
    ),
    hints=(
        Hint(
            "A view that forbids nothing itself carries what the view before it carries.",
            stage="unbind, split",
        ),
        Hint("Do not name one record: each of them forbids something.", stage="no_grad"),
        Hint("Do not name one record: each of them forbids something.", stage="Reverse"),
        Hint(
            "Where both forbid, PyTorch's error tells how the newer view was made.",
            stage="two bans",
        ),
        Hint(
            "One record is the strictest: once a view was made in inference mode, every view "
            "made of it says so.",
            stage="all views",
        ),
        "Return one of the two records you are given.",
        "Which of the two, if the newer one is DEFAULT? And if neither is?",
    ),
    must_fail=(
        "the rule of 2020",
        "forbids every write to a view",
        "repairs unbind and split alone",
        "ignores views made under no_grad",
        "lets the older of two bans win",
        "forgets that inference mode comes first",
        "refuses to make the view",
    ),
)


# --- regression_test


@handed_out
def _drive_test(answer: Any, side: str) -> str:
    """Whether the answer's test is red or green on this side."""
    m, context = SIDES[side]
    with context():
        return red_or_green(answer, m, red=(AssertionError, RuntimeError))


regression_test = _regression.regression_test(
    "view_that_forgot.regression_test",
    drive=_drive_test,
    green=("green today", GREEN),
    red=("red in 2020", RED),
    half=HALF,
    minutes=15,
    hints=(
        Hint(
            "pytorch_of_2020 lets a write to a view of a banned view pass. Make one, write to it "
            "inside try, and assert that it raised.",
            stage="red in 2020",
        ),
        Hint(
            "Here the test must pass, and it did not: what does it expect that PyTorch does not "
            "do?",
            stage="green today",
        ),
        Hint(
            "A rule that forbids too much is no repair: write to a slice of a slice of x * 1, "
            "and assert that this runs.",
            when=lambda e: "every write" in e.input,
        ),
        Hint(
            "One view further is not enough: make a view of a view of a banned view.",
            when=lambda e: "second view" in e.input,
        ),
        Hint(
            "There are several ways to a ban: an output of unbind, a slice made under "
            "m.no_grad(), the output of Reverse. Test a view of each.",
            when=lambda e: "ban of" in e.input,
        ),
        "One helper, refused(view), that says whether view.mul_(2) raises, makes every line short.",
    ),
    must_fail=(
        "also passes with the rule of 2020",
        "fails in today's PyTorch",
        "looks one view deep",
        "tests unbind alone",
        "does not ask whether legal programs stay legal",
        "checks values alone",
    ),
)

# --- audit


def _views(*kinds: str) -> Callable[[Rng, int], Any]:
    return lambda rng, size: some_views(rng, size, kinds)


def _newly_refused(views: list[Any]) -> list[int]:
    return newly_refused(views)


audit = Exercise(
    id="view_that_forgot.audit",
    case=_views(*KINDS),
    expected=_newly_refused,
    rules=("no torch: ask the rules, run nothing",),
    banned=("torch.*", "labkit.course.exercises._chained_views"),
    cases=80,
    sizes=6,
    minutes=8,
    stages=(
        Stage("unbind, split", case=_views("slice", "unbind", "split"), cases=20),
        Stage("no_grad, Reverse", case=_views("slice", "no_grad", "Reverse"), cases=20),
        Stage("all views"),
    ),
    hints=(
        Hint(
            "A view with a ban of its own was refused in 2020 as well.",
            when=lambda e: bool(e.value) and not set(e.value) <= set(e.right or ()),
        ),
        Hint(
            "A view of a view of a banned view is banned, too: ask what the view before carries.",
            when=lambda e: e.value is not None and set(e.value) < set(e.right),
        ),
        "Keep two lists of records, both beginning with that of x * 1, which is DEFAULT.",
        "For each view add rule(list[source], OWN[kind]) to both: by carried, and by rule_of_2020.",
        "A view counts if its record is DEFAULT in the list of 2020, and another in yours.",
    ),
    must_fail=(
        "names every view that may not be written today",
        "names the views that they are made of",
        "looks one view back",
        "counts from 0",
        "asks for unbind and split alone",
    ),
)

EXERCISES = (first_lost, carried, regression_test, audit)
