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
    regenerated: tuple[Any, ...] = ()
    """Views that got a new node while the edges of the call being recorded were collected."""
    depth = 0
    """How many backward calls are running inside one another."""


STATE = _State()


class _Special:
    """How many unusual conditions hold anywhere: anomaly mode, dual levels, saved-tensor hooks.

    Kernels ask for nothing of the kind while this is 0; one plain attribute is all they read.
    """

    count = 0


SPECIAL = _Special()


class _Anomaly:
    """One for the process, as in PyTorch."""

    enabled = False
    check_nan = True

    def switch(self, enabled: bool, check_nan: bool) -> None:
        """Anomaly mode is on or off from now on."""
        SPECIAL.count += enabled - self.enabled
        self.enabled, self.check_nan = enabled, check_nan


ANOMALY = _Anomaly()
