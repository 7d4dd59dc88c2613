"""Whether calls are recorded: context managers that are decorators as well.

    with no_grad(): ...
    @no_grad()
    def evaluate(model): ...

Source   torch/autograd/grad_mode.py
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from labkit.autograd.state import STATE
from labkit.core.tensor_impl import make_inference_tensors
from labkit.dispatch import tls


class _Decorator:
    """A context manager that wraps functions too: each call enters it anew.

    Source   torch/utils/_contextlib.py  context_decorator
    """

    def _again(self) -> "_Decorator":
        """A fresh one with the same settings, for one call."""
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *_exception: object) -> None:
        raise NotImplementedError

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, running inside."""
        if inspect.isclass(function):
            raise TypeError(f"cannot decorate the class {function.__name__}; decorate its methods")
        if inspect.isgeneratorfunction(function):
            raise TypeError(f"cannot decorate the generator {function.__name__}; use `with` in it")

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return inside


class _NoParameters(_Decorator):
    """May decorate without being called: `@no_grad`."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """The context manager; or, given a function, that function inside it."""
        if function is None:
            return super().__new__(cls)
        return cls()(function)


class no_grad(_NoParameters):
    """Calls inside are not recorded.

    Source   torch/autograd/grad_mode.py  no_grad
    """

    _mode = False

    def __enter__(self) -> None:
        self._before = STATE.grad
        STATE.grad = self._mode

    def __exit__(self, *_exception: Any) -> None:
        STATE.grad = self._before


class enable_grad(no_grad):
    """Calls inside are recorded, even within `no_grad`.

    Source   torch/autograd/grad_mode.py  enable_grad
    """

    _mode = True


class set_grad_enabled(_Decorator):
    """Calls are recorded or not from now on; after a `with`, as before it.

    Source   torch/autograd/grad_mode.py  set_grad_enabled
    """

    def __init__(self, mode: bool) -> None:
        self._before = STATE.grad
        self.mode = bool(mode)
        STATE.grad = self.mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, running in that mode; the mode outside is as before."""
        STATE.grad = self._before
        return super().__call__(function)

    def __enter__(self) -> None:
        STATE.grad = self.mode

    def __exit__(self, *_exception: Any) -> None:
        STATE.grad = self._before

    def _again(self) -> "set_grad_enabled":
        return set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(_Decorator):
    """Calls inside are not recorded, and tensors made inside can never take part in recording.

    mode   False lifts an inference mode that is open

    Source   torch/autograd/grad_mode.py  inference_mode
             c10/core/InferenceMode.h
    """

    def __new__(cls, mode: Any = True) -> Any:
        """The context manager; or, given a function, that function inside it."""
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self._before = (STATE.grad, STATE.inference)
        self._guard = tls.InferenceMode(self.mode)
        self._guard.__enter__()
        self._fresh = make_inference_tensors(self.mode)
        STATE.grad, STATE.inference = not self.mode, self.mode

    def __exit__(self, *_exception: Any) -> None:
        STATE.grad, STATE.inference = self._before
        make_inference_tensors(self._fresh)
        self._guard.__exit__()

    def _again(self) -> "inference_mode":
        return inference_mode(self.mode)


def is_grad_enabled() -> bool:
    """True while calls are recorded."""
    return STATE.grad


def is_inference_mode_enabled() -> bool:
    """True inside `inference_mode`."""
    return STATE.inference
