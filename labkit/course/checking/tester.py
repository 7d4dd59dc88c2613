"""Asks one answer its cases one by one, and looks for the smallest that it gets wrong."""

import contextlib
import copy
import dis
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labkit.course.checking import own_process
from labkit.course.checking.guard import Guard, Run
from labkit.course.checking.verdicts import NotAttempted
from labkit.course.compare import TENSORS, as_plain, difference, in_words, only_differing
from labkit.course.exercise import NOTHING, Case, Evidence, Exercise, Raised, Raises, Wrong

SEARCHED = 60
"""More cases tried, no larger than the failing one, to find a smaller one."""
SHRUNK = 200
"""Candidates of `smaller` tried, at most."""
SHOWN = 4
"""Failing cases kept of one attempt."""
TOTAL_SECONDS = 120.0
"""Of CPU, for all cases together."""
Weight = tuple[int, str]
"""Of a failing case: the length of its text, and the text: `shrink` goes on at the same length."""
_TORCH = str(Path(torch.__file__).parent)
_COURSE = Path(__file__).parents[1]


class Tester:
    """Asks one answer the cases of one seed."""

    def __init__(self, exercise: Exercise, answer: Any, seed: int) -> None:
        self.exercise, self.answer, self.seed = exercise, answer, seed
        self.guard = Guard(exercise)
        self.note: own_process.Note = lambda number, inputs: None
        self.cpu, self.asked = 0.0, 0

    def found(self, search: bool, inputs: Sequence[Any]) -> list[Evidence]:
        """The failing cases, smallest first; none when the answer is right.

        search  False stops at the first failing case instead of looking for smaller ones
        inputs  of calls that are asked instead of cases made from the seed

        Raises   NotAttempted   before any failing case the answer raises NotImplementedError
        """
        with self.guard.sealing():
            if inputs:
                met = [self.ask_inputs(each, 1 + at) for at, each in enumerate(inputs)]
                return [one[1] for one in met if one is not None]
            failures = [evidence for _, evidence in self._failures(search)]
        distinct = {evidence.input: evidence for evidence in reversed(failures)}
        return [*distinct.values()][::-1][:SHOWN]

    def _failures(self, search: bool) -> list[tuple[Weight, Evidence]]:
        failures: list[tuple[Weight, Evidence]] = []
        smallest = self.exercise.sizes
        for number, size in schedule(self.exercise):
            try:
                found = self.ask(number, size)
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
            failures += self.search(smallest)
            failures.sort(key=lambda pair: pair[0][0])
            failures[0] = self.shrink(failures[0])
        return failures

    def ask(self, number: int, size: int) -> tuple[Weight, Evidence] | None:
        """(weight, evidence) when the answer fails this case.

        The case is made again after the answer has run: until then nothing holds what is right.
        """
        given = _handed(self.exercise.make(self.seed, number, size).inputs, {})
        self.note(number, given)
        run = self.guard.run(self.answer, given)
        return self._judged(number, self.exercise.make(self.seed, number, size), given, run)

    def search(self, largest: int) -> list[tuple[Weight, Evidence]]:
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

    def shrink(self, failure: tuple[Weight, Evidence]) -> tuple[Weight, Evidence]:
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

    def ask_inputs(self, inputs: tuple[Any, ...], number: int) -> tuple[Weight, Evidence] | None:
        """(weight, evidence) when the answer fails on these inputs."""
        given = copy.deepcopy(inputs)
        self.note(number - 1, given)
        run = self.guard.run(self.answer, given)
        with contextlib.suppress(NotAttempted):
            return self._judged(number - 1, Case(inputs), given, run)
        return None

    def _judged(
        self, number: int, case: Case, given: tuple[Any, ...], run: Run
    ) -> tuple[Weight, Evidence] | None:
        verdict = self._verdict(case, given, run)
        unfinished = _still_to_be_written(run.error)
        if unfinished and (number == 0 or (verdict and verdict[0] == "raised")):
            raise NotAttempted(self.exercise)
        if verdict is None:
            return None
        kind, what, expected, got = verdict
        shown = expected
        if kind == "value" and self.exercise.judge is None:
            value = as_plain(run.value, self.exercise.returns)
            value, shown = only_differing(value, expected, self.exercise.tolerance)
            got = in_words(value)
        text = self._input(case.inputs)
        evidence = Evidence(
            kind=kind,
            input=text,
            property=what,
            expected="" if expected is NOTHING else in_words(shown),
            got=got,
            printed=run.printed,
            number=number + 1,
            inputs=case.inputs,
            value=run.value,
            right=None if expected is NOTHING else expected,
        )
        return (len(text), text), evidence

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


def schedule(exercise: Exercise) -> Iterator[tuple[int, int]]:
    """(number, size) of every case, small ones first."""
    for number in range(exercise.cases):
        yield number, number * (exercise.sizes + 1) // exercise.cases


def _opinion(
    said: str | Wrong | None, kind: str, right: Any, got: Any
) -> tuple[str, str, Any, str] | None:
    if said is None:
        return None
    if isinstance(said, Wrong):
        return kind, said.property, said.expected, in_words(got)
    return kind, said, right, in_words(got)


def _still_to_be_written(error: BaseException | None) -> bool:
    """Whether a stub's `raise NotImplementedError` ended the answer, and not one of a library.

    torch's own are made in C++, where no `raise` stands, or in its Python files; labkit's own are
    raised in its files outside the course.
    """
    if not isinstance(error, NotImplementedError) or error.__traceback__ is None:
        return False
    innermost = error.__traceback__
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    code = innermost.tb_frame.f_code
    instruction = dis.opname[code.co_code[innermost.tb_lasti]]
    return instruction == "RAISE_VARARGS" and not _of_a_library(Path(code.co_filename))


def _of_a_library(file: Path) -> bool:
    return file.is_relative_to(_TORCH) or (
        file.is_relative_to(_COURSE.parent) and not file.is_relative_to(_COURSE)
    )


def _raised_as(got: Any, right: Raises) -> bool:
    """Whether the answer raised what it should: a stub's NotImplementedError is a RuntimeError."""
    return (
        isinstance(got, Raised)
        and isinstance(got.error, right.kind)
        and (not isinstance(got.error, NotImplementedError) or right.kind is NotImplementedError)
        and right.text in str(got.error)
    )


def _handed(value: Any, memo: dict[int, Any]) -> Any:
    """A copy of all containers, tensors and arrays: who writes there changes no other case.

    Other objects are handed out as they are: they may know each other, or be known by identity.

    memo  id -> copy of what was copied already; two names of one tensor stay two names
    """
    if id(value) in memo:
        return memo[id(value)]
    made = value
    if type(value) in (list, tuple, set, frozenset):
        made = type(value)(_handed(one, memo) for one in value)
    elif type(value) is dict:
        made = {_handed(key, memo): _handed(one, memo) for key, one in value.items()}
    elif type(value) in (*TENSORS, np.ndarray):
        with contextlib.suppress(RuntimeError):  # torch copies no tensor that autograd made
            made = copy.deepcopy(value, memo)
    memo[id(value)] = made
    return made


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
