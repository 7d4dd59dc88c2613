"""Programs after which a stored cell is old: found by a fuzzer, and expected of real operators."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from labkit.course.exercise import (
    Case,
    Evidence,
    Exercise,
    Hint,
    Raised,
    Rng,
    Stage,
    Wrong,
    handed_out,
)
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
    Statement,
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
    rule = rng.choice(("2.13", "2.13", "2.13", THE_SMALLEST, NOTHING))
    return operators, rng.choice((EXPLICIT, "SparseCPU", "CPU", "AutogradCPU")), rule


THE_SMALLEST, NOTHING = "the smallest", "nothing is stored"


@handed_out
def _stored_by(rule: str) -> Callable[[str], set[str]]:
    return {"2.13": rule_of_213, THE_SMALLEST: smallest_rule, NOTHING: lambda key: set()}[rule]


@handed_out
def _drive_risk(answer: Any, operators: dict[str, list[str]], key: str, rule: str) -> Any:
    """What the answer says, with the cells that move as a set."""

    def moves(before: Collection[str], comes: str) -> set[str]:
        return moved(list(before), comes)

    return answer(operators, key, moves, _stored_by(rule))


def _right_risk(operators: dict[str, list[str]], key: str, rule: str) -> set[str]:
    stored = _stored_by(rule)(key)
    return {name for name, keys in operators.items() if moved(keys, key) - stored}


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
            "Return a set of names.",
            when=lambda e: e.kind != "raised" and not isinstance(e.value, set),
        ),
        Hint(
            "This rule stores every cell that can move: nobody is at risk. Ask `stored`.",
            when=lambda e: e.inputs[2] == THE_SMALLEST,
        ),
        Hint(
            "This rule stores nothing: an operator is at risk as soon as a cell moves, whichever "
            "kernels it has. Ask `stored`.",
            when=lambda e: e.inputs[2] == NOTHING,
        ),
        Hint(
            "The kernel comes to `key`, not always to EXPLICIT.",
            when=lambda e: (
                e.inputs[1] != EXPLICIT
                and e.value == _right_risk(e.inputs[0], EXPLICIT, e.inputs[2])
            ),
        ),
        Hint(
            "Which cells, not how many: a cell that moves may be missing among many stored ones.",
            when=lambda e: e.value < e.right,
        ),
        "moves(keys, key) are the cells that should change, stored(key) those that do.",
        "A cell is old if it is in the first set and not in the second: moves(...) - stored(...).",
    ),
    must_fail=(
        "names every operator with a formula",
        "names every operator in which some cell moves",
        "names those that are safe",
        "names the first one alone",
        "passes over operators that have the key",
        "returns a dictionary",
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


@dataclass(frozen=True)
class Missed:
    """An answer that returned None, and the programs that it ran."""

    programs: list[list[Statement]]

    def __repr__(self) -> str:
        return "None"


@handed_out
def _drive_fuzz(answer: Any, side: str, key: str, slot: str) -> Any:
    """The program that the answer finds."""
    programs: list[list[Statement]] = []

    def new_row() -> AskedRow:
        if len(programs) == MOST:
            raise RuntimeError(f"more than {MOST} operators were made")
        programs.append([])
        return AskedRow(_operator(side, key, slot), programs[-1])

    found = answer(new_row)
    return Missed(programs) if found is None else [tuple(statement) for statement in found]


NONE_STALE = "in none of the programs that you ran"


def _missed(case: Case, programs: list[list[Statement]]) -> str:
    """Where a cell was stale, if it was: then the comparison is at fault, else the programs are."""
    for program in programs:
        row = _operator(*case.inputs)
        for place, statement in enumerate(program, 1):
            row.run(statement)
            if stale := row.stale():
                slot, (stored, meant) = next(iter(stale.items()))
                return f"after {program[:place]}: {slot}, a call runs {stored}, meant is {meant}"
    return NONE_STALE


def _same_names(said: str) -> bool:
    stored, met, meant = said.strip("'\"").rpartition("a call runs ")[2].partition(", meant is ")
    return bool(met) and stored == meant


def _two_at_one_key(program: list[Statement]) -> bool:
    alive: dict[int, str] = {}
    for kind, number, *key in program:
        if kind == "impl":
            if key[0] in alive.values():
                return True
            alive[number] = key[0]
        else:
            alive.pop(number, None)
    return False


def _programs(evidence: Evidence) -> list[list[Statement]]:
    """What was run while no cell went stale; nothing where one did."""
    value = evidence.value
    missed = isinstance(value, Missed) and NONE_STALE in evidence.expected
    return value.programs if missed else []


def _keys_left_out(evidence: Evidence) -> bool:
    programs = _programs(evidence)
    met = {key for program in programs for _, _, *keys in program for key in keys}
    return bool(met) and not met >= {*KEYS}


def _judge_fuzz(case: Case, got: Any) -> str | Wrong | None:
    side = case.inputs[0]
    if isinstance(got, Raised):
        return "a program or None is returned"
    if isinstance(got, Missed):
        if side in SOUND:
            return None
        found = f"a program is found within {MOST}: some cell goes stale"
        return Wrong(found, _missed(case, got.programs))
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
    returns=(Missed,),
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
        Hint(
            "The old kernel and the new one have the same name. Compare the kernels themselves.",
            when=lambda e: isinstance(e.value, Missed) and _same_names(e.expected),
        ),
        Hint(
            "A cell was stale, and your comparison did not see it: {expected}. Compare all 137 "
            "slots after each statement.",
            when=lambda e: isinstance(e.value, Missed) and "a call runs" in e.expected,
        ),
        Hint(
            "Take a kernel away now and then: ('remove', number).",
            when=lambda e: bool(programs := _programs(e))
            and not any(statement[0] == "remove" for p in programs for statement in p),
        ),
        Hint(
            "No key had two kernels at once in your programs. Register several at one key.",
            when=lambda e: bool(programs := _programs(e))
            and not any(map(_two_at_one_key, programs)),
        ),
        Hint("Some of KEYS never came in your programs. Choose from all of them.",
             when=_keys_left_out),
        Hint("Run a statement, compare, and return the program so far when a cell differs.",
             stage="the rule of 2.13"),
        Hint("Here no cell is ever stale. Return None after the last program.",
             stage="nothing to find"),
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
