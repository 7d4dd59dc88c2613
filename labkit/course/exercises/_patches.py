"""Five small patches to labkit, as a reviewer gets them; and each of them repaired, twice."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import labkit as lab
from labkit.course.exercise import handed_out

Function = Callable[[Any], Any]


@handed_out
def row_sums(x: Any) -> Any:
    """The sum of every row of a matrix."""
    total = x[:, 0]
    for column in range(1, x.shape[1]):
        total += x[:, column]
    return total


@handed_out
def largest(x: Any) -> Any:
    """The largest number of a row, as `max` says it."""
    best = x[0].clone()
    for number in x[1:]:
        if number > best:
            best = number.clone()
    return best


@handed_out
def diagonal(x: Any) -> Any:
    """The numbers from the upper left corner of a matrix down, as a view."""
    count = min(x.shape)
    step = x.shape[1] + 1
    return x.as_strided((count,), (step,))


@handed_out
def halves(x: Any) -> Any:
    """Half of every number; whole numbers give float32."""
    made = lab.empty(x.shape)
    made.copy_(x / 2)
    return made


@handed_out
def backwards(x: Any) -> Any:
    """The rows of x, the last one first, in new memory."""
    places = range(x.shape[0])
    order = [x.shape[0] - 1 - place for place in places]
    return x[order]


@handed_out
def _largest(x: Any) -> Any:
    best = x[0].clone()
    for number in x[1:]:
        if number > best or bool(number != number):
            best = number.clone()
    return best


@handed_out
def _diagonal(x: Any) -> Any:
    count = min(x.shape)
    return x.as_strided((count,), (x.stride(0) + x.stride(1),))


@handed_out
def _halves(x: Any) -> Any:
    half = x / 2
    made = lab.empty(x.shape, dtype=half.dtype)
    made.copy_(half)
    return made


def text_of(function: Function) -> str:
    """Its source as an author would send it: without our decorator and types."""
    lines = inspect.getsource(function).removeprefix("@handed_out\n")
    return lines.replace(": Any", "").replace(" -> Any", "")


@dataclass(frozen=True)
class Patch:
    """One function that somebody wants to bring in.

    wrong     the lines that a repair may change, as they stand; none: there is nothing to repair
    repaired  two functions that do what the docstring says
    """

    function: Function
    wrong: tuple[str, ...]
    repaired: tuple[Function, ...]


PATCHES = {
    "row_sums": Patch(
        row_sums,
        ("total = x[:, 0]", "total += x[:, column]"),
        (lambda x: x.sum(1), lambda x: x.t().sum(0)),
    ),
    "largest": Patch(largest, ("if number > best:",), (_largest, lambda x: x.max())),
    "diagonal": Patch(
        diagonal,
        ("step = x.shape[1] + 1", "return x.as_strided((count,), (step,))"),
        (_diagonal, lambda x: x.diagonal()),
    ),
    "halves": Patch(halves, ("made = lab.empty(x.shape)",), (_halves, lambda x: x / 2)),
    "backwards": Patch(backwards, (), (backwards, lambda x: x.flip(0))),
}


@handed_out
def colour(test: Callable[[Any], Any], function: Function) -> str:
    """Return "red" if the test raises for this function, "green" if it does not."""
    try:
        test(lambda x: function(x))
    except NotImplementedError:  # the untouched stub
        raise
    except Exception:
        return "red"
    return "green"
