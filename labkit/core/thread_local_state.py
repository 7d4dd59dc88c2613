"""What belongs to a thread, and how another thread takes it over.

Source   aten/src/ATen/ThreadLocalState.h
"""

import threading
from typing import Any
from weakref import WeakSet

_CARRIED: "WeakSet[CarriedLocal]" = WeakSet()


class CarriedLocal(threading.local):
    """Attributes with a value per thread, which a thread that works for another takes over."""

    def __init__(self) -> None:
        _CARRIED.add(self)


class ThreadLocalState:
    """The calling thread's values of everything that is carried; `restore()` in another thread.

    Source   aten/src/ATen/ThreadLocalState.h  ThreadLocalState, ThreadLocalStateGuard
    """

    def __init__(self) -> None:
        self._values: list[tuple[Any, dict[str, Any]]] = [
            (local, dict(vars(local))) for local in _CARRIED
        ]

    def restore(self) -> None:
        """The calling thread has these values from now on."""
        for local, values in self._values:
            vars(local).update(values)
