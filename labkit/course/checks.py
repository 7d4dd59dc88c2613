"""`check` asks an answer hundreds of fresh questions, and shows the smallest one it gets wrong."""

import secrets
import time
from collections.abc import Iterator
from typing import Any

from labkit.course.compare import as_plain, difference, in_words
from labkit.course.digest import digest
from labkit.course.exercise import NOTHING, Case, Evidence, Exercise, Raised, Raises, Wrong
from labkit.course.exercises import find
from labkit.course.guard import Guard, Run, is_running, trip
from labkit.course.progress_file import Attempt, record_attempt, record_give_up, record_pass

SEARCHED = 60
"""More cases tried, no larger than the failing one, to find a smaller one."""
SHRUNK = 200
"""Candidates of `smaller` tried, at most."""
SHOWN = 4
"""Failing cases kept of one attempt."""
TOTAL_SECONDS = 60.0


class CheckFailed(AssertionError):
    """An answer is wrong: the message holds the smallest failing case found."""

    def __init__(self, exercise: Exercise, seed: int, failures: list[Evidence], hint: str) -> None:
        self.exercise, self.seed, self.failures, self.hint = exercise, seed, failures, hint
        self.evidence = failures[0]
        super().__init__(self._message())

    def _message(self) -> str:
        rows = [f"  {name:<12}{text}" for name, text in self.evidence.rows().items()]
        lines = [
            f"{self.exercise.id}: not yet. The smallest failing case found, of "
            f"{self.exercise.cases} (seed {self.seed}):",
            *rows,
        ]
        if self.hint:
            lines.append(f"  {'hint':<12}{self.hint}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the evidence, not the checker's own frames."""
        return [f"{type(self).__name__}: {self}"]


class NotAttempted(CheckFailed):
    """The stub is still there; no attempt is counted."""

    def __init__(self, exercise: Exercise) -> None:
        AssertionError.__init__(
            self, f"{exercise.id}: your turn. Write the stub above, then run this cell again."
        )


class Passed:
    """What `check` returns for a right answer."""

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise_id, self.cases, self.seed = exercise.id, exercise.cases, seed

    def __repr__(self) -> str:
        return f"passed: {self.exercise_id}, {self.cases} cases, seed {self.seed}"

    def _repr_html_(self) -> str:
        return (
            '<div style="border-left:4px solid #009E73;padding:4px 10px">'
            f"<b>passed</b> {self.exercise_id}: {self.cases} cases, seed {self.seed}</div>"
        )


def check(exercise_id: str, answer: Any, *, seed: int | None = None, record: bool = True) -> Passed:
    """Return when the answer is right on every case; the seed is fresh unless given.

    record  False leaves the progress file alone (for demonstrations)

    Raises   CheckFailed    the smallest failing case found, with the next hint it earned
             NotAttempted   the stub still raises NotImplementedError
    """
    if is_running():
        trip("labkit.course.check")  # an answer that asks the checker is no answer
    exercise = find(exercise_id)
    if not callable(answer) and exercise.drive is None:
        raise TypeError(f"check({exercise_id!r}, ...) needs a function, got {in_words(answer)}")
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    failures = failing_cases(exercise, answer, seed)
    if not failures:
        if record:
            record_pass(exercise.id)
        return Passed(exercise, seed)
    attempt = Attempt(seed, [evidence.rows() for evidence in failures])
    hint = record_attempt(exercise, digest(answer), attempt, failures[0]) if record else ""
    failed = CheckFailed(exercise, seed, failures, hint)
    if record:
        _show_card(exercise.id)
    raise failed


def give_up(exercise_id: str) -> Any:
    """Show the exercise's card with its solution unlocked."""
    from labkit.course.cards import card

    record_give_up(find(exercise_id).id)
    return card(exercise_id)


def failing_cases(
    exercise: Exercise, answer: Any, seed: int, search: bool = True
) -> list[Evidence]:
    """The failing cases found for a seed, smallest first; none when the answer is right.

    search  False stops at the first failing case instead of looking for smaller ones

    Raises   NotAttempted   the first thing the answer does is to raise NotImplementedError
    """
    tester = Tester(exercise, answer, seed)
    started = time.monotonic()
    failures: list[tuple[int, Evidence]] = []
    smallest = exercise.sizes
    for number, size in _schedule(exercise):
        if (found := tester.ask(number, size)) is not None:
            smallest = size if not failures else smallest
            failures.append(found)
            if not search or len(failures) == SHOWN or found[1].kind in ("time", "banned"):
                break
        if time.monotonic() - started > TOTAL_SECONDS:
            failures.append(tester.too_slow(number))
            break
    if search and failures and failures[0][1].kind not in ("time", "banned"):
        failures += tester.search(smallest)
        failures.sort(key=lambda pair: pair[0])
        failures[0] = tester.shrink(failures[0])
    return _distinct([evidence for _, evidence in failures])[:SHOWN]


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

    def ask(self, number: int, size: int) -> tuple[int, Evidence] | None:
        """(weight, evidence) when the answer fails this case.

        The case is made again after the answer has run: until then nothing holds what is right.
        """
        given = self.exercise.make(self.seed, number, size).inputs
        run = self.guard.run(self.answer, given)
        return self._judged(number, self.exercise.make(self.seed, number, size), given, run)

    def search(self, largest: int) -> list[tuple[int, Evidence]]:
        """Failing cases among more small ones; stops when one takes too long."""
        found = []
        for extra in range(SEARCHED):
            number = self.exercise.cases + extra
            failure = self.ask(number, extra * (largest + 1) // SEARCHED)
            if failure:
                found.append(failure)
                if failure[1].kind == "time" or len(found) == SHOWN:
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
                found = self._ask_inputs(tuple(inputs), failure[1].number)
                if found is not None and found[0] < failure[0]:
                    failure, improved = found, True
                    break
                if tries >= SHRUNK:
                    break
        return failure

    def _ask_inputs(self, inputs: tuple[Any, ...], number: int) -> tuple[int, Evidence] | None:
        import copy

        given = copy.deepcopy(inputs)
        return self._judged(number - 1, Case(inputs), given, self.guard.run(self.answer, given))

    def too_slow(self, number: int) -> tuple[int, Evidence]:
        """Evidence for an answer that is under the limit on each case and far over it in all."""
        done = f"{number + 1} of {self.exercise.cases} cases in {TOTAL_SECONDS:g} s"
        promise = f"all {self.exercise.cases} cases in {TOTAL_SECONDS:g} s"
        return 0, Evidence("time", "(all of them)", promise, "", done, "", number + 1)

    def _judged(
        self, number: int, case: Case, given: tuple[Any, ...], run: Run
    ) -> tuple[int, Evidence] | None:
        if isinstance(run.error, NotImplementedError) and number == 0:
            raise NotAttempted(self.exercise)
        verdict = self._verdict(case, given, run)
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
            return "banned", "the answer works this out itself", NOTHING, f"called {run.banned[0]}"
        if run.timed_out:
            limit = f"an answer within {exercise.seconds:g} s"
            return "time", limit, NOTHING, "was stopped, still running"
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


def _show_card(exercise_id: str) -> None:
    """Display the exercise's card where there is something to display it."""
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import display
    except ImportError:
        return
    if get_ipython() is not None:
        from labkit.course.cards import card

        display(card(exercise_id))  # type: ignore[no-untyped-call]
