"""Exercises whose answer is a regression test: red for what was wrong, green for what is right."""

from collections.abc import Callable, Collection
from typing import Any

from labkit.course.exercise import Case, Exercise, Rng, Stage, handed_out


def each_of(sides: Collection[str]) -> Callable[[Rng, int], Case]:
    """The sides in turn: `size` grows from 0."""
    listed = list(sides)
    return lambda rng, size: Case((listed[size % len(listed)],))


@handed_out
def red_or_green(
    test: Callable[..., Any], *given: Any, red: tuple[type[Exception], ...] = (AssertionError,)
) -> str:
    """How the test ends; an error that is not one of `red` is the answer's own fault."""
    try:
        test(*given)
    except NotImplementedError:  # the untouched stub; it is a RuntimeError as well
        raise
    except red:
        return "red"
    return "green"


def regression_test(
    name: str,
    *,
    drive: Callable[[Any, str], str],
    green: tuple[str, Collection[str]],
    red: tuple[str, Collection[str]],
    half: Collection[str],
    **rest: Any,
) -> Exercise:
    """The exercise of this id: its answer meets every side twice.

    drive        runs the answer on the side of this name
    green, red   the stage's title and the sides: right ones, and the one of the user's report
    half         sides that are repaired in part, for which it must be red
    """
    every = [*green[1], *red[1], *half]
    right = frozenset(green[1])
    return Exercise(
        id=name,
        case=each_of(every),
        expected=lambda side: "green" if side in right else "red",
        drive=drive,
        cases=2 * len(every),
        sizes=len(every) - 1,
        stages=(
            *(Stage(name, case=each_of(sides), cases=len(sides)) for name, sides in (red, green)),
            Stage("half repairs"),
        ),
        **rest,
    )
