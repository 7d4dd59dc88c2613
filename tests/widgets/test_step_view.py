"""A StepView's own state: what it takes, what it refuses, its text and its picture."""

import numpy as np
import pytest

from labkit.memory.history import ACTIONS
from labkit.memory.sizes import TRACE_SIZES
from labkit.widgets.step.step_view import COLUMNS, StepView

NONE = np.zeros(0, np.int64)
EMPTY = {
    "events": dict.fromkeys(
        ("action", "address", "size", "stream", "pool", "note", "stack", "time_us"), NONE
    ),
    "segments": dict.fromkeys(
        ("address", "size", "stream", "pool", "large", "expandable", "stack"), NONE
    ),
    "blocks": dict.fromkeys(("address", "size", "requested", "state", "segment", "stack"), NONE),
    "actions": ACTIONS, "streams": (0,), "pools": ((0, 0),), "notes": ("",), "frames": [],
    "stack_starts": NONE, "stack_members": NONE, "sizes": TRACE_SIZES,
}  # fmt: skip


def view(texts=("aten::mm enters", "sgemm is queued"), **changed):
    columns = {name: [-1, 0] for name in COLUMNS} | {"kind": [0, 1], "phase": [0, 0]}
    return StepView(
        {**columns, "call": [0, 0], "memory": [0, 0], **changed},
        texts,
        trace=EMPTY,
        nodes=[{"label": "MmBackward0", "kind": "made"}],
        edges=[],
        words={"kinds": ["call", "kernel queued", "node recorded"], "phases": ["forward"]},
        functions=[{"name": "step", "file": "a.py", "first_line": 1, "lines": ["y = a @ b"]}],
        chains=[[[0, 1]]],
        calls=[["aten::mm", -1, 0, 2, [["CUDA", "here", 1, 0], ["CPU", "there", 0, -1]]]],
        launches=[["sgemm", "kernel", 0, "1", "32", [512], [1024], 1, -1, 0]],
        came={}, heats={}, outside=[], names={"512": "weight"}, remarks=[],
        node_colours={"made": 0}, node_names=["MmBackward0 #0"],
    )  # fmt: skip


def test_the_text_counts_and_has_no_address():
    assert repr(view()) == "StepView(2 events, 1 call, 1 node, 1 launch)"


def test_the_picture_shows_the_event_in_every_lane():
    shown = view()
    first = shown.svg()
    assert "aten::mm   CUDA &gt; (CPU)" in first
    assert "y = a @ b" not in first
    shown.frame = 1
    second = shown.svg()
    for words in ("y = a @ b", "MmBackward0 #0", "sgemm", "reads weight", "writes 0x400"):
        assert words in second


def test_events_and_columns_must_fit():
    with pytest.raises(ValueError, match="an event has a text and a number"):
        view(texts=("one",))
    with pytest.raises(ValueError, match="an event has a text and a number"):
        view(colour=[0, 0])
