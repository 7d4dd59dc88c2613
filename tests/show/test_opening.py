"""Every widget that is stepped opens at the step worth seeing, by one keyword."""

import inspect

import pytest
import torch

from labkit import show
from labkit.widgets.base import LabWidget

OPENED = {
    "backward": lambda at: show.backward(torch.ones(1, requires_grad=True) * 2, at=at),
    "broadcast": lambda at: show.broadcast((2, 1), (1, 3), at=at),
    "code": lambda at: show.code(
        {"title": "t", "text": "a\nb"},
        stations=[{"pane": 0, "lines": (n, n), "text": f"line {n}"} for n in (1, 2)], at=at,
    ),
    "dispatch": lambda at: show.dispatch("aten::neg", torch.ones(1), contexts=["plain"], at=at),
    "strides": lambda at: show.strides(program="a = torch.ones(2)\nb = a[1:]", at=at),
    "tiles": lambda at: show.tiles(torch.ones(2, 2), {"0": 0, "1": 1}, at=at),
    "timeline": lambda at: show.timeline(
        [{"lane": "a", "name": "x", "start": 0, "end": 2}],
        frames=[{"text": "first", "time": 0}, {"text": "second", "time": 1}], at=at,
    ),
    "training_step": lambda at: show.training_step(
        lambda: (torch.ones(1, requires_grad=True) * 2).backward(), at=at
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPENED)
def test_it_opens_where_it_is_told_to(name):
    opened = OPENED[name]
    texts = opened(None).step_texts()
    assert opened(None).frame == 0 and len(texts) > 1
    assert opened(-1).frame == opened(len(texts)).frame == len(texts) - 1
    assert opened(2).frame == 1
    assert opened(texts[-1]).step_texts()[opened(texts[-1]).frame] == texts[-1]
    for wrong in (0, len(texts) + 1, -len(texts) - 1, "no step says this"):
        with pytest.raises(ValueError, match="no step"):
            opened(wrong)


def test_no_stepped_picture_is_left_out():
    takes = {
        name for name in show.__all__ if "at" in inspect.signature(getattr(show, name)).parameters
    }
    steps = {
        kind for kind in LabWidget.__subclasses__() if kind.step_texts is not LabWidget.step_texts
    }
    assert takes >= {*OPENED, "compile", "kernel"}
    assert len(steps) >= 8
