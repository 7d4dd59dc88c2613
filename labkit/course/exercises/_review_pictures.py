"""What a reviewer sees: the row that went red, a test beside the fault it missed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from labkit.course.exercise import Case, handed_out
from labkit.course.exercises._patches import Patch, colour
from labkit.course.review import planted
from labkit.course.review.reviewer import red_row
from labkit.course.review.rows import Rows

MOST = 6
"""Calls that are shown."""
Asked = tuple[str, str, str]


def red(piece: str) -> Callable[[Case, Any, Any], Any]:
    """A picture: the reviewer's row about this piece, gone red."""
    return lambda case, got, right: red_row(piece, f"PyTorch says {right}, yours {got}")


# --- samples beside the defects


@dataclass(frozen=True)
class Found:
    """What the samples made of one copy; of its whole family, the sample that shows each defect."""

    said: str
    shows: dict[str, int | None] = field(repr=False)


@handed_out
def tried_on(samples: Any, defect: str) -> Found:
    """The samples, tried on the copy with this defect; on its family, where they missed it."""
    if defect == "none":
        return Found(planted.finds(samples, torch.xlogy, torch.xlogy), {})
    one = planted.DEFECTS[defect]
    said = planted.finds(samples, one.planted_in(torch.xlogy), torch.xlogy)
    family = [each for each in planted.DEFECTS.values() if each.family == one.family]
    shows = {
        each.name: planted.shown_by(samples, each.planted_in(torch.xlogy), torch.xlogy)
        for each in family
        if said == "nothing found"
    }
    return Found(said, shows)


def missed(case: Case, got: Any, right: Any) -> Any:
    """The defects of a family, each with the sample that shows it, or none."""
    if not isinstance(got, Found) or not got.shows:
        return None
    rows = [
        ("wrong", name, "no sample") if number is None else ("done", name, f"sample {number}")
        for name, number in got.shows.items()
    ]
    return Rows("your samples", ("the copy is wrong where", "shown by"), rows)


# --- a test beside the patch


@dataclass(frozen=True)
class Reviewed:
    """What came of a review: the line, the colours of the test, and what the test asked.

    asked  for each call: the input, what the patch made of it, what a repaired function makes
    """

    line: str
    on_the_patch: str
    on_two_repairs: tuple[str, ...]
    asked: tuple[Asked, ...] = field(repr=False)


@handed_out
def reviewed(said: Any, patch: Patch) -> Reviewed:
    """The review of one patch, tried on it and on its repairs."""
    line, test = said
    repairs = tuple(colour(test, each) for each in patch.repaired)
    return Reviewed(line.strip(), colour(test, patch.function), repairs, _asked(test, patch))


@handed_out
def _asked(test: Any, patch: Patch) -> tuple[Asked, ...]:
    calls: list[Asked] = []

    def op(x: Any) -> Any:
        before = str(x.tolist())
        given = f"{before}, strides {tuple(x.stride())}, {x.dtype.name}"
        repaired = _said(patch.repaired[0], x.clone())
        result = patch.function(x)
        calls.append((given, _described(result, x, before), repaired))
        return result

    colour(test, op)
    return tuple(calls[:MOST])


@handed_out
def _said(function: Any, x: Any) -> str:
    before = str(x.tolist())
    return _described(function(x), x, before)


@handed_out
def _described(result: Any, x: Any, before: str) -> str:
    """The result and its dtype; what became of x, where that is another."""
    after = str(x.tolist())
    became = "" if after == before else f"; x is {after} now"
    return f"{result.tolist()}, {result.dtype.name}{became}"


def beside_the_fault(case: Case, got: Any, right: Any) -> Any:
    """Each call of the reader's test: what the patch says there, and what a repaired one says."""
    if not isinstance(got, Reviewed) or not got.asked:
        return None
    rows = [
        ("wrong", given, patch, good, "no")
        if patch == good
        else ("done", given, patch, good, "yes")
        for given, patch, good in got.asked
    ]
    on_repairs = " and ".join(got.on_two_repairs)
    caption = f"your test is {got.on_the_patch} on the patch, {on_repairs} on two repaired ones"
    return Rows(caption, ("it asks about", "the patch says", "a repaired one", "differ?"), rows)
