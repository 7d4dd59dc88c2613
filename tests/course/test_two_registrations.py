"""Right and wrong answers to the exercises on a table that goes stale; the rule they repair."""

import inspect
import itertools
import random

import pytest

from labkit import cli, course
from labkit.core.dispatch_key import RUNTIME_KEYS, DispatchKey
from labkit.course.checking.stages import stage_exercises
from labkit.course.checks import failing_cases
from labkit.course.exercises._stored_rows import (
    EXPLICIT,
    FILLS,
    IMPLICIT,
    KEYS,
    LOOKS_AT,
    OTHERS,
    SLOTS,
    Row,
    after,
    by_names,
    moved,
    rule_of_213,
    smallest_rule,
)
from labkit.dispatch import torch_tables
from labkit.dispatch.table import compute_cell
from tests.course.answers import Answers, first_hint

answers = Answers("two_registrations")


# --- smallest


@answers.right("smallest")
def smallest(program, fails):
    for place in range(len(program)):
        shorter = program[:place] + program[place + 1 :]
        if fails(shorter):
            return smallest(shorter, fails)
    return program


@answers.right("smallest")
def smallest_by_rounds(program, fails):
    kept, before = list(program), None
    while kept != before:
        before = kept
        for place in reversed(range(len(before))):
            shorter = kept[:place] + kept[place + 1 :]
            kept = shorter if fails(shorter) else kept
    return kept


@answers.wrong("smallest", "returns the whole program")
def whole(program, fails):
    return program


@answers.wrong("smallest", "tries each statement in the whole program only")
def each_alone(program, fails):
    return [s for s in program if not fails([other for other in program if other != s])]


@answers.wrong("smallest", "passes over the program once")
def one_pass(program, fails):
    kept, place = list(program), 0
    while place < len(kept):
        shorter = kept[:place] + kept[place + 1 :]
        if fails(shorter):
            kept = shorter
        else:
            place += 1
    return kept


@answers.wrong("smallest", "passes over the program twice")
def two_passes(program, fails):
    kept = one_pass(program, fails)
    return one_pass(kept, fails)


@answers.wrong("smallest", "passes forwards, then backwards")
def there_and_back(program, fails):
    kept = one_pass(program, fails)
    return one_pass(kept[::-1], lambda shorter: fails(shorter[::-1]))[::-1]


@answers.wrong("smallest", "cuts the end off")
def shortest_beginning(program, fails):
    return next(program[:end] for end in range(len(program) + 1) if fails(program[:end]))


@answers.wrong("smallest", "leaves out too much")
def too_much(program, fails):
    return smallest(program, fails)[1:]


@answers.wrong("smallest", "takes the statements out of the caller's list")
def in_place(program, fails):
    found = smallest(program, fails)
    program[:] = found
    return program


@answers.wrong("smallest", "returns the two statements of the report")
def the_report(program, fails):
    return [("impl", 0, IMPLICIT), ("impl", 1, EXPLICIT)]


@answers.wrong("smallest", "asks a question of its own")
def its_own_question(program, fails):
    return smallest(program, lambda shorter: bool(after(shorter).stale()))


@answers.wrong("smallest", "takes an empty list for no list")
def empty_is_none(program, fails):
    found = True
    while found:
        tries = [program[:at] + program[at + 1 :] for at in range(len(program))]
        found = next((shorter for shorter in tries if fails(shorter)), None)
        program = found or program
    return program


@answers.wrong("smallest", "never tries the empty list")
def never_empty(program, fails):
    for place in range(len(program)):
        shorter = program[:place] + program[place + 1 :]
        if shorter and fails(shorter):
            return never_empty(shorter, fails)
    return list(program)


@answers.wrong("smallest", "begins at one statement")
def from_one(program, fails):
    for length in range(1, len(program) + 1):
        for chosen in itertools.combinations(program, length):
            if fails(list(chosen)):
                return list(chosen)
    return program


@answers.wrong("smallest", "takes equal statements away together")
def by_value(program, fails):
    for statement in program:
        shorter = [other for other in program if other != statement]
        if fails(shorter):
            return by_value(shorter, fails)
    return program


@answers.wrong("smallest", "leaves every removal out")
def no_removals(program, fails):
    return smallest([statement for statement in program if statement[0] != "remove"], fails)


# --- askers


@answers.right("askers")
def askers(asked, key):
    return {slot for slot in asked if key in asked[slot]}


@answers.wrong("askers", "returns what the slot of that name asks for")
def its_own_questions(asked, key):
    return set(asked.get(key, ()))


@answers.wrong("askers", "returns the slots that do not ask")
def not_asking(asked, key):
    return {slot for slot in asked if key not in asked[slot]}


@answers.wrong("askers", "returns the first one only")
def first_asker(asked, key):
    return {slot for slot in list(asked) if key in asked[slot] and slot == min(askers(asked, key))}


@answers.wrong("askers", "adds the slot of that name")
def with_its_own(asked, key):
    return {slot for slot, keys in asked.items() if key in keys or slot == key}


@answers.wrong("askers", "looks for keys that begin alike")
def begin_alike(asked, key):
    return {slot for slot, keys in asked.items() if any(each.startswith(key) for each in keys)}


# --- refresh


def fills(key):
    slots = set(FILLS.get(key, [key]))
    undefined = key in (EXPLICIT, IMPLICIT, "CompositeExplicitAutogradNonFunctional")
    return slots | {"Undefined"} if undefined else slots


def lookers(key):
    return {slot for slot, keys in LOOKS_AT.items() if key in keys}


@answers.right("refresh")
def refresh(key):
    pushed_out = FILLS[IMPLICIT] if key == EXPLICIT else set()
    return fills(key) | lookers(key) | pushed_out


@answers.right("refresh")
def refresh_by_inversion(key):
    return [slot for slot, asks in ASKED.items() if key in asks]


def asked(slot):
    keys = {slot} | {alias for alias in FILLS if slot in fills(alias)}
    return keys | ({EXPLICIT, *LOOKS_AT.get(slot, ())} if IMPLICIT in keys else set())


ASKED = {slot: asked(slot) for slot in SLOTS}


@answers.wrong("refresh", "refreshes all 137 slots for every change")
def everything(key):
    return SLOTS


@answers.wrong("refresh", "leaves it to the call: refreshes nothing")
def nothing(key):
    return set()


@answers.wrong("refresh", "refreshes the changed key alone")
def changed_alone(key):
    return {key} & {*SLOTS}


@answers.wrong("refresh", "the rule of 2.13")
def as_in_213(key):
    extra = set()
    if key in FILLS[EXPLICIT]:
        backend = next((s for s in SLOTS if s.startswith("Autograd") and key.endswith(s[8:])), None)
        extra = {backend or "AutogradOther"}
    return fills(key) | extra


@answers.wrong("refresh", "forgets Undefined")
def no_undefined(key):
    return refresh(key) - {"Undefined"}


@answers.wrong("refresh", "fills Undefined for every alias")
def always_undefined(key):
    return refresh(key) | ({"Undefined"} if key in FILLS else set())


@answers.wrong("refresh", "repairs the reported program alone")
def reported_alone(key):
    return as_in_213(key) | (FILLS["Autograd"] if key == EXPLICIT else set())


@answers.wrong("refresh", "forgets the nested slots")
def no_nested(key):
    return {slot for slot in refresh(key) if key != EXPLICIT or "Nested" not in slot}


@answers.wrong("refresh", "lets every alias push the formula out")
def every_alias(key):
    return refresh(key) | (FILLS[IMPLICIT] if key in FILLS else set())


@answers.wrong("refresh", "looks at AutogradCPU for every CPU key")
def by_its_name(key):
    slots = refresh(key)
    return slots - {"AutogradOther"} | {"AutogradCPU"} if key.endswith("CPU") else slots


@answers.wrong("refresh", "adds to the sets that it was given")
def in_the_table(key):
    slots = FILLS.get(key, {key})
    if key in (EXPLICIT, IMPLICIT, "CompositeExplicitAutogradNonFunctional"):
        slots.add("Undefined")
    return slots | lookers(key) | (FILLS[IMPLICIT] if key == EXPLICIT else set())


@answers.wrong("refresh", "calls the finished rule")
def finished_rule(key):
    return smallest_rule(key)


@answers.wrong("refresh", "measures with labkit's table")
def measured(key):
    return moved([], key) | (moved([IMPLICIT], key) if key != IMPLICIT else set())


# --- at_risk


@answers.right("at_risk")
def at_risk(operators, key, moves, stored):
    return {name for name, keys in operators.items() if moves(keys, key) - stored(key)}


@answers.wrong("at_risk", "names every operator with a formula")
def with_a_formula(operators, key, moves, stored):
    return {name for name, keys in operators.items() if IMPLICIT in keys}


@answers.wrong("at_risk", "names every operator in which some cell moves")
def some_cell_moves(operators, key, moves, stored):
    return {name for name, keys in operators.items() if moves(keys, key)}


@answers.wrong("at_risk", "names those that are safe")
def safe_ones(operators, key, moves, stored):
    return operators.keys() - at_risk(operators, key, moves, stored)


@answers.wrong("at_risk", "names the first one alone")
def first_alone(operators, key, moves, stored):
    return set(sorted(at_risk(operators, key, moves, stored))[:1])


@answers.wrong("at_risk", "passes over operators that have the key")
def without_the_key(operators, key, moves, stored):
    return {name for name in at_risk(operators, key, moves, stored) if key not in operators[name]}


@answers.wrong("at_risk", "returns a dictionary")
def as_dictionary(operators, key, moves, stored):
    return dict.fromkeys(at_risk(operators, key, moves, stored), True)


# --- counterexample


def fuzz(
    new_row, differs, keys=KEYS, removals=0.3, programs=80, repeats=True, late=False, again=False
):
    rng = random.Random(5)
    for _ in range(programs):
        row, program, alive = new_row(), [], []
        left = list(dict.fromkeys(keys))
        for number in range(8):
            if alive and rng.random() < removals:
                statement = "remove", alive.pop(rng.randrange(len(alive)))
            else:
                key = rng.choice(keys) if repeats else left.pop(rng.randrange(len(left)))
                statement = "impl", number % 3 if again else number, key
                alive.append(statement[1])
            program.append(statement)
            row.run(statement)
            if (number == 7 or not late) and differs(row):
                return program
    return None


def is_stale(row):
    return row.stored() != row.meant()


@answers.right("counterexample")
def counterexample(new_row):
    return fuzz(new_row, is_stale)


@answers.right("counterexample")
def slot_by_slot(new_row):
    return fuzz(
        new_row, lambda row: any(row.stored()[s] is not row.meant()[s] for s in row.meant())
    )


@answers.wrong("counterexample", "never takes a kernel away")
def without_removals(new_row):
    return fuzz(new_row, is_stale, removals=0)


@answers.wrong("counterexample", "registers at each key once")
def each_key_once(new_row):
    return fuzz(new_row, is_stale, repeats=False)


@answers.wrong("counterexample", "compares kernels by name")
def by_name(new_row):
    def names(kernels):
        return {slot: kernel and kernel.debug for slot, kernel in kernels.items()}

    return fuzz(new_row, lambda row: names(row.stored()) != names(row.meant()))


@answers.wrong("counterexample", "asks what is meant twice")
def meant_twice(new_row):
    return fuzz(new_row, lambda row: row.meant() != row.meant())


@answers.wrong("counterexample", "compares the seven slots")
def seven_slots(new_row):
    seven = [slot + backend for slot in ("", "Autograd") for backend in ("CPU", "CUDA", "Meta")]

    def differs(row):
        stored, meant = row.stored(), row.meant()
        return any(stored[slot] is not meant[slot] for slot in seven)

    return fuzz(new_row, differs)


@answers.wrong("counterexample", "asks one operator for all programs")
def one_operator(new_row):
    row = new_row()
    return fuzz(lambda: row, is_stale)


@answers.wrong("counterexample", "always finds something")
def always_finds(new_row):
    return counterexample(new_row) or [("impl", 0, IMPLICIT), ("impl", 1, EXPLICIT)]


@answers.wrong("counterexample", "never finds anything")
def never_finds(new_row):
    return None


@answers.wrong("counterexample", "returns the program of the report")
def program_of_the_report(new_row):
    program = [("impl", 0, IMPLICIT), ("impl", 1, EXPLICIT)]
    row = new_row()
    for statement in program:
        row.run(statement)
    return program if is_stale(row) else None


@answers.wrong("counterexample", "compares after the last statement only")
def compares_late(new_row):
    return fuzz(new_row, is_stale, late=True)


@answers.wrong("counterexample", "uses a number again")
def numbers_again(new_row):
    return fuzz(new_row, is_stale, again=True)


@answers.wrong("counterexample", "asks the operator which cells are stale")
def asks_for_stale(new_row):
    return fuzz(new_row, lambda row: bool(row.stale()))


@answers.wrong("counterexample", "asks the operator behind `run`")
def asks_behind(new_row):
    return fuzz(new_row, lambda row: bool(row.run.__self__.op.stale_slots()))


@answers.wrong("counterexample", "tries five programs of its own")
def five_programs(new_row):
    pairs = [
        (IMPLICIT, EXPLICIT), ("CPU", "CPU"), (EXPLICIT, EXPLICIT), (IMPLICIT, "SparseCPU"),
    ]  # fmt: skip
    programs = [[("impl", n, key) for n, key in enumerate(pair)] for pair in pairs]
    for program in [*programs, [("impl", 0, "CPU"), ("remove", 0)]]:
        row = new_row()
        for place, statement in enumerate(program, 1):
            row.run(statement)
            if is_stale(row):
                return program[:place]
    return None


def test_mistakes_of_a_smallest_get_their_hints():
    exercise = answers.exercises["smallest"]
    assert "the function that you are given" in first_hint(exercise, its_own_question)
    assert "is false for your list" in first_hint(exercise, too_much)
    assert "up to some place" in first_hint(exercise, shortest_beginning)
    assert "No fixed number of passes" in first_hint(exercise, two_passes)
    assert "[] counts as false" in first_hint(exercise, never_empty)
    assert "by its place" in first_hint(exercise, by_value)
    assert "Without its removals" in first_hint(exercise, no_removals)


def test_mistakes_of_askers_get_their_hints():
    exercise = answers.exercises["askers"]
    assert "its own name" in first_hint(exercise, with_its_own)
    assert "begins like another" in first_hint(exercise, begin_alike)


def test_mistakes_of_at_risk_get_their_hints():
    def explicit(operators, key, moves, stored):
        return at_risk(operators, EXPLICIT, moves, stored)

    def longer(operators, key, moves, stored):
        return {n for n, keys in operators.items() if len(moves(keys, key)) > len(stored(key))}

    def by_names_of_the_page(operators, key, moves, stored):
        return {n for n, keys in operators.items() if moved(keys, key) - rule_of_213(key)}

    exercise = answers.exercises["at_risk"]
    assert "not always to EXPLICIT" in first_hint(exercise, explicit)
    assert "not how many" in first_hint(exercise, longer)
    assert "Ask `stored`" in first_hint(exercise, by_names_of_the_page)
    assert "a set of names" in first_hint(exercise, as_dictionary)


def test_a_list_of_askers_is_told_to_be_a_set():
    def as_list(asked, key):
        return sorted(askers(asked, key))

    assert first_hint(answers.exercises["askers"], as_list) == "Return a set."


def hint_of_any_failure(exercise, answer):
    """The first hint that fits; a fuzzer takes long, so no smaller failing case is looked for."""
    evidence = failing_cases(exercise, answer, 7, search=False)[0]
    hints = [exercise.hint(index) for index in range(len(exercise.hints))]
    return next(hint.text for hint in hints if hint.fits(evidence))


def test_a_fuzzer_that_forgets_a_slot_is_told_after_which_statement():
    exercise = answers.exercises["counterexample"]

    def no_undefined_slot(row):
        stored, meant = row.stored(), row.meant()
        return any(stored[slot] is not meant[slot] for slot in SLOTS if slot != "Undefined")

    hint = hint_of_any_failure(
        exercise, lambda new_row: fuzz(new_row, no_undefined_slot, (IMPLICIT, EXPLICIT))
    )
    assert "A cell is stale already after " in hint
    assert "all 137 slots" in hint


def test_a_fuzzer_that_misses_is_told_whether_its_programs_or_its_comparison_is_at_fault():
    exercise = answers.exercises["counterexample"]

    def few_keys(new_row):
        return fuzz(new_row, is_stale, ("CPU", IMPLICIT, EXPLICIT))

    def as_texts(new_row):
        return fuzz(new_row, lambda row: str(row.stored()) != str(row.meant()))

    assert "Take a kernel away" in hint_of_any_failure(exercise, without_removals)
    assert "No key had two kernels" in hint_of_any_failure(exercise, each_key_once)
    assert "Some of KEYS never came" in hint_of_any_failure(exercise, few_keys)
    assert "the kernels themselves" in hint_of_any_failure(exercise, by_name)
    assert "the kernels themselves" in hint_of_any_failure(exercise, as_texts)
    assert "your comparison did not see it: " in hint_of_any_failure(exercise, meant_twice)


def test_mistakes_of_a_refresh_get_their_hints():
    stages = dict(stage_exercises(answers.exercises["refresh"]))
    formulas = "CompositeExplicitAutogradNonFunctional"

    def pushes_too(key):
        return refresh(key) | (FILLS[IMPLICIT] if key == formulas else set())

    def without_other(key):
        return refresh(key) - ({"AutogradOther"} if key == "Autograd" else set())

    assert "Copy one with set(...)" in first_hint(stages["an alias"], in_the_table)
    assert "too much for this key" in first_hint(stages["an alias"], pushes_too)
    assert "all slots of FILLS" in first_hint(stages["an alias"], without_other)
    assert "Undefined" in first_hint(stages["an alias"], no_undefined)
    assert "EXPLICIT pushes" in first_hint(stages["an alias"], changed_without_formula)


def changed_without_formula(key):
    return refresh(key) - (FILLS[IMPLICIT] - fills(key) if key == EXPLICIT else set())


test_answers = answers.tests()


# --- what the chapter shows


def test_the_smallest_rule_names_the_cells_that_a_formula_or_nothing_beside_it_shows_to_change():
    for key in OTHERS:
        changed = moved([], key) | (moved([IMPLICIT], key) if key != IMPLICIT else set())
        assert changed == smallest_rule(key), key


def test_conformance_is_red_by_the_rule_of_213():
    found = course.conformance("dispatcher", by_names(rule_of_213))
    assert not found.passed
    assert "\n  torch " in repr(found)


def test_conformance_is_green_by_the_smallest_in_a_file_of_its_own(tmp_path):
    file = tmp_path / "refresh.py"
    lines = [
        "from labkit.course.exercises._stored_rows import *",
        "from labkit.course.exercises._stored_rows import by_names",
        inspect.getsource(refresh).partition("\n")[2],
        inspect.getsource(fills),
        inspect.getsource(lookers),
        "slots_updated = by_names(refresh)",
    ]
    file.write_text("\n".join(lines))
    assert cli.main(["conformance", "dispatcher", "--system", str(file), "--seed", "5"]) == 0


def test_the_rule_of_213_is_pytorchs_on_an_operator_of_its_own():
    program = [("impl", 0, IMPLICIT), ("impl", 1, "SparseCPU")]
    assert after(program).stale() == {"AutogradOther": (IMPLICIT, "nothing")}
    assert after(program, smallest_rule).stale() == {}


@pytest.mark.parametrize("name", ["aten::relu", "aten::add.Tensor", "aten::matmul", "aten::view"])
def test_shipped_operators_keep_their_rows_under_the_smallest_rule(name):
    """So no hop of a call to them changes."""
    program = [
        ("impl", number, str(registration.key))
        for number, registration in enumerate(reversed(torch_tables.registrations(name)))
        if registration.active
    ]
    row = after(program, smallest_rule)
    assert row.stale() == {}
    kernels, fallbacks = row.op.active_kernels, row.op.dispatcher.fallbacks
    for slot in RUNTIME_KEYS:
        assert row.stored()[str(slot)] is compute_cell(slot, kernels, fallbacks).kernel
    assert after(program).meant().keys() == row.stored().keys()


def test_removing_what_is_not_there_does_nothing():
    row = Row(smallest_rule)
    row.run(("remove", 3))
    assert row.touched == 0
    assert row.stored()["CPU"] is None
    assert row.stored()["AutogradCPU"].debug == "fallback"
    assert DispatchKey.CPU not in row.op.active_kernels
