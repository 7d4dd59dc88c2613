"""The names a verdict hangs on: an answer that gives them another meaning gives it to nobody.

A process cannot guard against its own user: what is changed in place, a list or a closure, stays
changed. Guarded are the ways that look like answers.
"""

import random
import sys
import types
from collections.abc import Iterator, Sequence
from operator import call, is_
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
        own = (*CHECKER, exercise.case.__module__)
        modules = tuple(sys.modules[name] for name in own if name in sys.modules)
        known = _known.get(modules)
        if known is None or not known.are_as_they_were():
            known = _known[modules] = _Names([*_owners(modules)])
        self.names = known
        self.fields, self.had_fields = vars(exercise), dict(vars(exercise))

    def put_back(self) -> None:
        """Every name means again what it meant."""
        self.names.put_back()
        self.fields.update(self.had_fields)


_Owners = list[tuple[Any, dict[str, Any]]]
"""Modules and classes, each with some of its names and what they mean."""


class _Names:
    """Names and what they mean, in one row: after every call of an answer all are compared."""

    def __init__(self, owners: _Owners) -> None:
        self.sizes = [(vars(owner), len(vars(owner))) for owner, _ in owners]
        self.classes = [(owner, len(vars(owner)), n) for owner, n in owners if _is_class(owner)]
        self.rows = [(owner, name, n[name]) for owner, n in owners for name in n]
        self.reads = [vars(owner).get for owner, _, _ in self.rows]
        self.names = [name for _, name, _ in self.rows]
        self.values = [value for _, _, value in self.rows]

    def are_as_they_were(self) -> bool:
        """Whether a search would find these very names again: no other name has come."""
        return self._mean_the_same() and all(len(now) == size for now, size in self.sizes)

    def put_back(self) -> None:
        """They mean what they meant; and no new name of a class hides one of a base."""
        if not self._mean_the_same():
            for owner, name, value in self.rows:
                if vars(owner).get(name) is not value:
                    setattr(owner, name, value)
        for kind, size, names in self.classes:
            if len(vars(kind)) != size:
                for name in [n for n, v in vars(kind).items() if n not in names and _does(v)]:
                    delattr(kind, name)

    def _mean_the_same(self) -> bool:
        return all(map(is_, map(call, self.reads, self.names), self.values))


_known: dict[tuple[types.ModuleType, ...], _Names] = {}
"""What was found in these modules: found again only when some of it has changed."""


def _owners(modules: Sequence[types.ModuleType]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Modules and classes, each with the names of it that a verdict may need."""
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


def _is_class(owner: Any) -> bool:
    return isinstance(owner, type)


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
