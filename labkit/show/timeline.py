"""`show.timeline`: lanes of spans, given as rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labkit.widgets.cuda.timeline_view import TimelineView


def timeline(
    spans: Iterable[Mapping[str, Any]],
    edges: Sequence[tuple[str, str]] = (),
    races: Sequence[tuple[str, str, str]] = (),
    frames: Sequence[Mapping[str, Any]] = (),
    unit: str = "steps",
    title: str = "",
    at: int | str | None = None,
) -> TimelineView:
    """Spans drawn in the lanes they name, the lanes in the order in which they first appear.

    spans  mappings with `lane` (its name), `name`, `start`, `end`, and optionally `kind`, `reads`,
           `writes`; names must be unique when edges or races use them
    edges  (name, name) pairs: the second starts only after the first has ended
    races  (name, name, text): what two spans do to each other
    at     the step to open at: its number, from 1, or words of its text

    Raises   KeyError     an edge or race names a span that is not there
             ValueError   no step `at`
    """
    rows = [dict(span) for span in spans]
    lanes = list(dict.fromkeys(row["lane"] for row in rows))
    place = {row["name"]: index for index, row in enumerate(rows)}
    return TimelineView(
        lanes,
        [row | {"lane": lanes.index(row["lane"])} for row in rows],
        edges=[{"source": place[a], "target": place[b]} for a, b in edges],
        races=[{"spans": (place[a], place[b]), "text": text} for a, b, text in races],
        frames=frames,
        unit=unit,
        title=title,
    ).open_at(at)
