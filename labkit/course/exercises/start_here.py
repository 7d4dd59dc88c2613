"""Start here: count the places that views name, repair a race, tell a count from a time."""

from collections.abc import Callable
from typing import Any

import torch

from labkit.course.exercise import Case, Evidence, Exercise, Hint, Rng, Stage
from labkit.course.exercises._never_right import CONSTANT, FIRST, READS
from labkit.course.exercises._reversal import repair_the_race

NOTEBOOK = "0_start_here"

View = tuple[tuple[int, int], tuple[int, int], int]
"""(rows, columns), (places to go for a row down, for a column right), place of the first number."""

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
"""What a recorder writes as `kind` -> what it is."""
DRIVERS = ("cupy", "emulator")
REFUSED = "a time from the emulator says nothing about a GPU"


def _a_view(rng: Rng, size: int) -> View:
    rows, columns = rng.randint(0 if rng.chance(0.1) else 1, 1 + size // 3), 2 + size // 3
    down, right = rng.choice((0, 1, columns, columns, columns + 1)), rng.choice((0, 1, 1, 2))
    return (rows, columns), (down, right), rng.randint(0, 2 * size)


def _some_views(rng: Rng, size: int) -> tuple[list[View]]:
    views = [_a_view(rng, size) for _ in range(rng.randint(0 if size else 1, 1 + size // 2))]
    if views and rng.chance(0.4):  # two views of one place: the case that adding up gets wrong
        sizes, strides, start = rng.choice(views)
        views.append((sizes, strides, start + rng.randint(0, 1)))
    return (views,)


def _named(view: View) -> list[int]:
    """The place of every number of a view, row after row."""
    (rows, columns), (down, right), start = view
    return [start + i * down + j * right for i in range(rows) for j in range(columns)]


def _count_places(views: list[View]) -> int:
    return len({place for view in views for place in _named(view)})


def _fewer_views(views: list[View]) -> Any:
    """Without one of the views, or one of them shorter; two columns stay, as a row has them."""
    for at, ((rows, columns), strides, start) in enumerate(views):
        before, after = views[:at], views[at + 1 :]
        yield ([*before, *after],)
        if rows > 1:
            yield ([*before, ((rows - 1, columns), strides, start), *after],)
        if columns > 2:
            yield ([*before, ((rows, columns - 1), strides, start), *after],)
    if views and (first := min(start for *_, start in views)):
        yield ([(sizes, strides, start - first) for sizes, strides, start in views],)


def _share_places(views: list[View]) -> bool:
    """Whether some place is named twice."""
    return sum(len(_named(view)) for view in views) > _count_places(views)


def _is_plain(view: View) -> bool:
    """Whether it has numbers, and names each of its places once."""
    return bool(_named(view)) and not _share_places([view])


def _overlap(views: list[View]) -> bool:
    return all(map(_is_plain, views)) and _share_places(views)


def _read_again(views: list[View]) -> bool:
    return all(map(_named, views)) and any(0 in strides for _, strides, _ in views)


def _too_many(evidence: Evidence) -> bool:
    return isinstance(evidence.value, int) and evidence.value > evidence.right


def _counted_as(change: Callable[[View], View]) -> Callable[[Evidence], bool]:
    """Whether what came is what views changed so would give."""
    return lambda evidence: evidence.value == _count_places([*map(change, *evidence.inputs)])


def _reach(views: list[View]) -> set[int]:
    """How many places there are up to the last one: from the first that is named, and from 0."""
    every = [place for view in views for place in _named(view)]
    return {max(every) - min(every) + 1, max(every) + 1} if every else set()


def _drawn(case: Case, got: Any, right: Any) -> Any:
    """The views of a failing case over the memory they share."""
    from labkit import show

    views: list[View] = case.inputs[0]
    if not views:
        return None
    memory = torch.arange(1 + max((place for view in views for place in _named(view)), default=0))
    names = [f"view {n}" for n in range(1, len(views) + 1)]
    drawn = [memory.as_strided(*view) for view in views]
    return show.strides(*drawn, names=names, simple=True)


places = Exercise(
    id="start_here.places",
    rung="warm-up",
    stages=(
        Stage("one view", only=lambda views: len(views) == 1 and _is_plain(views[0])),
        Stage("overlap", only=_overlap),
        Stage("stride 0", only=_read_again),
        Stage("no rows"),
    ),
    picture=_drawn,
    case=_some_views,
    expected=_count_places,
    smaller=_fewer_views,
    cases=100,
    minutes=3,
    hints=(
        Hint(
            "{got} is all numbers together, but some place is named twice here. `found` is a set, "
            "it keeps one of each: add the place itself.",
            when=lambda evidence: (
                _too_many(evidence)
                and evidence.value == sum(map(len, map(_named, *evidence.inputs)))
            ),
        ),
        Hint(
            "{got} is what comes out when every view begins at place 0. Where does a view begin?",
            when=_counted_as(lambda view: (*view[:2], 0)),
        ),
        Hint(
            "{got} is what comes out with the two strides exchanged. Which one is for a row down?",
            when=_counted_as(lambda view: (view[0], view[1][::-1], view[2])),
        ),
        Hint(
            "A view with 0 rows has no number at all, so it names no place.",
            when=lambda evidence: (
                _too_many(evidence) and any(0 in sizes for sizes, *_ in evidence.inputs[0])
            ),
        ),
        Hint(
            "{got} is what comes out when each view lies like a whole grid: a row down is as many "
            "places as it has columns, a column right is one. How far does `down` go, and `right`?",
            when=_counted_as(lambda view: (view[0], (view[0][1], 1), view[2])),
        ),
        Hint(
            "{got} counts every place up to the last one, also those that no view names.",
            when=lambda evidence: (
                _too_many(evidence) and evidence.value in _reach(*evidence.inputs)
            ),
        ),
        "Begin at `start`. Each row down adds the first stride, each column right the second.",
        "Row i, column j lies at start + i * down + j * right. Add that to `found`.",
    ),
    must_fail=(
        "adds up the sizes",
        "takes last minus first",
        "forgets where a view starts",
        "exchanges the strides",
        "counts a view without rows",
        "returns the size of the storage",
        FIRST,
        READS,
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
    rules=("`KINDS` and the driver decide, nothing else",),
    case=_a_record,
    expected=_what_may_be_said,
    cases=60,
    minutes=5,
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
        CONSTANT,
        "catches every exception and returns a default",
        FIRST,
    ),
)

EXERCISES = (places, repair_the_race, read_the_banner)
