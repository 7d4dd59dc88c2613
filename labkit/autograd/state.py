"""What this thread does about gradients now: the switches that every operator call reads.

Source   c10/core/AutogradState.h  AutogradState
"""

from typing import Any

from labkit.core.thread_local_state import CarriedLocal


class _State(CarriedLocal):
    grad = True
    """Calls are recorded."""
    inference = False
    """Inside `inference_mode`."""
    saved_hooks: tuple[tuple[Any, Any], ...] = ()
    """(pack, unpack) of the `saved_tensors_hooks` that are open, innermost last."""
    running: Any = None
    """The node whose `apply` is running."""
    task: Any = None
    """The backward call that is running."""
    depth = 0
    """How many backward calls are running inside one another."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[Any] = []
        """The nodes that can run, of all backward calls of this thread."""


STATE = _State()


class _Anomaly:
    """One for the process, as in PyTorch."""

    enabled = False
    check_nan = True

    def switch(self, enabled: bool, check_nan: bool) -> None:
        """Anomaly mode is on or off from now on."""
        self.enabled, self.check_nan = enabled, check_nan


ANOMALY = _Anomaly()
