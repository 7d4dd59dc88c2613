"""`check` asks an answer hundreds of fresh questions, and shows the smallest one it gets wrong."""

import contextlib
import dataclasses
import os
import secrets
from collections.abc import Iterator
from typing import Any

from labkit.course import own_process
from labkit.course.compare import as_plain, difference, in_words
from labkit.course.digest import digest
from labkit.course.exercise import NOTHING, Case, Evidence, Exercise, Raised, Raises, Wrong
from labkit.course.exercises import find
from labkit.course.guard import Guard, Run, is_running, trip
from labkit.course.keeper import kept_for_all
from labkit.course.progress_file import (
    Attempt,
    record_attempt,
    record_pass,
    record_stages,
)
from labkit.course.stages import stage_exercises
from labkit.course.verdicts import CheckFailed, NotAttempted, Passed, TimeUsedUp

SEARCHED = 60
"""More cases tried, no larger than the failing one, to find a smaller one."""
SHRUNK = 200
"""Candidates of `smaller` tried, at most."""
SHOWN = 4
"""Failing cases kept of one attempt."""
TOTAL_SECONDS = 120.0
"""Of CPU, for all cases together."""


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
    if all(outcome.state == "done" for outcome in found) and not _met_in_the_machine(
        exercise, answer, seed, found[-1]
    ):
        found[-1].state = "wrong"
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
    record_pass(exercise.id)
    return Passed(exercise, seed, score, _kept(exercise, answer))


def _kept(exercise: Exercise, answer: Any) -> str:
    from labkit.course.your_machine.inventory import keep_for_seat

    return keep_for_seat(exercise, answer)


def outcomes(exercise: Exercise, answer: Any, seed: int) -> list[Outcome]:
    """What became of every stage; the failing cases of the first wrong one are the smallest."""
    found: list[Outcome] = []
    stopped = False
    for name, part in stage_exercises(exercise):
        if stopped:
            found.append(Outcome(name, "open"))
            continue
        seen_wrong = any(outcome.failures for outcome in found)
        try:
            failures = failing_cases(part, answer, seed, search=not seen_wrong)
        except NotAttempted:
            found.append(Outcome(name, "open"))
            continue
        failures = [dataclasses.replace(evidence, stage=name) for evidence in failures]
        if failures:
            _blame_earlier(exercise, found, failures)
        verdict = "open" if failures and failures[0].kind == "time" else "wrong"
        found.append(Outcome(name, verdict if failures else "done", failures))
        stopped = any(evidence.kind in ("time", "banned") for evidence in failures)
    return found


def _blame_earlier(exercise: Exercise, found: list[Outcome], failures: list[Evidence]) -> None:
    """An earlier stage whose own cases were right is wrong where it takes the smallest failure."""
    for stage, outcome in zip(exercise.stages, found, strict=False):
        if outcome.state != "done" or stage.only is None or stage.case is not None:
            continue
        if failures[0].kind in ("value", "raised") and stage.only(*failures[0].inputs):
            theirs = [evidence for evidence in failures if stage.only(*evidence.inputs)]
            outcome.state = "wrong"
            outcome.failures = [dataclasses.replace(one, stage=stage.name) for one in theirs]


@kept_for_all()
def _met_in_the_machine(exercise: Exercise, answer: Any, seed: int, outcome: Outcome) -> bool:
    """Whether the answer is right on the calls on which an earlier one failed at work.

    Where it is not, they are failing cases of the outcome.
    """
    from labkit.course.your_machine.new_cases import cases_of

    cases = cases_of(exercise.id)
    if cases:
        tester = Tester(exercise, answer, seed)
        with tester.guard.sealing():
            met = [tester.ask_inputs(inputs, 1 + at) for at, inputs in enumerate(cases)]
        outcome.failures = [
            dataclasses.replace(one[1], stage=outcome.name) for one in met if one is not None
        ]
    return not outcome.failures


def _your_turn(exercise: Exercise) -> Any:
    from labkit.course.cards import card

    if os.environ.get("LABKIT_UNFINISHED") == "fails":
        raise NotAttempted(exercise)
    return card(exercise.id)


@kept_for_all()
def failing_cases(
    exercise: Exercise, answer: Any, seed: int, search: bool = True
) -> list[Evidence]:
    """The failing cases found for a seed, smallest first; none when the answer is right.

    search  False stops at the first failing case instead of looking for smaller ones

    Raises   NotAttempted   before any failing case the answer raises NotImplementedError
    """
    tester = Tester(exercise, answer, seed)
    if not (exercise.apart and own_process.CAN):
        return _found(tester, search)

    def ask(note: own_process.Note) -> list[Evidence]:
        tester.note = note
        return _found(tester, search)

    try:
        return own_process.in_own_process(exercise, ask)
    except own_process.Ended as end:
        return [tester.ended(end)]


def _found(tester: "Tester", search: bool) -> list[Evidence]:
    with tester.guard.sealing():
        return _distinct(_failures(tester, search))[:SHOWN]


def _failures(tester: "Tester", search: bool) -> list[Evidence]:
    exercise = tester.exercise
    failures: list[tuple[int, Evidence]] = []
    smallest = exercise.sizes
    for number, size in _schedule(exercise):
        try:
            found = tester.ask(number, size)
        except NotAttempted:
            if not failures:
                raise
            break
        if found is not None:
            if found[1].kind == "time" and failures:
                break  # what is known to be wrong says more
            smallest = size if not failures else smallest
            failures.append(found)
            if not search or len(failures) == SHOWN or found[1].kind in ("time", "banned"):
                break
    if search and failures and failures[0][1].kind not in ("time", "banned"):
        failures += tester.search(smallest)
        failures.sort(key=lambda pair: pair[0])
        failures[0] = tester.shrink(failures[0])
    return [evidence for _, evidence in failures]


def _schedule(exercise: Exercise) -> Iterator[tuple[int, int]]:
    """(number, size) of every case, small ones first."""
    for number in range(exercise.cases):
        yield number, number * (exercise.sizes + 1) // exercise.cases


def _distinct(failures: list[Evidence]) -> list[Evidence]:
    return list({evidence.input: evidence for evidence in reversed(failures)}.values())[::-1]


class Tester:
    """Asks one answer the cases of one seed."""

    def __init__(self, exercise: Exercise, answer: Any, seed: int) -> None:
        self.exercise, self.answer, self.seed = exercise, answer, seed
        self.guard = Guard(exercise)
        self.note: own_process.Note = lambda number, inputs: None
        self.cpu, self.asked = 0.0, 0

    def ask(self, number: int, size: int) -> tuple[int, Evidence] | None:
        """(weight, evidence) when the answer fails this case.

        The case is made again after the answer has run: until then nothing holds what is right.
        """
        given = self.exercise.make(self.seed, number, size).inputs
        self.note(number, given)
        run = self.guard.run(self.answer, given)
        return self._judged(number, self.exercise.make(self.seed, number, size), given, run)

    def search(self, largest: int) -> list[tuple[int, Evidence]]:
        """Failing cases among more small ones; stops when one takes too long."""
        found = []
        for extra in range(SEARCHED):
            number, failure = self.exercise.cases + extra, None
            with contextlib.suppress(NotAttempted):
                failure = self.ask(number, extra * (largest + 1) // SEARCHED)
            if failure and failure[1].kind == "time":
                break
            if failure:
                found.append(failure)
                if len(found) == SHOWN:
                    break
        return found

    def shrink(self, failure: tuple[int, Evidence]) -> tuple[int, Evidence]:
        """A failing case no `smaller` candidate of which still fails, or where the tries ended."""
        if self.exercise.smaller is None or self.exercise.expected is None:
            return failure
        tries = 0
        improved = True
        while improved and tries < SHRUNK:
            improved = False
            for inputs in self.exercise.smaller(*failure[1].inputs):
                tries += 1
                found = self.ask_inputs(tuple(inputs), failure[1].number)
                if found is not None and found[1].kind == "time":
                    return failure
                if found is not None and found[0] < failure[0]:
                    failure, improved = found, True
                    break
                if tries >= SHRUNK:
                    break
        return failure

    def ask_inputs(self, inputs: tuple[Any, ...], number: int) -> tuple[int, Evidence] | None:
        """(weight, evidence) when the answer fails on these inputs."""
        import copy

        given = copy.deepcopy(inputs)
        self.note(number - 1, given)
        run = self.guard.run(self.answer, given)
        with contextlib.suppress(NotAttempted):
            return self._judged(number - 1, Case(inputs), given, run)
        return None

    def _judged(
        self, number: int, case: Case, given: tuple[Any, ...], run: Run
    ) -> tuple[int, Evidence] | None:
        verdict = self._verdict(case, given, run)
        unfinished = isinstance(run.error, NotImplementedError)
        if unfinished and (number == 0 or (verdict and verdict[0] == "raised")):
            raise NotAttempted(self.exercise)
        if verdict is None:
            return None
        kind, what, expected, got = verdict
        text = self._input(case.inputs)
        evidence = Evidence(
            kind=kind,
            input=text,
            property=what,
            expected="" if expected is NOTHING else in_words(expected),
            got=got,
            printed=run.printed,
            number=number + 1,
            inputs=case.inputs,
            value=run.value,
            right=None if expected is NOTHING else expected,
        )
        return len(text), evidence

    def _verdict(
        self, case: Case, given: tuple[Any, ...], run: Run
    ) -> tuple[str, str, Any, str] | None:
        """(kind, property, expected, got) of what is wrong, or None."""
        exercise = self.exercise
        if run.banned:
            return "banned", "the answer works this out itself", NOTHING, run.banned[0]
        self.cpu, self.asked = self.cpu + run.cpu, self.asked + 1
        if run.late:
            return "time", "an answer in time", NOTHING, run.late
        if self.cpu > TOTAL_SECONDS:
            used = f"used {self.cpu:.0f} s of CPU on {self.asked} cases, {TOTAL_SECONDS:g} allowed"
            return "time", "all answers in time", NOTHING, used
        if changed := _changed(given, case.inputs):
            return "mutated", "the inputs stay as they were", NOTHING, f"input {changed}"
        got: Any = Raised(run.error) if run.error is not None else run.value
        if run.error is None:
            try:
                got = as_plain(run.value, exercise.returns)
            except TypeError as error:
                return "type", "plain data is returned", exercise.right(case), str(error)
        kind = "raised" if run.error is not None else "value"
        right = exercise.right(case)
        if isinstance(right, Raises):
            if _raised_as(got, right):
                return None
            return kind, "the answer refuses this", right, in_words(got)
        if exercise.judge is not None:
            return _opinion(exercise.judge(case, got), kind, right, got)
        if isinstance(got, Raised):
            return kind, "the answer returns a value", right, in_words(got)
        if where := difference(got, right, exercise.tolerance):
            inside = where if where.startswith(("[", ".", "element", "dtype", "shape")) else ""
            return kind, inside, right, in_words(got)
        return None

    def ended(self, end: own_process.Ended) -> Evidence:
        """What is known of the case at which the answer ended its process."""
        text = self._input(end.inputs)
        return Evidence(
            "ended", text, "the answer returns", "", end.how, "", end.number + 1, end.inputs
        )

    def _input(self, inputs: tuple[Any, ...]) -> str:
        if self.exercise.show is not None:
            return self.exercise.show(*inputs)
        return ", ".join(in_words(value) for value in inputs)


def _opinion(
    said: str | Wrong | None, kind: str, right: Any, got: Any
) -> tuple[str, str, Any, str] | None:
    if said is None:
        return None
    if isinstance(said, Wrong):
        return kind, said.property, said.expected, in_words(got)
    return kind, said, right, in_words(got)


def _raised_as(got: Any, right: Raises) -> bool:
    """Whether the answer raised what it should: a stub's NotImplementedError is a RuntimeError."""
    return (
        isinstance(got, Raised)
        and isinstance(got.error, right.kind)
        and (not isinstance(got.error, NotImplementedError) or right.kind is NotImplementedError)
        and right.text in str(got.error)
    )


def _changed(given: tuple[Any, ...], before: tuple[Any, ...]) -> str:
    """What the answer changed in its inputs; objects that are not plain data may change."""
    for index, (after, original) in enumerate(zip(given, before, strict=True)):
        try:
            original = as_plain(original)
        except TypeError:
            continue
        try:
            if where := difference(as_plain(after), original):
                return f"{index + 1} was changed: {where}"
        except TypeError as error:
            return f"{index + 1} was changed: it now holds what {error}"
    return ""


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
