"""The small steps of the broadcasting chapter: what two sizes make, and strides in the loop."""

from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng
from labkit.course.exercises._limits import LIBRARIES

Ints = tuple[int, ...]
PLAIN = ("arithmetic only: no torch, no NumPy, no labkit",)


def _two_sizes(rng: Rng, size: int) -> tuple[int, int]:
    return rng.choice((0, 1, 1, 2, 3, 7)), rng.choice((0, 1, 1, 2, 3, 7))


def _made(m: int, n: int) -> int | None:
    try:
        return int((torch.empty(m, device="meta") + torch.empty(n, device="meta")).shape[0])
    except RuntimeError:
        return None


fit = Exercise(
    id="broadcasting.fit",
    case=_two_sizes,
    expected=_made,
    rung="warm-up",
    rules=PLAIN,
    banned=LIBRARIES,
    cases=80,
    minutes=4,
    hints=(
        Hint(
            "A 1 gives way to anything, to a 0 as well: {input} makes {expected}.",
            when=lambda evidence: 0 in evidence.inputs and evidence.right is not None,
        ),
        Hint("{input} do not fit: the answer is None.", when=lambda e: e.right is None),
        "Three questions in a row: are they equal? Is one of them 1, and which? Else None.",
    ),
    must_fail=(
        "takes the larger of the two",
        "refuses a 1 beside another size",
        "raises where sizes do not fit",
    ),
)


def _a_stretch(rng: Rng, size: int) -> tuple[Ints, Ints, Ints]:
    """(sizes, strides, shape) of a tensor and a shape it broadcasts to."""
    rank = rng.randint(0, min(4, 1 + size // 2))
    shape = tuple(rng.randint(1, 5) for _ in range(rank))
    own = tuple(1 if rng.chance(0.35) else n for n in shape[rng.randint(0, rank) :])
    tensor = torch.empty(own, device="meta")
    if rng.chance(0.4) and tensor.dim() > 1:
        tensor = torch.empty(own[::-1], device="meta").permute(*range(len(own))[::-1])
    return own, tensor.stride(), shape


def _expanded(sizes: Ints, strides: Ints, shape: Ints) -> Ints:
    """The strides of expand, 0 for every axis along which nobody steps."""
    stretched = torch.empty_strided(sizes, strides, device="meta").expand(shape).stride()
    return tuple(0 if n == 1 else stride for n, stride in zip(shape, stretched, strict=True))


def _walked(answer: Any, sizes: Ints, strides: Ints, shape: Ints) -> Any:
    """The answer's strides, 0 where nobody steps; as they are where their number is wrong."""
    got = answer(sizes, strides, shape)
    if not isinstance(got, tuple) or len(got) != len(shape):
        return got
    return tuple(0 if n == 1 else stride for n, stride in zip(shape, got, strict=True))


def _walks_along_a_missing_axis(evidence: Evidence) -> bool:
    sizes, _, shape = evidence.inputs
    missing = len(shape) - len(sizes)
    return any(
        got and not right
        for got, right in zip(evidence.value[:missing], evidence.right, strict=False)
    )


loop_strides = Exercise(
    id="broadcasting.loop_strides",
    case=_a_stretch,
    expected=_expanded,
    drive=_walked,
    rung="warm-up",
    rules=PLAIN,
    banned=LIBRARIES,
    cases=80,
    minutes=4,
    hints=(
        Hint(
            "Your function stopped with an error. Sizes and strides may be shorter than the shape: "
            "only the last axes of the shape, shape[new:], stand over them.",
            when=lambda e: e.kind == "raised",
        ),
        Hint(
            "There is one stride per axis of the shape, {expected}: the missing axes come first.",
            when=lambda e: len(e.value) != len(e.right),
        ),
        Hint(
            "The shape has more axes than the tensor. The missing ones stand in front and are "
            "stretched too: stride 0. The tensor's own strides come after them.",
            when=_walks_along_a_missing_axis,
        ),
        Hint(
            "An axis of size 1 is stretched where the shape has another size, and then its stride "
            "is 0: the walk stays where it is.",
            when=lambda e: any(g and not r for g, r in zip(e.value, e.right, strict=True)),
        ),
        "An axis that is missing, or stretched from 1, gets stride 0. The others keep their own.",
        "`zip(sizes, strides, shape[new:])` goes through what the tensor has, axis by axis.",
    ),
    must_fail=(
        "keeps the stride of a stretched axis",
        "gives new strides as a fresh tensor has them",
        "puts the missing axes last",
        "leaves the missing axes out",
        "goes through the axes of the shape from the left",
    ),
)
