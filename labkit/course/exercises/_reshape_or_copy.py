"""Reshape without memory: the strides of a view, or the word that it needs a copy."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Case, Exercise, Hint, Raises, Rng, Stage, Wrong
from labkit.course.exercises._never_right import BANNED, FIRST

Ints = tuple[int, ...]
SQUARE = "is right only for square, even or contiguous shapes"


def _a_reshape(rng: Rng, size: int) -> tuple[Ints, Ints, Ints]:
    sizes = [
        rng.choice((1, 2, 2, 3, 4, 6))
        for _ in range(rng.randint(rng.choice((0, 1, 2)), min(4, 2 + size // 2)))
    ]
    if rng.chance(0.07):
        sizes.insert(rng.randint(0, len(sizes)), 0)
    strides, step = [0] * len(sizes), rng.choice((1, 1, 1, 2))
    order = list(reversed(range(len(sizes))))
    if rng.chance(0.5):
        rng.shuffle(order)
    for dim in order:
        strides[dim] = step
        step *= max(1, sizes[dim])
        if rng.chance(0.2):
            step += rng.choice((1, 2, step))
    for dim, length in enumerate(sizes):
        if length == 1 and rng.chance(0.5):
            strides[dim] = rng.choice((0, 1, 5, 1000))
        elif rng.chance(0.04):
            strides[dim] = 0
    return tuple(sizes), tuple(strides), _target(rng, sizes)


def _target(rng: Rng, sizes: list[int]) -> Ints:
    wanted = list(sizes)
    for _ in range(rng.randint(0, 5)):
        kind = rng.randint(0, 4)
        at = rng.randint(0, len(wanted) - 1) if wanted else 0
        if kind <= 1 and at + 1 < len(wanted):
            wanted[at : at + 2] = [wanted[at] * wanted[at + 1]]
        elif kind == 2 and wanted:
            factors = [f for f in (2, 3, 4, 6) if wanted[at] % f == 0 and wanted[at] >= f]
            if factors:
                factor = rng.choice(factors)
                pair = [factor, wanted[at] // factor]
                wanted[at : at + 1] = pair if rng.chance(0.5) else pair[::-1]
        elif kind == 3:
            wanted.insert(rng.randint(0, len(wanted)), 1)
        elif 1 in wanted:
            wanted.remove(1)
    if wanted and rng.chance(0.25):
        wanted[rng.randint(0, len(wanted) - 1)] = -1
    if wanted and rng.chance(0.08):
        wanted[rng.randint(0, len(wanted) - 1)] = rng.choice((-1, -2, 0, 5))
    return tuple(wanted)


def _reshaped(sizes: Ints, strides: Ints, wanted: Ints) -> Any:
    """Strides of torch's view, None for a copy, Raises for a refusal."""
    reach = 1 + sum(max(0, n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    tensor = torch.empty(reach, dtype=torch.uint8).as_strided(sizes, strides)
    try:
        result = tensor.reshape(wanted)
    except RuntimeError:
        return Raises(RuntimeError)
    if result.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr():
        return None
    return tuple(result.shape), result.stride()


def _judge_reshape(case: Case, got: Any) -> str | Wrong | None:
    """Strides are compared where an index can reach them: not on axes of size 1, nor when empty."""
    truth = _reshaped(*case.inputs)
    if truth is None or isinstance(truth, Raises):
        return None if got is None else Wrong("reshape has to copy here", None)
    sizes, strides = truth
    if got is None:
        return Wrong("a view will do", strides)
    if not isinstance(got, tuple | list) or len(got) != len(sizes):
        return Wrong(f"one stride per axis of {sizes}", strides)
    if any(type(stride) is not int for stride in got):
        return Wrong("strides are integers", strides)
    seen = [(one, other) for n, one, other in zip(sizes, got, strides, strict=True) if n > 1]
    if 0 not in sizes and any(one != other for one, other in seen):
        return Wrong(f"the strides of the view, sizes {sizes}", strides)
    return None


def _no_traps(sizes: Ints, wanted: Ints) -> bool:
    return not {0, 1, -1} & {*sizes, *wanted}


def _kind(sizes: Ints, strides: Ints, wanted: Ints) -> str:
    found = _reshaped(sizes, strides, wanted)
    if found is None or isinstance(found, Raises):
        return "copy" if found is None else "refuse"
    return "view" if _no_traps(sizes, wanted) else "ones, zeros and -1"


def _of_kind(kind: str) -> Callable[..., bool]:
    return lambda *inputs: _kind(*inputs) == kind


def _should_be(value: Any) -> Any:
    return lambda evidence: evidence.expected == value


reshape_or_copy = Exercise(
    id="memory.reshape_or_copy",
    rung="boss",
    stages=(
        *(Stage(kind, only=_of_kind(kind)) for kind in ("view", "copy", "refuse")),
        Stage("ones, zeros and -1", only=_of_kind("ones, zeros and -1")),
        Stage("together"),
    ),
    rules=("arithmetic on tuples only: no torch, no NumPy, no labkit",),
    case=_a_reshape,
    expected=_reshaped,
    judge=_judge_reshape,
    cases=1500,
    sizes=8,
    minutes=30,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "torch raises an error for {input}; your function returns something. It refuses two "
            "unknowns, a negative size other than -1, another number of elements, and a -1 beside "
            "a 0, which could be anything.",
            when=lambda e: isinstance(e.right, Raises),
        ),
        Hint(
            "There is no element in {input}, so nothing stands in the way of a view.",
            when=lambda e: 0 in e.inputs[0],
        ),
        Hint(
            "There is an axis of size 1 in {input}. Its stride is never multiplied by anything "
            "but 0: leave such axes out on both sides before you compare anything.",
            when=lambda e: 1 in e.inputs[0] or 1 in e.inputs[2],
        ),
        Hint(
            "You copy where torch views: a sliced or transposed tensor keeps whole runs. Group "
            "the old axes that continue each other: stride[d] == size[d + 1] * stride[d + 1].",
            when=lambda e: e.property == "a view will do",
        ),
        Hint(
            "You view where memory has a gap. {input}: inside one new axis the step is the same "
            "all along, so the old axes it covers must continue each other.",
            when=_should_be("None"),
        ),
        "Leave out axes of size 1. Then walk both shapes from the right, one run of old axes at "
        "a time: the new sizes must fill each run exactly.",
    ),
    must_fail=(
        "view only if contiguous",
        "always copies",
        "wrong on size-1 axes",
        "accepts a merge across a gap",
        BANNED,
        FIRST,
        SQUARE,
    ),
)
