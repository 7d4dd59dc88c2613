"""Broadcasting: a shape or a refusal, the bytes of an expression, and the axis that is missing."""

import functools
from typing import Any

import torch

from labkit.course.exercise import (
    Case,
    Evidence,
    Exercise,
    Hint,
    Raises,
    Rng,
    Stage,
)
from labkit.course.exercises._broadcast_steps import fit, loop_strides
from labkit.course.exercises._bytes_moved import output_bytes
from labkit.course.exercises._missing_axis import find_the_missing_axis
from labkit.course.exercises._never_right import BANNED, CONSTANT, FIRST

NOTEBOOK = "1_fundamentals/5_broadcasting"

Shape = tuple[int, ...]


# --- broadcast_shapes


def _shapes(rng: Rng, size: int) -> tuple[list[Shape]]:
    """Shapes thinned from one, and quite often a few sizes spoiled."""
    rank = rng.randint(0, min(5, 1 + size // 2))
    full = [rng.choice((1, 2, 2, 3, 3, 4, 5)) for _ in range(rank)]
    if full and rng.chance(0.12):
        full[rng.randint(0, rank - 1)] = 0
    shapes = []
    for _ in range(rng.choice((1, 2, 2, 2, 3, 3, 4))):
        kept = full[rng.randint(0, rank) :] if rng.chance(0.5) else full
        shapes.append([1 if rng.chance(0.35) else n for n in kept])
    for _ in range(rng.choice((0, 0, 1, 3))):
        if spoiled := rng.choice(shapes):
            spoiled[rng.randint(0, len(spoiled) - 1)] = rng.choice((0, 2, 3, 7))
    return ([tuple(shape) for shape in shapes],)


def _broadcast(shapes: list[Shape]) -> Any:
    """What PyTorch's addition makes of tensors of these shapes, from left to right."""
    tensors = [torch.empty(shape) for shape in shapes]
    try:
        result = functools.reduce(torch.add, tensors).shape
    except RuntimeError as error:
        return Raises(RuntimeError, str(error).splitlines()[0])
    expanded = [tensor.expand(result).stride() for tensor in tensors]
    axes = [
        tuple(axis for axis, n in enumerate(result) if n != 1 and strides[axis] == 0)
        for strides in expanded
    ]
    return tuple(result), axes


def _fewer_shapes(shapes: list[Shape]) -> Any:
    for gone in range(len(shapes)):
        if len(shapes) > 1:
            yield (shapes[:gone] + shapes[gone + 1 :],)
    for axis in range(max(map(len, shapes))):
        yield ([tuple(n for at, n in enumerate(s[::-1]) if at != axis)[::-1] for s in shapes],)


def _right_shape(evidence: Evidence) -> bool:
    """Whether the shape is right, and so the stretched axes are not."""
    got = evidence.value
    return isinstance(got, tuple) and len(got) == 2 and got[0] == evidence.right[0]


def _should_refuse(evidence: Evidence) -> bool:
    return isinstance(evidence.right, Raises)


def _stops_otherwise(evidence: Evidence) -> bool:
    stopped = evidence.got.startswith("raised")
    return stopped and not evidence.got.startswith("raised RuntimeError")


def _works(shapes: list[Shape]) -> bool:
    return not isinstance(_broadcast(shapes), Raises)


def _aligned(case: Case, got: Any, right: Any) -> Any:
    """The shapes of a failing case, aligned from the right."""
    from labkit import show  # drawing is for a failing case alone

    (shapes,) = case.inputs
    return show.broadcast(*shapes, names=[f"shapes[{at}]" for at in range(len(shapes))])


broadcast_shapes = Exercise(
    id="broadcasting.broadcast_shapes",
    stages=(
        Stage("one shape", only=lambda shapes: len(shapes) == 1),
        Stage("two that fit", only=lambda shapes: len(shapes) == 2 and _works(shapes)),
        Stage("two that clash", only=lambda shapes: len(shapes) == 2 and not _works(shapes)),
        Stage("any number"),
    ),
    rules=("arithmetic on tuples only: no torch, no NumPy, no labkit",),
    case=_shapes,
    expected=_broadcast,
    smaller=_fewer_shapes,
    picture=_aligned,
    cases=300,
    minutes=15,
    banned=("torch.broadcast_shapes", "torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "You refuse {input}, and so does torch, in other words. The dimension counts after the "
            "alignment, from the left of the longer shape, and of several clashes the first from "
            "the right is the one that is named.",
            when=lambda e: _should_refuse(e) and e.got.startswith("raised RuntimeError"),
        ),
        Hint(
            "Torch refuses {input} with a RuntimeError. Your function stopped with another error.",
            when=lambda e: _should_refuse(e) and _stops_otherwise(e),
        ),
        Hint(
            "Torch refuses {input}. A 1 stretches. A 0 is a size like any other: it meets 0 or 1.",
            when=lambda e: _should_refuse(e) and not e.got.startswith("raised"),
        ),
        Hint(
            "Your shape is right. Fill every operand with ones in front and compare: an axis is "
            "stretched where the operand has 1 and the result has not. A 1 beside a 1 is not "
            "stretched; a 1 beside a 0 is.",
            when=_right_shape,
        ),
        Hint(
            "There is a 0 in {input}. It is a size like any other: a 1 beside it gives way.",
            when=lambda e: bool(e.inputs) and any(0 in shape for shape in e.inputs[0]),
        ),
        "Write the shapes of {input} under each other, aligned at the right, and fill the gaps "
        "with ones. Only then compare.",
        "Begin with the shape () and merge one shape after the other into it.",
    ),
    must_fail=(
        "aligns from the left",
        "accepts 0 against 3",
        "names the wrong dimension in the error",
        "raises another error than torch",
        "stride 0 also where sizes match",
        "only two shapes",
        BANNED,
        FIRST,
        CONSTANT,
    ),
)


EXERCISES = (fit, loop_strides, broadcast_shapes, output_bytes, find_the_missing_axis)
