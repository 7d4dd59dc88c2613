"""A registration of a hook that can be taken back.

Source   torch/utils/hooks.py  RemovableHandle
"""

import itertools
import weakref
from collections.abc import Callable
from typing import Any

_ids = itertools.count()


class Hooks(dict[int, Callable[..., Any]]):
    """Hooks by the number of their handle, in the order of their registration."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """One registered hook; `remove()` takes it back, as leaving a `with` does.

    The hooks are held weakly: a handle does not keep a graph alive.

    Source   torch/utils/hooks.py  RemovableHandle
    """

    def __init__(self, hooks: Hooks, hook: Callable[..., Any]) -> None:
        self.id = next(_ids)
        self._hooks = weakref.ref(hooks)
        hooks[self.id] = hook

    def remove(self) -> None:
        """The hook does not fire again; removing it twice does nothing."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()
