"""The names a verdict hangs on: an answer that gives them another meaning gives it to nobody.

A process cannot guard against its own user: what is changed in place, a list or a closure, stays
changed. Guarded are the ways that look like answers.
"""

import random
import sys
import types
from collections.abc import Iterator
from operator import is_
from typing import Any

from labkit.course.exercise import Exercise

CHECKER = tuple(
    f"labkit.course.{name}"
    for name in (
        "checks", "compare", "exercise", "progress_file",
        *(f"checking.{each}" for each in (
            "digest", "guard", "keeper", "own_names", "put_away", "reach", "stages", "stopwatch",
            "tester", "verdicts",
        )),
    )
)  # fmt: skip
SETS_CODE = {"__code__", "__defaults__", "__kwdefaults__"}
"""Attributes of a function that change it wherever it is held."""


def changes_ours(event: str, arguments: Any) -> bool:
    """Whether an audit event tells of other code for a function of labkit's or of `random`'s."""
    if event != "object.__setattr__" or arguments[1] not in SETS_CODE:
        return False
    module = getattr(arguments[0], "__module__", None) or ""
    return module == "random" or module.startswith("labkit.")


class OwnNames:
    """What the checker and one exercise call by name, as it was when this was made."""

    def __init__(self, exercise: Exercise) -> None:
        fields = vars(exercise)
        self.names = [_Names(owner, found) for owner, found in _owners(exercise)]
        self.fields, self.had_fields = fields, dict(fields)

    def put_back(self) -> None:
        """Every name means again what it meant."""
        for names in self.names:
            names.put_back()
        self.fields.update(self.had_fields)


class _Names:
    """Some names of one module or class."""

    def __init__(self, owner: Any, names: dict[str, Any]) -> None:
        self.owner, self.now = owner, vars(owner)
        self.size, self.names, self.values = len(self.now), [*names], [*names.values()]

    def put_back(self) -> None:
        """They mean what they meant; and no new name of a class hides one of a base."""
        if not all(map(is_, map(self.now.get, self.names), self.values)):
            for name, value in zip(self.names, self.values, strict=True):
                if self.now.get(name) is not value:
                    setattr(self.owner, name, value)
        if isinstance(self.owner, type) and len(self.now) != self.size:
            for name in [n for n, v in self.now.items() if n not in self.names and _does(v)]:
                delattr(self.owner, name)


def _owners(exercise: Exercise) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Modules and classes, each with the names of it that a verdict may need."""
    own = (*CHECKER, exercise.case.__module__)
    modules = [sys.modules[name] for name in own if name in sys.modules]
    mentioned: set[str] = set()
    libraries: set[types.ModuleType] = set()
    for module in modules:
        names = {n: v for n, v in vars(module).items() if _does(v) or n.isupper()}
        yield module, names
        for found in names.values():
            if isinstance(found, type) and found.__module__ == module.__name__:
                yield found, _code_of(found)
            elif isinstance(found, types.ModuleType):
                libraries.add(found)
            mentioned |= _mentions(found)
    for library in libraries - set(modules):
        yield library, {n: v for n, v in vars(library).items() if n in mentioned and _does(v)}
    yield random.Random, _code_of(random.Random)


def _code_of(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if _does(value)}


def _does(value: Any) -> bool:
    """Whether it is code rather than data, which may change as answers run."""
    return callable(value) or hasattr(type(value), "__get__") or type(value) is types.ModuleType


def _mentions(found: Any) -> set[str]:
    """The names in the code of a function, or of all methods of a class."""
    functions = vars(found).values() if isinstance(found, type) else [found]
    return set().union(
        *(one.__code__.co_names for one in functions if isinstance(one, types.FunctionType))
    )
