"""A dispatch table goes stale: the smallest failing program, the smallest refresh, its fuzzer."""

from collections.abc import Callable, Collection
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._limits import PLAIN_PYTHON, TORCH_AND_LABKIT
from labkit.course.exercises._old_cells import at_risk, counterexample
from labkit.course.exercises._stored_rows import (
    EXPLICIT,
    FILLS,
    IMPLICIT,
    KEYS,
    LOOKS_AT,
    OTHERS,
    SLOTS,
    Row,
    Statement,
    after,
    random_program,
    smallest_rule,
)

NOTEBOOK = "6_capstones/2_two_registrations_two_orders"


# --- smallest


@handed_out
def _fails(program: list[Statement]) -> bool:
    """Whether some cell is stale after the program, under the rule of PyTorch 2.13."""
    return bool(after(program).op.stale_slots())


@handed_out
def _removes_after_the_formula(program: list[Statement]) -> bool:
    """Another question: whether a kernel goes after a formula came, whatever is stale."""
    formula = next((at for at, s in enumerate(program) if s[2:] == (IMPLICIT,)), len(program))
    return any(kind == "remove" for kind, *_ in program[formula:])


STALE, REMOVED = "a cell goes stale", "a kernel is removed after a formula came"
MIDDLE = "the list is the middle of the program"
ALWAYS, THREE = "always, whatever is left", "three statements or more are left"


@handed_out
def _question(name: str, whole: list[Statement]) -> Callable[[list[Statement]], bool]:
    """MIDDLE lets the last statement go, then the first, and so on: no pass finds many of them."""
    asked = list(whole)

    def is_the_middle(program: list[Statement]) -> bool:
        first = (len(asked) - len(program)) // 2
        return bool(program) and program == asked[first : first + len(program)]

    return {
        STALE: _fails,
        REMOVED: _removes_after_the_formula,
        MIDDLE: is_the_middle,
        ALWAYS: lambda program: True,
        THREE: lambda program: len(program) >= 3,
    }[name]


NESTED, NONFUNCTIONAL = "NestedTensorCPU", "CompositeExplicitAutogradNonFunctional"
ONE_PASS_LEAVES_TOO_MUCH: tuple[list[Statement], ...] = (
    [("impl", 0, NESTED), ("remove", 0), ("impl", 2, IMPLICIT), ("impl", 3, NESTED)],
    [("impl", 0, IMPLICIT), ("impl", 1, EXPLICIT), ("impl", 2, NESTED), ("impl", 3, NONFUNCTIONAL),
     ("impl", 4, "Autograd"), ("impl", 5, NONFUNCTIONAL), ("remove", 1)],
    [("impl", 0, IMPLICIT), ("impl", 1, EXPLICIT), ("impl", 2, "SparseCPU"), ("impl", 3, EXPLICIT),
     ("impl", 4, "Autograd"), ("remove", 3), ("remove", 2)],
)  # fmt: skip
"""The first from its end, the others from their beginning."""


ALWAYS_FAILS: dict[str, list[Statement]] = {
    STALE: [("impl", 0, IMPLICIT), ("impl", 1, "CPU"), ("impl", 2, EXPLICIT)],
    REMOVED: [("impl", 0, "CPU"), ("impl", 1, IMPLICIT), ("remove", 0)],
}


def _a_failing_program(rng: Rng, size: int) -> tuple[list[Statement], str]:
    """Some registrations more than the failure needs, often several reasons for it; a question."""
    if rng.chance(0.3):
        return list(rng.choice(ONE_PASS_LEAVES_TOO_MUCH)), STALE
    question = rng.choice((STALE, STALE, REMOVED, MIDDLE, ALWAYS, THREE))
    if question == MIDDLE:
        return random_program(rng, 9 + size), MIDDLE
    if question == ALWAYS:
        return random_program(rng, 1 + size), ALWAYS
    if question == THREE:
        return [("impl", 0, rng.choice(KEYS)), *[("remove", 0)] * (4 + size)], THREE
    for _ in range(40):
        program = random_program(rng, 3 + size)
        if _question(question, program)(program):
            return program, question
    return list(ALWAYS_FAILS[question]), question


@handed_out
def _drive_smallest(answer: Any, program: list[Statement], question: str) -> Any:
    return answer(program, _question(question, program))


def _no_removals(program: list[Statement]) -> list[Statement]:
    return [statement for statement in program if statement[0] != "remove"]


def _removals(program: list[Statement]) -> list[Statement]:
    return [statement for statement in program if statement[0] == "remove"]


def _judge_smallest(case: Case, got: Any) -> str | Wrong | None:
    program, question = case.inputs
    fails = _question(question, program)
    if not isinstance(got, list) or not all(statement in program for statement in got):
        return "a list with statements of the program is returned"
    left = iter(program)
    if not all(statement in left for statement in got):
        return "the statements stand in their order, none more often than before"
    if not fails(got):
        return "the shorter program still fails"
    for place, statement in enumerate(got):
        if fails(got[:place] + got[place + 1 :]):
            return Wrong("every statement is needed", f"without {statement} it still fails")
    return None


smallest = Exercise(
    id="two_registrations.smallest",
    case=_a_failing_program,
    drive=_drive_smallest,
    judge=_judge_smallest,
    cases=40,
    sizes=5,
    minutes=8,
    show=lambda program, question: f"{program}\nfails: {question}",
    hints=(
        Hint(
            "`fails` is another question here. Ask the function that you are given.",
            when=lambda e: e.inputs[1] != STALE and "shorter" in e.property and _fails(e.value),
        ),
        Hint(
            "Without its removals this program does not fail. A `remove` may be what it takes: "
            "leave it out alone, as any other statement.",
            when=lambda e: (
                "shorter program still fails" in e.property
                and not _removals(e.value)
                and not _question(e.inputs[1], e.inputs[0])(_no_removals(e.inputs[0]))
            ),
        ),
        Hint(
            "`fails` is true for every list here, so the answer is []. Ask the function that you "
            "are given, about the empty list too. In `if` and `or`, [] counts as false.",
            when=lambda e: e.inputs[1] == ALWAYS and "needed" in e.property,
        ),
        Hint(
            "Equal statements stand here several times. Take away one of them, by its place.",
            when=lambda e: "needed" in e.property and len(e.value) > 3 and len({*e.value}) == 1,
        ),
        Hint(
            "`fails` is false for your list. Of two statements, perhaps either can go, but not "
            "both. Leave one out, and go on with the shorter program, not with the whole one.",
            when=lambda e: "shorter program still fails" in e.property,
        ),
        Hint(
            "Your list is the program up to some place, and nothing before it is left out. Try "
            "each place, the first one too.",
            when=lambda e: "needed" in e.property and e.value == e.inputs[0][: len(e.value)],
        ),
        Hint(
            "No fixed number of passes is enough: after a statement has gone, another one may be "
            "needless. Begin again until nothing more can go.",
            when=lambda e: "needed" in e.property,
        ),
        "For each place, try program[:place] + program[place + 1:].",
        "As soon as a shorter program fails, call smallest on that one. If none does, return it.",
    ),
    must_fail=(
        "returns the whole program",
        "tries each statement in the whole program only",
        "passes over the program once",
        "passes over the program twice",
        "passes forwards, then backwards",
        "cuts the end off",
        "leaves out too much",
        "takes the statements out of the caller's list",
        "returns the two statements of the report",
        "asks a question of its own",
        "takes an empty list for no list",
        "never tries the empty list",
        "begins at one statement",
        "takes equal statements away together",
        "leaves every removal out",
    ),
)


# --- askers

BEGIN_ALIKE = (
    "Autograd", "AutogradCPU", "AutogradCUDA", IMPLICIT, EXPLICIT,
    "CompositeImplicitAutogradNestedTensor", "CompositeExplicitAutogradNonFunctional",
)  # fmt: skip


def _a_list_of_questions(rng: Rng, size: int) -> tuple[dict[str, set[str]], str]:
    """Some slots do not ask for the key of their own name."""
    names = rng.sample(SLOTS, 2 + size)
    keys = rng.sample(rng.choice(([*SLOTS, *FILLS], BEGIN_ALIKE)), 2 + size // 2)
    asked = {}
    for slot in names:
        among = [slot, *keys]
        asked[slot] = set(rng.sample(among, rng.randint(0, len(among))))
    return asked, rng.choice([*keys, names[0]])


askers = Exercise(
    id="two_registrations.askers",
    case=_a_list_of_questions,
    expected=lambda asked, key: {slot for slot, keys in asked.items() if key in keys},
    rung="warm-up",
    rules=PLAIN_PYTHON,
    banned=TORCH_AND_LABKIT,
    cases=60,
    minutes=2,
    hints=(
        Hint("Return a set.", when=lambda e: isinstance(e.value, list | tuple)),
        Hint(
            "A slot asks for the keys of its set alone: for the key of its own name only if that "
            "is in the set.",
            when=lambda e: e.inputs[1] in e.value and e.inputs[1] not in e.right,
        ),
        Hint(
            "A key that begins like another one is another key: compare whole names.",
            when=lambda e: e.value > e.right,
        ),
        "The key of the dictionary is the slot. What it asks for is the value.",
        "Go through asked.items(): a slot, and the keys that it asks for.",
        "Keep the slot if the key is among them.",
    ),
    must_fail=(
        "returns what the slot of that name asks for",
        "returns the slots that do not ask",
        "returns the first one only",
        "adds the slot of that name",
        "looks for keys that begin alike",
    ),
)


# --- refresh

OWN_SLOT = ("Tracer", "AutogradCPU", "ADInplaceOrView", "FuncTorchBatched")


def _with(keys: Collection[str]) -> Callable[[Rng, int], tuple[list[Statement]]]:
    """A kernel at one of the keys joins a formula, or goes again."""

    def case(rng: Rng, size: int) -> tuple[list[Statement]]:
        program: list[Statement] = [("impl", 0, IMPLICIT), ("impl", 1, rng.choice(list(keys)))]
        if rng.chance(0.5):
            program.reverse()
        return (program + [("remove", 1)] * rng.chance(0.5),)

    return case


def _any_program(rng: Rng, size: int) -> tuple[list[Statement]]:
    keys = [*KEYS, *FILLS, *rng.sample(OTHERS, 6)]
    return (random_program(rng, 4 + size, keys),)


def _drive_refresh(answer: Any, program: list[Statement]) -> dict[str, Any]:
    """What the answer says about each key of the program."""
    return {key: answer(key) for key in sorted({s[2] for s in program if s[0] == "impl"})}


def _known(slots: Any) -> bool:
    return isinstance(slots, set | frozenset | list | tuple) and set(slots) <= {*SLOTS}


def _judge_refresh(case: Case, got: Any) -> str | Wrong | None:
    (program,) = case.inputs
    if isinstance(got, Raised) or not all(_known(slots) for slots in got.values()):
        return "for each key a set of names of slots is returned"
    row = Row(lambda key: set(got[key]))
    keys: dict[int, str] = {}
    for statement in program:
        row.run(statement)
        keys[statement[1]] = key = keys.get(statement[1]) or statement[2]
        if stale := row.stale():
            slot, (stored, meant) = next(iter(stale.items()))
            return Wrong(
                f"after {statement} no cell is stale; {len(stale)} are, {slot} for one: "
                f"a call runs {stored}, meant is {meant}",
                f"{slot} is among the slots for {key}",
            )
    for key, slots in got.items():
        right = smallest_rule(key)
        if len(set(slots)) > 1.2 * len(right):
            few = f"for {key}, {len(right)} cells, or at most a fifth more; not {len(set(slots))}"
            return Wrong("no cell is stored again that cannot change", few)
    return None


def _first_stale(case: Case, got: Any, _right: Any) -> Any:
    """The row of the failing program, opened at the first stale cell."""
    from labkit import show

    row = Row(lambda key: set(got[key]))
    for statement in case.inputs[0]:
        row.run(statement)
        if row.op.stale_slots():
            return show.dispatch_table(row.op, str(row.op.stale_slots()[0]))
    return None


def _fewer(program: list[Statement]) -> Any:
    for place, gone in enumerate(program):
        if gone[0] == "remove":
            yield (program[:place] + program[place + 1 :],)
        else:
            yield ([s for s in program if s[1] != gone[1]],)


def _cells(answer: Any) -> str:
    yours = sum(len(set(answer(key))) for key in OTHERS)
    least = sum(len(smallest_rule(key)) for key in OTHERS)
    return f"all {len(OTHERS)} keys, each once: yours refreshes {yours} cells, needed are {least}"


refresh = Exercise(
    id="two_registrations.refresh",
    case=_any_program,
    drive=_drive_refresh,
    judge=_judge_refresh,
    picture=_first_stale,
    smaller=_fewer,
    score=_cells,
    rules=("sets and strings only: no torch, no labkit",),
    banned=(*TORCH_AND_LABKIT, "labkit.course.exercises._stored_rows"),
    cases=60,
    minutes=12,
    stages=(
        Stage("a slot's own key", case=_with(OWN_SLOT)),
        Stage("an alias", case=_with(list(FILLS)), cases=30),
        Stage("backends", case=_with(sorted(set().union(*LOOKS_AT.values()))), cases=30),
        Stage("programs"),
    ),
    hints=(
        Hint(
            "The sets of both tables are frozen. Copy one with set(...) before you add to it.",
            when=lambda e: "AttributeError" in e.got and "frozenset" in e.got,
        ),
        Hint(
            "You refresh more than a fifth too much for this key. A cell whose rule never asks for "
            "the key cannot change.",
            when=lambda e: "cannot change" in e.property,
        ),
        Hint("Undefined is in no set of FILLS, and three aliases fill it all the same.",
             when=lambda e: "Undefined is among" in e.expected),
        Hint(
            "EXPLICIT pushes the formula out of cells that it does not fill. In which cells can "
            "the formula be at all?",
            when=lambda e: e.expected.rstrip("'").endswith(f"for {EXPLICIT}"),
        ),
        Hint("An alias fills all slots of FILLS[key]; any other key fills its own slot.",
             when=lambda e: any(f"for {key}" in e.expected for key in (*FILLS, *OWN_SLOT))),
        Hint(
            "Which slots look at this key? LOOKS_AT has the answer the other way round.",
            stage="backends",
        ),
        "For each key: which slots does it fill, and in which is it asked for by another rule?",
        "The second question has two answers: EXPLICIT, and the keys in LOOKS_AT.",
    ),
    must_fail=(
        "refreshes all 137 slots for every change",
        "leaves it to the call: refreshes nothing",
        "refreshes the changed key alone",
        "the rule of 2.13",
        "forgets Undefined",
        "fills Undefined for every alias",
        "repairs the reported program alone",
        "forgets the nested slots",
        "lets every alias push the formula out",
        "looks at AutogradCPU for every CPU key",
        "adds to the sets that it was given",
        "calls the finished rule",
        "measures with labkit's table",
    ),
)  # fmt: skip


EXERCISES = (smallest, askers, refresh, counterexample, at_risk)
