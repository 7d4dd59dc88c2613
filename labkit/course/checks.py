"""`check` asks an answer hundreds of fresh questions, and shows the smallest one it gets wrong."""

import dataclasses
import os
import secrets
from collections.abc import Sequence
from typing import Any

from labkit.course.checking import own_process
from labkit.course.checking.digest import digest
from labkit.course.checking.guard import Guard, is_running, trip
from labkit.course.checking.keeper import kept_for_all
from labkit.course.checking.stages import stage_exercises
from labkit.course.checking.tester import Tester
from labkit.course.checking.verdicts import CheckFailed, NotAttempted, Passed, TimeUsedUp
from labkit.course.compare import in_words
from labkit.course.exercise import Case, Evidence, Exercise
from labkit.course.exercises import find
from labkit.course.progress_file import (
    Attempt,
    record_attempt,
    record_pass,
    record_stages,
)
from labkit.course.written import judged


@dataclasses.dataclass
class Outcome:
    """What became of one stage: "done", "wrong" (with failing cases) or "open".

    An open one that was stopped holds that as its failing case.
    """

    name: str
    state: str
    failures: list[Evidence] = dataclasses.field(default_factory=list)


def check(exercise_id: str, answer: Any, *, seed: int | None = None, record: bool = True) -> Any:
    """Return `Passed` when the answer is right on every case; the seed is fresh unless given.

    Where nothing is wrong and something still raises NotImplementedError, the exercise's card
    comes back: it is the reader's turn, and the notebook runs on. LABKIT_UNFINISHED=fails makes
    that an error, for runs whose answers should be there.

    record  False leaves the progress file alone (for demonstrations)

    Raises   CheckFailed    the smallest failing case found, with the next hint it earned
             TimeUsedUp     it was stopped; and nothing is known to be wrong
             NotAttempted   an unfinished answer, where LABKIT_UNFINISHED=fails
    """
    if is_running():
        trip("labkit.course.check")  # an answer that asks the checker is no answer
    exercise = find(exercise_id)
    if not callable(answer) and exercise.drive is None:
        raise TypeError(f"check({exercise_id!r}, ...) needs a function, got {in_words(answer)}")
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    found = outcomes(exercise, answer, seed)
    judged(answer, right=not any(outcome.failures for outcome in found))
    stages = [[outcome.name, outcome.state] for outcome in found] if exercise.stages else []
    if record:
        record_stages(exercise.id, stages)
    wrong = [outcome.failures for outcome in found if outcome.state == "wrong"]
    if wrong:
        failures = wrong[0]
        attempt = Attempt(seed, [evidence.rows() for evidence in failures])
        hint = record_attempt(exercise, digest(answer), attempt, failures[0]) if record else ""
        failed = CheckFailed(exercise, seed, failures, hint, stages)
        _show(exercise, failures[0], with_card=record)
        raise failed
    if stopped := [outcome.failures for outcome in found if outcome.failures]:
        raise TimeUsedUp(exercise, seed, stopped[0], "", stages)
    if any(outcome.state == "open" for outcome in found):
        return _your_turn(exercise)
    score = exercise.score(answer) if exercise.score else ""
    if not record:
        return Passed(exercise, seed, score)
    from labkit.course.your_machine.inventory import keep_for_seat

    record_pass(exercise.id)
    return Passed(exercise, seed, score, keep_for_seat(exercise, answer))


def outcomes(exercise: Exercise, answer: Any, seed: int) -> list[Outcome]:
    """What became of every stage; the failing cases of the first wrong one are the smallest."""
    asked = _asked(exercise)
    with Guard(exercise).sealing():
        return _outcomes(exercise, answer, seed, asked)


def _outcomes(
    exercise: Exercise, answer: Any, seed: int, asked: list[tuple[str, Exercise, Sequence[Any]]]
) -> list[Outcome]:
    found: list[Outcome] = []
    stopped = False
    for name, part, inputs in asked:
        if inputs:
            if any(outcome.state != "done" for outcome in found):
                break
            found.pop()  # the last stage is done when these are right too
        if stopped:
            found.append(Outcome(name, "open"))
            continue
        seen_wrong = any(outcome.failures for outcome in found)
        try:
            failures = failing_cases(part, answer, seed, not seen_wrong, inputs)
        except NotAttempted:
            found.append(Outcome(name, "open"))
            continue
        failures = [dataclasses.replace(evidence, stage=name) for evidence in failures]
        if failures and not inputs:
            _blame_earlier(exercise, found, failures)
        verdict = "open" if failures and failures[0].kind == "time" else "wrong"
        found.append(Outcome(name, verdict if failures else "done", failures))
        stopped = any(evidence.kind in ("time", "banned") for evidence in failures)
    return found


def _asked(exercise: Exercise) -> list[tuple[str, Exercise, Sequence[Any]]]:
    """The stages; then, once more for the last one, the calls on which an earlier answer failed at
    work: they come with their inputs.
    """
    from labkit.course.your_machine.new_cases import cases_of

    stages: list[Any] = [(name, part, ()) for name, part in stage_exercises(exercise)]
    cases = cases_of(exercise.id)
    return [*stages, (stages[-1][0], exercise, cases)] if cases else stages


def _blame_earlier(exercise: Exercise, found: list[Outcome], failures: list[Evidence]) -> None:
    """An earlier stage whose own cases were right is wrong where it takes the smallest failure."""
    for stage, outcome in zip(exercise.stages, found, strict=False):
        if outcome.state != "done" or stage.only is None or stage.case is not None:
            continue
        if failures[0].kind in ("value", "raised") and stage.only(*failures[0].inputs):
            theirs = [evidence for evidence in failures if stage.only(*evidence.inputs)]
            outcome.state = "wrong"
            outcome.failures = [dataclasses.replace(one, stage=stage.name) for one in theirs]


def _your_turn(exercise: Exercise) -> Any:
    from labkit.course.cards import card

    if os.environ.get("LABKIT_UNFINISHED") == "fails":
        raise NotAttempted(exercise)
    return card(exercise.id)


@kept_for_all()
def failing_cases(
    exercise: Exercise, answer: Any, seed: int, search: bool = True, inputs: Sequence[Any] = ()
) -> list[Evidence]:
    """The failing cases found for a seed, smallest first; none when the answer is right.

    search  False stops at the first failing case instead of looking for smaller ones
    inputs  of calls that are asked instead of cases made from the seed

    Raises   NotAttempted   before any failing case the answer raises NotImplementedError
    """
    tester = Tester(exercise, answer, seed)
    if not (exercise.apart and own_process.CAN):
        return tester.found(search, inputs)

    def ask(note: own_process.Note) -> list[Evidence]:
        tester.note = note
        return tester.found(search, inputs)

    try:
        return own_process.in_own_process(exercise, ask)
    except own_process.Ended as end:
        return [tester.ended(end)]


def _show(exercise: Exercise, evidence: Evidence, with_card: bool) -> None:
    """Display the card, and the failing case's picture, where there is something to display it."""
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import display
    except ImportError:
        return
    if get_ipython() is None:
        return
    if with_card:
        from labkit.course.cards import card

        display(card(exercise.id))  # type: ignore[no-untyped-call]
    if (drawn := picture_of(exercise, evidence)) is not None:
        display(drawn)  # type: ignore[no-untyped-call]


def picture_of(exercise: Exercise, evidence: Evidence) -> Any:
    """The exercise's picture of a failing case; None where it has none, or none can be drawn."""
    if exercise.picture is None:
        return None
    try:
        return exercise.picture(
            Case(evidence.inputs, evidence.right), evidence.value, evidence.right
        )
    except Exception:  # a wrong answer may return anything at all
        return None
