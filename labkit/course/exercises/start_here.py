"""Start here: repair a race, count the bytes that views share, tell a count from a time."""

from itertools import product
from math import prod
from typing import Any

import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._reversal import repair_the_race

NOTEBOOK = "0_start_here"

View = tuple[tuple[int, ...], tuple[int, ...], int, int]

KINDS = {
    "launches": "counter",
    "barriers": "counter",
    "bank_conflicts": "counter",
    "bytes_moved": "counter",
    "result": "value",
    "checksum": "value",
    "elapsed_ms": "time",
    "kernel_ns": "time",
}
"""What a recorder writes as `kind` -> what it is; the notebook prints this table."""
DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
DRIVERS = ("cupy", "emulator")
REFUSED = "a time from the emulator says nothing about a GPU"


def _a_view(rng: Rng, size: int) -> View:
    sizes = rng.sizes(rank=min(3, 1 + size // 3), largest=1 + size // 2)
    strides = tuple(rng.choice((0, 1, 1, 2, 3, 1 + size)) for _ in sizes)
    return sizes, strides, rng.randint(0, 2 * size), rng.choice((1, 2, 4, 8))


def _some_views(rng: Rng, size: int) -> tuple[list[View]]:
    views = [_a_view(rng, size) for _ in range(rng.randint(0 if size else 1, 1 + size // 2))]
    if views and rng.chance(0.4):  # two views of one place: the case that adding up gets wrong
        sizes, strides, offset, itemsize = rng.choice(views)
        views.append((sizes, strides, offset + rng.randint(0, 1), itemsize))
    return (views,)


def _bytes_covered(views: list[View]) -> int:
    covered: set[int] = set()
    for sizes, strides, offset, itemsize in views:
        for index in product(*map(range, sizes)):
            element = offset + sum(i * s for i, s in zip(index, strides, strict=True))
            covered.update(range(element * itemsize, (element + 1) * itemsize))
    return len(covered)


def _fewer_views(views: list[View]) -> Any:
    for at, (sizes, strides, offset, itemsize) in enumerate(views):
        before, after = views[:at], views[at + 1 :]
        yield ([*before, *after],)
        for dim, length in enumerate(sizes):
            if length > 1:
                shorter = (*sizes[:dim], length - 1, *sizes[dim + 1 :])
                yield ([*before, (shorter, strides, offset, itemsize), *after],)
            fewer = sizes[:dim] + sizes[dim + 1 :], strides[:dim] + strides[dim + 1 :]
            yield ([*before, (*fewer, offset, itemsize), *after],)
        if offset:
            yield ([*before, (sizes, strides, 0, itemsize), *after],)


def _too_many(evidence: Evidence) -> bool:
    return isinstance(evidence.value, int) and evidence.value > evidence.right


def _share_bytes(views: list[View]) -> bool:
    """Whether some byte is named twice."""
    named = sum(prod(sizes) * itemsize for sizes, _, _, itemsize in views)
    return named > _bytes_covered(views)


def _is_plain(view: View) -> bool:
    """Whether it has dimensions and elements, and none of its bytes is named twice."""
    sizes, _, _, itemsize = view
    return bool(sizes) and 0 < prod(sizes) * itemsize == _bytes_covered([view])


def _overlap(views: list[View]) -> bool:
    parts = sum(_bytes_covered([view]) for view in views)
    return all(map(_is_plain, views)) and _bytes_covered(views) < parts


def _read_again(views: list[View]) -> bool:
    full = all(sizes and 0 not in sizes for sizes, *_ in views)
    return full and any(s == 0 for _, strides, *_ in views for s in strides)


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The views of a failing case over the bytes they share."""
    from labkit import show

    views: list[View] = case.inputs[0]
    if not views:
        return None
    whole = torch.arange(_end_of(views) // 8 * 8 + 8, dtype=torch.uint8)
    names = [f"view {n}" for n in range(1, len(views) + 1)]
    drawn = [whole.view(DTYPES[itemsize]).as_strided(*place) for *place, itemsize in views]
    return show.strides(*drawn, names=names)


def _end_of(views: list[View]) -> int:
    """One byte past the last place that the views could name, empty ones too."""
    return max(
        (offset + sum(max(n - 1, 0) * s for n, s in zip(sizes, strides, strict=True)) + 1) * size
        for sizes, strides, offset, size in views
    )


warm_up = Exercise(
    id="start_here.warm_up",
    stages=(
        Stage("one view", only=lambda views: len(views) == 1 and _is_plain(views[0])),
        Stage("overlap", only=_overlap),
        Stage("stride 0", only=_read_again),
        Stage("empty and 0-dim"),
    ),
    picture=_drawn,
    rules=("plain Python; a storage is as long as the views need",),
    case=_some_views,
    expected=_bytes_covered,
    smaller=_fewer_views,
    cases=200,
    minutes=9,
    difficulty=1,
    hints=(
        Hint(
            "Your total {got} is larger than what is covered: can two views, or two indices of one "
            "view, share a byte?",
            when=lambda evidence: _too_many(evidence) and _share_bytes(*evidence.inputs),
        ),
        Hint(
            "Your total {got} is larger than what is covered, and no byte of {input} is named "
            "twice: how many indices has a view with a size 0?",
            when=lambda evidence: (
                _too_many(evidence)
                and not _share_bytes(*evidence.inputs)
                and any(0 in sizes for sizes, *_ in evidence.inputs[0])
            ),
        ),
        "For stride 0 the same byte is named many times: what collects distinct things?",
        "Enumerate the byte numbers (element * itemsize + b) for each index tuple and count the "
        "set; a view with a size 0 names none, a view without dimensions names one element.",
    ),
    must_fail=(
        "sums nbytes of every view",
        "takes max end minus min start",
        "ignores itemsize",
        "counts a view of size 0 as one element",
        "returns the size of the storage",
        "remembers the answer of the first random case and returns it for all later cases",
        "reads the expected value out of the checker (module globals, frames or closure)",
    ),
)


def _a_record(rng: Rng, size: int) -> tuple[dict[str, Any]]:
    kind = rng.choice(sorted(KINDS))
    label_of = rng.choice(sorted(KINDS)) if size > 1 else kind
    number = float(rng.randint(1, 9999)) if rng.chance(0.3) else rng.randint(1, 9999)
    return (
        {
            "label": f"{label_of.replace('_', ' ')} of {rng.choice(('row_sum', 'matmul', 'copy'))}",
            "kind": kind,
            "number": number,
            "driver": rng.choice(DRIVERS),
        },
    )


def _what_may_be_said(record: dict[str, Any]) -> tuple[str, bool, str]:
    kind = KINDS[record["kind"]]
    refused = kind == "time" and record["driver"] == "emulator"
    return kind, not refused, REFUSED if refused else ""


read_the_banner = Exercise(
    id="start_here.read_the_banner",
    rung="boss",
    rules=("the table above the cell decides, nothing else",),
    case=_a_record,
    expected=_what_may_be_said,
    cases=60,
    minutes=5,
    difficulty=1,
    hints=(
        "Look at two records of one kind from different drivers: which of the two is refused?",
        "A value from the emulator is fine, a duration is not.",
        "Combine kind and driver name, nothing else: labels are free text.",
    ),
    must_fail=(
        "allows every time",
        "refuses every number on the emulator",
        "decides from torch.cuda.is_available alone",
        "reads the label text rather than the record kind",
        "returns the literal answer of the example in the statement",
        "catches every exception and returns a default",
        "remembers the answer of the first random case and returns it for all later cases",
    ),
)

EXERCISES = (repair_the_race, warm_up, read_the_banner)
