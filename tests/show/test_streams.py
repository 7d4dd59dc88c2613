"""A program of streams and events, with everything as early as it may run."""

import pytest

from labkit import show

PIPELINE = [
    ("run", 1, (), ("image",)),
    ("record", 1, "in"),
    ("wait", 2, "in"),
    ("run", 2, ("image",), ("result",)),
    ("record", 2, "used"),
    ("run", 1, (), ("image",)),
    ("host wait", "used"),
    ("host", ("result",), ()),
]


def starts(view):
    return {span["name"].partition(": ")[2]: span["start"] for span in view.spans}


def test_work_starts_when_all_that_must_come_first_has_ended():
    names = ["copy", "convolve", "next", "save"]
    view = show.streams(PIPELINE, names=names, title="a pipeline")
    assert starts(view) == {"copy": 0, "convolve": 1, "next": 1, "save": 2}
    assert view.lanes == ["stream 1", "stream 2", "host"]
    pairs = [(view.spans[e["source"]]["name"], view.spans[e["target"]]["name"]) for e in view.edges]
    assert pairs == [("0: copy", "1: convolve"), ("1: convolve", "3: save")]


def test_a_race_is_marked_on_both_and_said():
    view = show.streams(PIPELINE)
    (race,) = view.races
    assert race["text"].startswith("race on image: nothing orders 1: reads image, writes result")
    ordered = [*PIPELINE[:5], ("wait", 1, "used"), *PIPELINE[5:]]
    assert show.streams(ordered).races == []


def test_a_host_wait_orders_what_comes_later_on_every_stream():
    view = show.streams(
        [("run", 1, (), ()), ("synchronize", 1), ("run", 2, (), ())], names=["a", "b"]
    )
    assert starts(view) == {"a": 0, "b": 1}


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match=r"step 1 is \('launch', 2\)"):
        show.streams([("run", 1, (), ()), ("launch", 2)])
    with pytest.raises(ValueError, match="2 names for 1 pieces of work"):
        show.streams([("run", 1, (), ())], names=["a", "b"])
