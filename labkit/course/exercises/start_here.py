"""Start here: count the bytes that views share, and tell a number from a measurement."""

from itertools import product
from math import prod
from typing import Any

from labkit.course.exercise import Evidence, Exercise, Hint, Rng

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


warm_up = Exercise(
    id="start_here.warm_up",
    statement=(
        "Return the number of distinct bytes a list of views really covers in one storage. "
        "Each view is (sizes, strides, offset, itemsize), strides and offset in elements of that "
        "view; views may overlap, may be empty, and may have no dimension at all."
    ),
    rules=("plain Python; a storage is as long as the views need",),
    case=_some_views,
    expected=_bytes_covered,
    smaller=_fewer_views,
    cases=200,
    minutes=10,
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
    statement=(
        "Write a function that takes one record (label, kind, number, driver) and returns "
        "(what, may_report, reason): what is counter, value or time by the table above; reason is "
        "the sentence of the table when the number may not be reported, and empty otherwise."
    ),
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

EXERCISES = (warm_up, read_the_banner)
