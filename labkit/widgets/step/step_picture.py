"""The picture of a StepView where no JavaScript runs: one event, in five lanes."""

from collections.abc import Mapping
from typing import Any

from labkit.widgets.picture import INK, LINE, MUTED, PALETTE, PAPER, Picture

WIDTH, LABEL, ROW = 860, 110, 18
NOW = PALETTE[1]
MOST_LINES = 9
MOST_LAUNCHES = 90

Event = Mapping[str, int]
Lists = Mapping[str, Any]


def step_picture(lists: Lists, event: Event, number: int, title: str, label: str) -> str:
    """The lanes one below the other; what the event is about is orange in each."""
    lines = _source(lists, event)
    hops = _hops(lists, event)
    height = 92 + ROW * (len(lines) + len(hops)) + 128
    picture = Picture(WIDTH, height, label)
    picture.text(12, 20, title or label, bold=True, mono=False)
    said = f"event {number + 1} of {len(lists['texts'])}: {lists['texts'][number]}"
    picture.text(12, 38, said[:120], 12, MUTED, mono=False)
    y = 62.0
    for lane, rows in (("your source", lines), ("dispatcher", hops)):
        picture.text(12, y, lane, 11, MUTED, mono=False)
        for text, lit in rows:
            if lit:
                picture.rect(LABEL - 6, y - 13, WIDTH - LABEL - 6, ROW, NOW, NOW, opacity=0.3)
            picture.text(LABEL, y, text[:100], 12)
            y += ROW
        y += 12
    y = _graph(picture, lists, event, y)
    y = _streams(picture, lists, number, event, y)
    _memory(picture, lists, event, y)
    return picture.svg()


def _source(lists: Lists, event: Event) -> list[tuple[str, bool]]:
    """The lines around the one that runs."""
    if event["line"] < 0:
        return [("no line of the program runs", False)]
    place, number = lists["chains"][event["line"]][0]
    function = lists["functions"][place]
    at = number - function["first_line"]
    first = max(0, min(at - MOST_LINES // 2, len(function["lines"]) - MOST_LINES))
    shown = function["lines"][first : first + MOST_LINES]
    return [(text, first + i == at) for i, text in enumerate(shown)]


def _hops(lists: Lists, event: Event) -> list[tuple[str, bool]]:
    """The calls around the innermost one, and the hops that it took."""
    chain, call = [], event["call"]
    while call >= 0:
        chain.append(call)
        call = lists["calls"][call][1]
    rows = []
    for depth, call in enumerate(reversed(chain)):
        operator, *_, hops = lists["calls"][call]
        way = " > ".join(slot if seen else f"({slot})" for slot, _, seen, _ in hops)
        rows.append((f"{'  ' * depth}{operator}   {way}", call == event["call"]))
    return rows or [("no operator runs", False)]


def _graph(picture: Picture, lists: Lists, event: Event, y: float) -> float:
    picture.text(12, y, "autograd graph", 11, MUTED, mono=False)
    name = lists["node_names"][event["node"]] if event["node"] >= 0 else "no node"
    if event["node"] >= 0:
        picture.rect(LABEL - 6, y - 13, 16 + 7.3 * len(name), ROW, NOW, NOW, opacity=0.3)
    picture.text(LABEL, y, name, 12, INK if event["node"] >= 0 else MUTED)
    return y + ROW + 12


def _streams(picture: Picture, lists: Lists, number: int, event: Event, y: float) -> float:
    """One mark per piece of work: dim until it is queued, full when it has run."""
    picture.text(12, y, "streams", 11, MUTED, mono=False)
    first = max(
        0, min(event["kernel"] - MOST_LAUNCHES // 2, len(lists["launches"]) - MOST_LAUNCHES)
    )
    shown = list(enumerate(lists["launches"]))[first : first + MOST_LAUNCHES]
    wide = min(24.0, (WIDTH - LABEL - 12) / max(len(shown), 1))
    for i, (place, launch) in enumerate(shown):
        queued, ran = launch[7], launch[8]
        fill = NOW if place == event["kernel"] else PALETTE[0] if queued <= number else PAPER
        done = 0 <= ran <= number or place == event["kernel"]
        picture.rect(LABEL + i * wide, y - 13, max(2, wide - 2), 16, fill, LINE,
                     opacity=1 if done else 0.4)  # fmt: skip
    name = lists["launches"][event["kernel"]][0] if event["kernel"] >= 0 else ""
    picture.text(LABEL, y + 18, name, 12)
    return y + 2 * ROW + 12


def _memory(picture: Picture, lists: Lists, event: Event, y: float) -> None:
    picture.text(12, y, "memory", 11, MUTED, mono=False)
    if event["kernel"] < 0:
        picture.text(LABEL, y, "nothing is read or written at this event", 12, MUTED)
        return
    for i, word in enumerate(("reads", "writes")):
        places = ", ".join(lists[word]) or "nothing"
        picture.text(LABEL, y + i * ROW, f"{word} {places}"[:100], 12)
