"""`show.streams`: what a program of streams and events must wait for, and what may race."""

from collections.abc import Sequence
from typing import Any

from labkit.cuda.happens_before import HOST, accesses, races
from labkit.show.timeline import timeline
from labkit.widgets.cuda.timeline_view import TimelineView


def streams(
    program: Sequence[tuple[Any, ...]], names: Sequence[str] = (), title: str = ""
) -> TimelineView:
    """The program with everything as early as it may run: what overlaps here may overlap there.

    program  steps as `labkit.cuda.happens_before` takes them
    names    one per step that touches memory, in order; left out, they say what is touched

    Arrows are events; a race is two pieces of work that touch one buffer in no order.

    Raises   ValueError   a step that cannot be read, or names that do not fit
    """
    work = accesses(program)
    if names and len(names) != len(work):
        raise ValueError(f"{len(names)} names for {len(work)} pieces of work")
    named = {
        one.position: f"{n}: {names[n] if names else _said(one)}" for n, one in enumerate(work)
    }
    starts: dict[int, int] = {}
    spans, edges = [], []
    for one in work:
        earlier = [other for other in work if other.position < one.position]
        before = [other for other in earlier if other.is_before(one)]
        starts[one.position] = max((starts[other.position] + 1 for other in before), default=0)
        spans.append(
            {
                "lane": "host" if one.queue == HOST else f"stream {one.queue}",
                "name": named[one.position],
                "start": starts[one.position],
                "end": starts[one.position] + 0.85,  # room for the arrows
                "kind": "host" if one.queue == HOST else "work",
                "reads": sorted(map(str, one.reads)),
                "writes": sorted(map(str, one.writes)),
            }
        )
        edges += [
            (named[other.position], named[one.position])
            for other in before
            if other.queue != one.queue and not _through_another(other, one, before)
        ]
    by_position = {one.position: one for one in work}
    found = []
    for first, second in races(program):
        buffers = by_position[first].conflicts(by_position[second])
        what = ", ".join(sorted(map(str, buffers)))
        pair = (named[first], named[second])
        found.append((*pair, f"race on {what}: nothing orders {pair[0]} and {pair[1]}"))
    return timeline(spans, edges=edges, races=found, title=title)


def _through_another(first: Any, last: Any, before: Sequence[Any]) -> bool:
    """Whether the order of the two follows from a third piece of work between them."""
    return any(
        other.position > first.position and first.is_before(other) and other.is_before(last)
        for other in before
    )


def _said(one: Any) -> str:
    parts = [f"writes {', '.join(sorted(map(str, one.writes)))}"] if one.writes else []
    if one.reads:
        parts.insert(0, f"reads {', '.join(sorted(map(str, one.reads)))}")
    return ", ".join(parts) or "touches nothing"
