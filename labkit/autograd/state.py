"""What this thread does about gradients now: the switches that every operator call reads.

Source   c10/core/AutogradState.h  AutogradState
"""

import threading
from typing import Any


class _State(threading.local):
    grad = True
    """Calls are recorded."""
    inference = False
    """Inside `inference_mode`."""
    saved_hooks: tuple[tuple[Any, Any], ...] = ()
    """(pack, unpack) of the `saved_tensors_hooks` that are open, innermost last."""
    saved_hooks_refused: str = ""
    """Why none may be opened now; empty when they may."""
    running: Any = None
    """The node whose `apply` is running."""
    task: Any = None
    """The backward call that is running."""
    depth = 0
    """How many backward calls are running inside one another."""


STATE = _State()


class _Anomaly:
    """One for the process, as in PyTorch."""

    enabled = False
    check_nan = True


ANOMALY = _Anomaly()
