import pytest

from labkit.show.timeline import timeline
from labkit.widgets.cuda.timeline_view import TimelineView, round_ticks
from labkit.widgets.picture import PALETTE

SPANS = [
    {"lane": "host", "name": "launch", "start": 0, "end": 1, "kind": "call"},
    {"lane": "stream 1", "name": "kernel", "start": 1, "end": 5, "kind": "kernel", "writes": ["x"]},
    {"lane": "stream 2", "name": "copy", "start": 2, "end": 4, "kind": "copy", "reads": ["x"]},
]


def test_lanes_keep_their_order_and_the_text_form_counts():
    view = timeline(SPANS, edges=[("launch", "kernel")], races=[("kernel", "copy", "both use x")])
    assert view.lanes == ["host", "stream 1", "stream 2"]
    assert repr(view) == "TimelineView(3 lanes, 3 spans, 1 races, 5 steps)"
    assert all(f">{text}</text>" in view.svg() for text in ("host", "kernel", "5", "steps"))


@pytest.mark.parametrize(
    ("start", "end", "whole", "ticks"),
    [
        (0.3, 13.7, False, [2, 4, 6, 8, 10, 12]),
        (0, 5.85, True, [0, 1, 2, 3, 4, 5]),
        (0, 100, True, [0, 20, 40, 60, 80, 100]),
        (0.0031, 0.0069, False, [0.0035, 0.004, 0.0045, 0.005, 0.0055, 0.006, 0.0065]),
        (7, 7, False, [7]),
    ],
)
def test_the_axis_has_round_numbers(start, end, whole, ticks):
    assert round_ticks(start, end, whole) == ticks


def test_the_picture_follows_the_step():
    frames = [{"text": "start", "time": 0}, {"text": "all", "time": 5}]
    view = timeline(SPANS, frames=frames)
    assert ">kernel</text>" not in view.svg()
    view.frame = 1
    assert ">kernel</text>" in view.svg()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], [{"lane": 1, "name": "s", "start": 0, "end": 1}]), "lies in lane 1; there are 1"),
        (
            (["a"], [{"lane": 0, "name": "s", "start": 2, "end": 1}]),
            "ends at 1, before its start 2",
        ),
        ((["a"], [], [{"source": 0, "target": 1}]), "edge names span 0; there are 0"),
        ((["a"], [], [], [{"spans": (0, 1), "text": ""}]), "race names span 0"),
        ((["a"], [], [], [], [], "hours"), "unit 'hours' is not one of steps"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        TimelineView(*arguments)


def test_a_kind_of_work_has_the_same_colour_in_every_picture():
    def colour_of(kind, *order):
        spans = [{"lane": 0, "start": n, "end": n + 1, "name": k, "kind": k}
                 for n, k in enumerate(order)]  # fmt: skip
        svg = TimelineView(["lane"], spans).svg()
        fills = [part.split('"')[0] for part in svg.split('fill="')[1:]]
        return [fill for fill in fills if fill in PALETTE][order.index(kind)]

    for kind in ("host", "kernel", "copy"):
        assert colour_of(kind, "kernel", "host", "copy") == colour_of(
            kind, "copy", "kernel", "host"
        )
    assert colour_of("mine", "mine", "theirs") == PALETTE[0]
    assert len({colour_of(k, "host", "mine", "copy") for k in ("host", "mine", "copy")}) == 3
