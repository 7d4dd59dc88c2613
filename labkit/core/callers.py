"""Who called the lab: warnings are told to whoever wrote the line, not to the lab's own files."""

import sys
from types import FrameType


def level_outside_the_lab() -> int:
    """The `stacklevel`, seen from the caller, of the first frame that is not the lab's own."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("labkit."):
        frame, level = frame.f_back, level + 1
    return level
