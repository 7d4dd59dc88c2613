"""For the tests of exercises: right answers pass and wrong ones fail, whatever the seed.

    from tests.course.answers import Answers      # import-mode importlib: the root is on the path

    answers = Answers("tensors")

    @answers.right("promote")
    def promote(operands): ...

    @answers.wrong("promote", "promotes by item size")    # a name of the exercise's must_fail
    def promote_by_item_size(operands): ...

    test_answers = answers.tests()

`tests()` also tries the cheats that no exercise may fall for, and fails when a name of must_fail
has no wrong answer.
"""

import contextlib
import gc
import inspect
import sys
from dataclasses import replace

import pytest

from labkit.course import exercises
from labkit.course.checking.guard import Guard
from labkit.course.checks import failing_cases, outcomes
from labkit.course.exercise import Raises

SEEDS = (11, 2_024, 987_654)
"""The first is asked in every run, the others by `lab.py test --all` too."""
FIRST = "remembers the answer of the first random case and returns it for all later cases"
READS = "reads the expected value out of the checker (module globals, frames or closure)"
CATCHES = "catches every exception and returns a default"
CONSTANT = "a constant"
USE_UP_THEIR_TIME = (
    "is right on small cases and exceeds the size limit",  # on the largest, which no seed shrinks
    "deadlocks on an empty loader",
)
"""How the names of answers begin that end with their time alone. `lab.py test --all` gives them all
of it, other runs a tenth."""


class Answers:
    """The answers to the exercises of one module."""

    def __init__(self, module):
        self.module = module
        self.exercises = {exercise.name: exercise for exercise in exercises.in_module(module)}
        self.rights = {name: [] for name in self.exercises}
        self.wrongs = {name: [] for name in self.exercises}

    def right(self, name):
        """Mark an answer that must pass."""
        return lambda answer: self.rights[name].append(answer) or answer

    def wrong(self, name, why, make=False):
        """Mark an answer that must fail, under its name in must_fail.

        make  True when the decorated function makes the answer: for answers that keep state
        """
        if why not in self.exercises[name].must_fail:
            raise ValueError(f"{name} has no must_fail {why!r}; {self.exercises[name].must_fail}")

        def keep(answer):
            self.wrongs[name].append((why, answer if make else lambda: answer))
            return answer

        return keep

    def general(self, name):
        """The cheats made from a right answer; they stand in for their names in must_fail."""
        right, exercise = self.rights[name][0], self.exercises[name]
        cheats = [
            (FIRST, remembers),
            (READS, lambda function: reads_module(exercise)),
            (READS, lambda function: reads_frames),
            (READS, lambda function: reads_garbage(exercise)),
        ]
        every = [
            (CONSTANT, lambda: constant(exercise)),
            *((why, lambda cheat=cheat: instead(right, cheat)) for why, cheat in cheats),
        ]
        return [(why, make) for why, make in every if why == CONSTANT or make() is not None]

    def cases(self):
        """(exercise, why it is wrong or "" when it is right, makes the answer, seed)."""
        for name, exercise in self.exercises.items():
            for number, right in enumerate(self.rights[name]):
                right_one = exercise, "", lambda a=right: a
                yield from at_seeds(SEEDS, right_one, f"{name}-right{number}")
            for number, (why, make) in enumerate([*self.wrongs[name], *self.general(name)]):
                shown = f"{name}-wrong{number}-{why[:40]}"
                if why.startswith(USE_UP_THEIR_TIME):
                    hurried = replace(exercise, seconds=exercise.seconds / 10)
                    yield from at_seeds(SEEDS[:1], (hurried, why, make), shown)
                    yield from at_seeds(SEEDS[1:2], (exercise, why, make), shown)
                else:
                    yield from at_seeds(SEEDS, (exercise, why, make), shown)

    def missing(self):
        """The names in must_fail that no wrong answer stands for."""
        left = {}
        for name, exercise in self.exercises.items():
            covered = {why for why, _ in [*self.wrongs[name], *self.general(name)]}
            if uncovered := [why for why in exercise.must_fail if why not in covered]:
                left[name] = uncovered
        return left

    def tests(self):
        """The test function: parametrized over every answer and seed."""
        without = [name for name, rights in self.rights.items() if not rights]
        assert not without, f"no right answer for {without}"
        assert not self.missing(), f"no wrong answer for {self.missing()}"

        @pytest.mark.parametrize(("exercise", "why", "make", "seed"), list(self.cases()))
        def test_answers(exercise, why, make, seed):
            out_of_reach.of(exercise)
            if why:
                assert failing_cases(exercise, make(), seed, search=False), (
                    f"passes though it {why}"
                )
                return
            for stage in outcomes(exercise, make(), seed):  # the last one asks every case there is
                assert stage.state == "done", (stage.name, *(f.rows() for f in stage.failures))

        return test_answers


class OutOfReach:
    """What an exercise forbids is put away once for all its answers, one test after the other.

    A library has thousands of functions and modules: that took a fifth of these tests' time.
    """

    def __init__(self):
        self.id, self.sealing = "", contextlib.ExitStack()

    def of(self, exercise):
        """What this exercise forbids is out of reach of answers until `end`."""
        if self.id != exercise.id:
            self.end()
            self.id = exercise.id
            self.sealing.enter_context(Guard(exercise).sealing())

    def end(self):
        """Everything is as it was; called when the next test asks no answer of this exercise."""
        self.id = ""
        self.sealing.close()


out_of_reach = OutOfReach()


def at_seeds(seeds, case, name):
    """The parameters of one case at each of these seeds."""
    for seed in seeds:
        marks = [] if seed == SEEDS[0] else [pytest.mark.full]
        yield pytest.param(*case, seed, id=f"{name}-{seed}", marks=marks)


def smallest(exercise, answer, seed=7):
    """The failing case of a wrong answer that a learner is shown."""
    return next(one for one in outcomes(exercise, answer, seed) if one.failures).failures[0]


def first_hint(exercise, answer, seed=7):
    """The text of the first hint that a failing answer earns."""
    evidence = smallest(exercise, answer, seed)
    hints = [exercise.hint(index) for index in range(len(exercise.hints))]
    return next(hint.text for hint in hints if hint.fits(evidence))


def constant(exercise):
    """Always what is right for the largest case of another seed."""
    case = exercise.make(5, exercise.cases - 1, exercise.sizes)
    value = exercise.right(case)

    def answer(*inputs):
        if isinstance(value, Raises):
            raise value.kind(value.text)
        return None if exercise.judge is not None else value

    return answer


def instead(right, cheat):
    """The answer with a cheat in place of each function; None where none of them is asked anything.

    right  a function, a class, or a tuple of them; a function without inputs gives a text
    """
    if isinstance(right, tuple):
        found = [instead(one, cheat) for one in right]
        return (
            tuple(new or old for new, old in zip(found, right, strict=True)) if any(found) else None
        )
    if isinstance(right, type):
        public = {name: one for name, one in vars(right).items() if not name.startswith("_")}
        found = {name: cheat(one) for name, one in public.items() if takes_inputs(one)}
        return type(right)(right.__name__, (right,), found) if found else None
    return cheat(right) if takes_inputs(right) else None


def takes_inputs(value):
    """Whether it is a function that is asked something."""
    return inspect.isfunction(value) and bool(inspect.signature(value).parameters)


def remembers(right):
    """What the function made of its first inputs, whatever it is asked; items as they came."""
    kept = []

    def answer(*inputs, **named):
        if not kept:
            made = right(*inputs, **named)
            kept.append(list(made) if inspect.isgenerator(made) else made)
        return iter(kept[0]) if inspect.isgeneratorfunction(right) else kept[0]

    return answer


def catches(right, default=None):
    """Right where the right answer returns, a default where it raises."""

    def answer(*inputs):
        try:
            return right(*inputs)
        except Exception:
            return default

    return answer


def reads_module(exercise):
    """Asks the checker's module, and hides that it was refused."""

    def answer(*inputs):
        try:
            module = sys.modules[exercise.case.__module__]
            found = next(e for e in module.EXERCISES if e.id == exercise.id)
            return found.expected(*inputs)
        except BaseException:
            return None

    return answer


def reads_frames(*inputs):
    """Looks for the truth in the frames below."""
    frame = sys._getframe(1)
    while frame is not None:
        for value in list(frame.f_locals.values()):
            for name in ("truth", "right", "expected"):
                found = getattr(value, name, None)
                if found is not None and not callable(found):
                    return found
        frame = frame.f_back
    return None


def reads_garbage(exercise):
    """Looks for the case, and what is right for it, among all living objects."""

    def answer(*inputs):
        for value in gc.get_objects():
            if type(value).__name__ == "Case" and getattr(value, "inputs", None) == inputs:
                return value.truth
        return None

    return answer
