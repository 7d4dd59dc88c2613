"""Functions that others want called at a point of a request."""

from collections.abc import Callable
from typing import Any


class Callbacks(list[Callable[..., Any]]):
    """Called in order; a request that one of them makes does not call them again.

    Differs  PyTorch calls them again, without end if each of them asks for memory.
    """

    _running = False

    def __call__(self, *arguments: Any) -> list[Any]:
        """What each returned; nothing while they are running already."""
        if self._running:
            return []
        self._running = True
        try:
            return [callback(*arguments) for callback in self]
        finally:
            self._running = False
