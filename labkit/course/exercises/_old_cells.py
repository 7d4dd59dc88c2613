"""Programs after which a stored cell is old: found by a fuzzer, and expected of real operators."""

from collections.abc import Callable, Collection
from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Raised, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._stored_rows import (
    BROKEN,
    EXPLICIT,
    IMPLICIT,
    KEYS,
    OTHERS,
    SIDES,
    SOUND,
    AskedRow,
    Row,
    forgetting,
    moved,
    rule_of_213,
    smallest_rule,
)

# --- at_risk


def _some_operators(rng: Rng, size: int) -> tuple[dict[str, list[str]], str, str]:
    """Operator -> the keys of its kernels; the key that comes; by which rule cells are stored."""
    names = [f"op{number}" for number in range(2 + size)]
    plain = [key for key in KEYS if key != IMPLICIT]
    operators = {
        name: rng.sample(plain, rng.randint(0, 3)) + [IMPLICIT] * rng.chance(0.5) for name in names
    }
    rule = "2.13" if rng.chance(0.8) else "the smallest"
    return operators, rng.choice((EXPLICIT, "SparseCPU", "CPU", "AutogradCPU")), rule


@handed_out
def _stored_by(rule: str) -> Callable[[str], Collection[str]]:
    return rule_of_213 if rule == "2.13" else smallest_rule


@handed_out
def _drive_risk(answer: Any, operators: dict[str, list[str]], key: str, rule: str) -> Any:
    """The names, sorted."""

    def moves(before: Collection[str], comes: str) -> set[str]:
        return moved(list(before), comes)

    return sorted(answer(operators, key, moves, _stored_by(rule)))


def _right_risk(operators: dict[str, list[str]], key: str, rule: str) -> list[str]:
    stored = set(_stored_by(rule)(key))
    return sorted(name for name, keys in operators.items() if moved(keys, key) - stored)


at_risk = Exercise(
    id="two_registrations.at_risk",
    case=_some_operators,
    expected=_right_risk,
    drive=_drive_risk,
    show=lambda operators, key, rule: f"{operators}, {key} comes, stored by the rule: {rule}",
    rung="warm-up",
    cases=60,
    minutes=3,
    hints=(
        Hint(
            "This rule stores every cell that can move: nobody is at risk. Ask `stored`.",
            when=lambda e: e.inputs[2] != "2.13",
        ),
        "moves(keys, key) are the cells that should change, stored(key) those that do.",
        "A cell is old if it is in the first set and not in the second: moves(...) - stored(...).",
    ),
    must_fail=(
        "names every operator with a formula",
        "names every operator in which some cell moves",
        "names those that are safe",
        "names the first one alone",
    ),
)


# --- counterexample


MOST = 100
FORGETS = "one slot is forgotten for one key"


def _sides(names: Collection[str]) -> Callable[[Rng, int], Case]:
    """A side by its name; for FORGETS a key that is often met, and one of its slots."""
    listed = list(names)

    def case(rng: Rng, size: int) -> Case:
        side = listed[size % len(listed)]
        if side != FORGETS:
            return Case((side, "", ""))
        key = rng.choice(KEYS)
        return Case((side, key, rng.choice(sorted(smallest_rule(key)))))

    return case


@handed_out
def _operator(side: str, key: str, slot: str) -> Row:
    return forgetting(key, slot) if side == FORGETS else SIDES[side]()


@handed_out
def _drive_fuzz(answer: Any, side: str, key: str, slot: str) -> Any:
    """The program that the answer finds."""
    made = 0

    def new_row() -> AskedRow:
        nonlocal made
        made += 1
        if made > MOST:
            raise RuntimeError(f"more than {MOST} operators were made")
        return AskedRow(_operator(side, key, slot))

    found = answer(new_row)
    return None if found is None else [tuple(statement) for statement in found]


def _judge_fuzz(case: Case, got: Any) -> str | Wrong | None:
    side = case.inputs[0]
    if isinstance(got, Raised):
        return "a program or None is returned"
    if got is None:
        return None if side in SOUND else f"a program is found within {MOST}: some cell goes stale"
    if not got or not all(_is_statement(statement) for statement in got):
        return "a program is a list of statements that were run"
    numbers = [statement[1] for statement in got if statement[0] == "impl"]
    if len(numbers) != len(set(numbers)):
        return "each number is registered once"
    row = _operator(*case.inputs)
    for place, statement in enumerate(got, 1):
        row.run(statement)
        if row.op.stale_slots() and place < len(got):
            return Wrong(
                "no cell is stale before the last statement of the program",
                f"the first {place} of these {len(got)} statements",
            )
    if not row.op.stale_slots():
        return "after the program that is returned, some cell is stale"
    return None


def _is_statement(statement: tuple[Any, ...]) -> bool:
    if len(statement) == 3:
        return statement[0] == "impl" and statement[2] in OTHERS
    return len(statement) == 2 and statement[0] == "remove"


counterexample = Exercise(
    id="two_registrations.counterexample",
    case=_sides([*SIDES, *[FORGETS] * 8]),
    drive=_drive_fuzz,
    judge=_judge_fuzz,
    show=lambda side, key, slot: f"{side}: {key}, {slot}" if key else side,
    cases=len(SIDES) + 8,
    sizes=len(SIDES) + 7,
    minutes=15,
    stages=(
        Stage("the rule of 2.13", case=_sides(BROKEN), cases=2),
        Stage("nothing to find", case=_sides(SOUND), cases=1),
        Stage("half repairs"),
    ),
    hints=(
        Hint("A cell is stale already after {expected}. Compare all 137 slots after each "
             "statement, and return at once.",
             when=lambda e: "before the last statement" in e.property),
        Hint("A number that is used again would name two kernels: count them up.",
             when=lambda e: "registered once" in e.property),
        Hint("Operators here have run, stored and meant: compare the two dictionaries.",
             when=lambda e: e.kind == "raised" and "AskedRow" in e.got),
        Hint("Run a statement, compare, and return the program so far when a cell differs.",
             stage="the rule of 2.13"),
        Hint("Here no cell is ever stale. Return None after the last program.",
             stage="nothing to find"),
        Hint("Take a kernel away now and then: ('remove', number).",
             when=lambda e: "removal" in e.input),
        Hint(
            "The old kernel and the new one have the same name. Compare the kernels themselves.",
            when=lambda e: "second kernel" in e.input,
        ),
        Hint("Compare all 137 slots, and choose from all of KEYS.",
             when=lambda e: "Undefined" in e.input or FORGETS in e.input),
        "stored() and meant() are dictionaries with the same slots: compare their kernels.",
        "Keep a list of the numbers that are there, to know what can be removed.",
    ),
    must_fail=(
        "never takes a kernel away",
        "registers at each key once",
        "compares kernels by name",
        "asks what is meant twice",
        "compares the seven slots",
        "asks one operator for all programs",
        "always finds something",
        "never finds anything",
        "returns the program of the report",
        "compares after the last statement only",
        "uses a number again",
        "tries five programs of its own",
        "asks the operator which cells are stale",
        "asks the operator behind `run`",
    ),
)  # fmt: skip
