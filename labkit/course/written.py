"""The reader's own functions: at work in the chapter that asked for them, and kept at its end."""

import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

_REFUSED: dict[Any, bool] = {}
"""The code of each function whose latest check failed -> whether its reader was told what runs
instead. A cell that is run again has equal code."""


def yours(answer: Callable[..., Any], finished: Callable[..., Any]) -> Callable[..., Any]:
    """Calls go to `answer`, and to `finished` while `answer` is a stub or its check refuses it.

    So what a reader wrote is used further on, and a notebook runs on without it. A function that
    is written again under the same name is called at once.

    finished  does the same; what both raise and return is the caller's
    """

    @functools.wraps(answer)
    def call(*args: Any, **kwargs: Any) -> Any:
        now = _latest(answer)
        if is_refused(now):
            _tell(now)
            return finished(*args, **kwargs)
        try:
            return now(*args, **kwargs)
        except NotImplementedError:
            return finished(*args, **kwargs)

    return call


def judged(answer: Any, right: bool) -> None:
    """What the latest check found about it: `yours` calls no answer that is known to be wrong."""
    if code := getattr(answer, "__code__", None):
        if right:
            _REFUSED.pop(code, None)
        else:
            _REFUSED.setdefault(code, False)


def is_refused(answer: Callable[..., Any]) -> bool:
    """Whether it failed its latest check."""
    return getattr(answer, "__code__", None) in _REFUSED


def _tell(answer: Callable[..., Any]) -> None:
    if not _REFUSED[answer.__code__]:
        _REFUSED[answer.__code__] = True
        print(f"`{answer.__name__}` failed its check: the finished one runs here.")


def with_helpers(*functions: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """The functions, each after those of its notebook that it calls: what a reader may copy.

    A helper that the reader wrote is found by its name in the code; one in a variable is not.
    """
    found: dict[Callable[..., Any], None] = {}
    begun: set[Callable[..., Any]] = set()

    def add(function: Callable[..., Any]) -> None:
        begun.add(function)
        for helper in _helpers(function):
            if helper not in begun:
                add(helper)
        found[function] = None

    for function in functions:
        if function not in begun:
            add(function)
    return tuple(found)


def _helpers(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Functions of the same notebook that its code names."""
    if not inspect.isfunction(function):
        return
    for name in dict.fromkeys(_names(function.__code__)):
        named = function.__globals__.get(name)
        helper = inspect.unwrap(named) if callable(named) else None
        if inspect.isfunction(helper) and helper.__globals__ is function.__globals__:
            yield helper


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):  # a function, or before 3.12 a loop, inside of it
            yield from _names(constant)


def _latest(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The function that has the name of `answer` now, where it was defined."""
    now = getattr(answer, "__globals__", {}).get(answer.__name__)
    if not isinstance(now, FunctionType) or hasattr(now, "__wrapped__"):
        return answer
    return now if now.__qualname__ == answer.__qualname__ else answer
