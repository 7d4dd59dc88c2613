"""Layouts named by a permutation: strides from an order, and the order back."""

from typing import Any

from labkit.course.exercise import Case, Exercise, Hint, Rng, Stage, Wrong, handed_out
from labkit.course.exercises._never_right import BANNED, FIRST

Ints = tuple[int, ...]


@handed_out
def memory_format_order(name: str) -> tuple[int, ...]:
    """The dimensions of a memory format of PyTorch, slowest first."""
    return {
        "contiguous": (0, 1, 2, 3),
        "channels_last": (0, 2, 3, 1),
        "channels_last_3d": (0, 2, 3, 4, 1),
    }[name]


def _dense_strides(sizes: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [0] * len(sizes), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= sizes[dim]
    return tuple(strides)


def _a_layout(rng: Rng, size: int) -> tuple[Ints, Ints, Ints]:
    rank = min(6, size // 2 + rng.randint(0, 2))
    sizes = tuple(rng.choice((1, 2, 3, 3, 4, 5)) for _ in range(rank))
    order = tuple(rng.sample(range(rank), rank))
    if rank in (4, 5) and rng.chance(0.5):
        names = ("contiguous", "channels_last") if rank == 4 else ("channels_last_3d",)
        order = memory_format_order(rng.choice(names))
    strides = [
        rng.choice((0, 1, 7, 1000)) if length == 1 and rng.chance(0.7) else stride
        for length, stride in zip(sizes, _dense_strides(sizes, order), strict=True)
    ]
    return sizes, order, tuple(strides)


BOTH = ("strides_from_order", "order_from_strides")


def _layout_for(*asked: str) -> Any:
    """Cases that ask these of the two functions."""

    def case(rng: Rng, size: int) -> Case:
        return Case((*_a_layout(rng, size), asked))

    return case


def _drive_layouts(answer: Any, sizes: Ints, order: Ints, strides: Ints, asked: Any) -> Any:
    given = {"strides_from_order": (sizes, order), "order_from_strides": (sizes, strides)}
    functions = dict(zip(BOTH, answer, strict=True))
    return {name: functions[name](*given[name]) for name in asked}


def _calls(sizes: Ints, order: Ints, strides: Ints, asked: Any) -> str:
    given = {"strides_from_order": (sizes, order), "order_from_strides": (sizes, strides)}
    return " and ".join(f"{name}{given[name]}" for name in asked)


def _visible(sizes: tuple[int, ...], strides: Any) -> list[int]:
    """The strides of the axes along which one can step at all."""
    return [stride for length, stride in zip(sizes, strides, strict=True) if length > 1]


def _judge_layouts(case: Case, got: Any) -> str | Wrong | None:
    sizes, order, _, asked = case.inputs
    if not isinstance(got, dict):
        return "a tuple of integers, one per dimension"
    for name in asked:
        if not isinstance(got[name], (tuple, list)) or len(got[name]) != len(sizes):
            return f"{name} returns one integer per dimension, {len(sizes)} in all"
    verdicts = [_judge_one[name](sizes, order, got[name]) for name in asked]
    return next((wrong for wrong in verdicts if wrong is not None), None)


def _judge_strides(sizes: Ints, order: Ints, ours: Any) -> str | Wrong | None:
    right = _dense_strides(sizes, order)
    if any(type(stride) is not int or stride < 0 for stride in ours):
        return "strides are integers of at least 0"
    if _visible(sizes, ours) != _visible(sizes, right):
        return Wrong("strides_from_order: the dimensions longer than 1 have these strides", right)
    return None


def _judge_order(sizes: Ints, order: Ints, found: Any) -> Wrong | None:
    ones = [dim for dim in range(len(sizes)) if sizes[dim] == 1]
    right = (*[dim for dim in order if sizes[dim] > 1], *ones)
    if tuple(found) == right:
        return None
    return Wrong("order_from_strides: dimensions longer than 1, then those of size 1", right)


_judge_one = dict(zip(BOTH, (_judge_strides, _judge_order), strict=True))


def _smaller_layouts(sizes: Ints, order: Ints, strides: Ints, asked: Any) -> Any:
    for gone in range(len(sizes)):
        kept = [dim for dim in range(len(sizes)) if dim != gone]
        fewer = tuple(sizes[dim] for dim in kept)
        new_order = tuple(kept.index(dim) for dim in order if dim != gone)
        packed = _dense_strides(fewer, new_order)
        shown = [strides[d] if sizes[d] == 1 else packed[at] for at, d in enumerate(kept)]
        yield fewer, new_order, tuple(shown), asked


layout_from_order = Exercise(
    id="strides.layout_from_order",
    rules=("arithmetic on tuples only: no torch, no NumPy, no labkit",),
    case=_layout_for(*BOTH),
    judge=_judge_layouts,
    drive=_drive_layouts,
    show=_calls,
    stages=(
        Stage("strides_from_order", case=_layout_for("strides_from_order")),
        Stage("order_from_strides", case=_layout_for("order_from_strides")),
        Stage("both"),
    ),
    smaller=_smaller_layouts,
    cases=400,
    minutes=12,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "A dimension of size 1 has a stride nobody can see: no index ever multiplies it. What "
            "is left of the input {input} when you leave those dimensions out?",
            when=lambda evidence: bool(evidence.inputs) and 1 in evidence.inputs[0],
        ),
        Hint(
            "order lists dimensions, not places: order[0] is the dimension that lies outermost. "
            "Fill strides[order[-1]] first, with 1.",
            when=lambda evidence: evidence.property.startswith("strides_from_order"),
        ),
        "Set the dimensions of size 1 aside before you compare any stride.",
        "Sort the dimensions longer than 1 by stride, the largest first; then append the others.",
    ),
    must_fail=(
        "sorts by stride only",
        "fails on size-1 axes",
        "confuses permutation and its inverse",
        "returns negative strides",
        "is right only for square, even or contiguous shapes",
        FIRST,
        BANNED,
    ),
)
