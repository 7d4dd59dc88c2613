"""The small step of the indexing chapter: is a bracket a view, or does it gather?"""

from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng


def _some_items(rng: Rng, size: int) -> tuple[tuple[Any, ...]]:
    """A tuple of items; about half of the cases hold a list or a bool."""
    basic = (0, 1, -1, slice(None), slice(1, None), slice(None, None, 2), None, Ellipsis)
    items: list[Any] = [rng.choice(basic) for _ in range(rng.randint(0, 1 + size // 2))]
    if rng.chance(0.5):
        gathers: tuple[Any, ...] = ([0, 1], [1], [], True, False, [True, False])
        items.insert(rng.randint(0, len(items)), rng.choice(gathers))
    return (tuple(items),)


def _kind(index: tuple[Any, ...]) -> str:
    return "gather" if any(isinstance(item, list | bool) for item in index) else "view"


def _holds(evidence: Evidence, kind: type) -> bool:
    return any(isinstance(item, kind) for item in evidence.inputs[0])


kind = Exercise(
    id="indexing.kind",
    case=_some_items,
    expected=_kind,
    rung="warm-up",
    cases=120,
    minutes=3,
    rules=("plain Python: no torch, no NumPy, no labkit",),
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        Hint(
            "A bool gathers. For Python it is an int, too, so ask for bool.",
            when=lambda e: _holds(e, bool) and e.right == "gather",
        ),
        Hint(
            "One list anywhere is enough, also an empty one.",
            when=lambda e: _holds(e, list) and e.right == "gather",
        ),
        Hint(
            "Integers, slices, None and ... only move the offset or write sizes and strides.",
            when=lambda e: e.right == "view",
        ),
        "any(isinstance(item, ...) for item in index).",
    ),
    must_fail=(
        "takes a bool for an integer",
        "looks at the first item alone",
        "takes None for a gather",
        "overlooks an empty list",
    ),
)
