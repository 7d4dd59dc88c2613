"""Which planned wrong answer is caught by a run of the machine, and which only by its check.

    python -m tests.course.your_machine.wrong_answers           # writes the table anew
    python -m tests.course.your_machine.wrong_answers strides   # prints the rows of one module

Every wrong answer of the exercises that have a seat is forced into it, past the check, and the
network is trained for two steps. A call that a training step never makes says nothing about an
answer: there the check is what holds it back.
"""

import importlib
import sys
from pathlib import Path

from labkit.course import exercises
from labkit.course.checks import failing_cases
from labkit.course.exercises._never_right import TOO_SLOW
from labkit.course.your_machine import network, seating
from labkit.course.your_machine.seats import SEATS
from labkit.course.your_machine.training import caching, done_step
from tests.course.answers import Answers

TABLE = Path(__file__).with_name("wrong_answers.md")
HEAD = """# Wrong answers in their seats

Written by `python -m tests.course.your_machine.wrong_answers`. "The run" is two training steps with
the wrong answer forced into its seat: how it was taken out. "The check" is asked about those that a
training step cannot tell from a right one.

| exercise | wrong answer | the run | the check |
|---|---|---|---|
"""


def wrong_answers(names=None):
    """(exercise, why it is wrong, makes the answer), of these exercises or of all with a seat."""
    for seat in SEATS:
        if names is not None and seat.exercise not in names:
            continue
        module = importlib.import_module(f"tests.course.test_{seat.exercise.partition('.')[0]}")
        for answers in [one for one in vars(module).values() if isinstance(one, Answers)]:
            if seat.name in answers.wrongs:
                every = [*answers.wrongs[seat.name], *answers.general(seat.name)]
                yield from ((seat.exercise, why, make) for why, make in every)


def in_the_run(name, answer):
    """How the run took the answer out: "differs", "raised" or "stopped"; "" when it did not."""
    with caching():  # gives the memory back when nobody holds the network any more
        return _taken_out(name, answer)


def _taken_out(name, answer):
    with seating.seated(SEATS, {name: answer}) as run:
        step = network.labkits(2)
        for number in range(2):
            done_step(step, number)
            if run.troubles:
                return run.troubles[0].kind
    return ""


def in_the_check(name, answer):
    """The check's kind of failure; "" when the answer passes."""
    failures = failing_cases(exercises.find(name), answer, 11, search=False)
    return failures[0].kind if failures else ""


def rows(found):
    """(exercise, why, how the run took it out, how the check did) of these wrong answers."""
    for name, why, make in found:
        ran = in_the_run(name, make())
        checked = "" if ran else in_the_check(name, make())
        if why == TOO_SLOW and checked in ("time", "raised"):
            checked = "time or depth"  # the faster the machine, the deeper it gets in its time
        yield name, why, ran, checked


def main(modules):
    """Write the whole table, or print the rows of these modules."""
    names = {seat.exercise for seat in SEATS if seat.exercise.partition(".")[0] in modules}
    lines = []
    for name, *told in rows(wrong_answers(names if modules else None)):
        lines.append(f"| `{name}` | {' | '.join(told)} |")
        print(lines[-1], flush=True)
    if not modules:
        TABLE.write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
