"""Functions out of an answer's reach: put away, they ask before they do what they do.

A function that is put away holds other code, so a reference saved earlier does not help. It is put
away for all cases of a check at once, since a library has thousands of functions: to the checker,
and in threads that are not the answer's, it does what it always does.
"""

import contextlib
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from labkit.course.exercise import Exercise

IN_C = {"torch", "numpy"}
"""Libraries whose functions hold no Python code that could be swapped."""
NO_ANSWERS = ("labkit.course", "labkit.widgets")
"""Modules that are no part of the library that an answer rebuilds."""

Ask = Callable[[str], None]
"""Told the name of a function that is called; raises where an answer calls it."""
Function = types.FunctionType
Member = tuple[str, Any, str, Any]
"""The full name of something that can be called, its owner, its attribute there, and itself."""


@dataclass
class Asking:
    """What the code of a function that is put away does; `code` is what it held before."""

    function: Function
    name: str
    ask: Ask
    code: types.CodeType = field(init=False)

    @functools.cached_property
    def original(self) -> Function:
        """A function that does what this one did; made when first wanted, as few ever are."""
        return _twin(self.function, self.code)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the function returns, unless an answer calls it."""
        self.ask(self.name)
        return self.original(*args, **kwargs)


Drawer = list[tuple[Asking, types.CodeType]]
"""Functions that can be put away together, each with the code it then holds."""


_out: set[int] = set()
"""Which drawers are put away now, by their ids."""


@contextlib.contextmanager
def put_away(functions: Drawer) -> Iterator[None]:
    """The functions ask inside, and hold afterwards what they held before.

    A drawer that is away already stays so: who asks several checks puts it away once for them all.
    """
    if id(functions) in _out:
        yield
        return
    for asking, _ in functions:
        asking.code = asking.function.__code__
        vars(asking).pop("original", None)  # it may have been changed since it was last put away
    try:
        for asking, code in functions:
            asking.function.__code__ = code
        _out.add(id(functions))
        yield
    finally:
        _out.discard(id(functions))
        for asking, _ in functions:
            asking.function.__code__ = asking.code


def that_ask(functions: Iterable[tuple[Function, str]], ask: Ask) -> Drawer:
    """These functions, each under the name it is told by, ready to be put away."""
    found = [Asking(function, name, ask) for function, name in dict(functions).items()]
    return [(asking, code_of(asking)) for asking in found]


def code_of(asking: Asking) -> types.CodeType:
    """What its function holds while it is put away: code that calls `asking.call`."""
    template = _template(len(asking.function.__code__.co_freevars))
    consts = tuple(asking if const == "asking" else const for const in template.co_consts)
    return template.replace(co_consts=consts)


@functools.cache
def _template(free: int) -> types.CodeType:
    """Code for a function with that many free names: what is swapped in needs as many."""
    names = "".join(f"f{number}, " for number in range(free))
    source = (
        f"def make({names}):\n"
        f"    def put_away(*args, **kwargs):\n"
        f"        ({names})\n"
        f"        return 'asking'.call(args, kwargs)\n"
        f"    return put_away\n"
    )
    scope: dict[str, Any] = {}
    exec(source, scope)
    code: types.CodeType = scope["make"](*range(free)).__code__
    return code


def _twin(function: Function, code: types.CodeType) -> Function:
    """The same function with this code."""
    twin = Function(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def of_checker(exercise: Exercise) -> Iterator[tuple[Function, str]]:
    """The functions that know what is right: the exercise's module, except what it hands out."""
    module = sys.modules[exercise.case.__module__]
    own = [exercise.case, exercise.expected, exercise.judge, exercise.smaller, exercise.show]
    for found in (*vars(module).values(), *own):
        function = inspect.unwrap(found) if callable(found) else found
        if (
            isinstance(function, Function)
            and function is not exercise.drive
            and function.__module__ == module.__name__
            and not getattr(function, "__handed_out__", False)
        ):
            yield function, f"{function.__qualname__}() of the checker"


def banned(name: str, ask: Ask) -> tuple[Drawer, list[Member]]:
    """The functions that a banned name stands for, ready to be put away; and what is none.

    name  a function, a module, or with ".*" a library: of those, all functions and methods
    """
    root = name.removesuffix(".*")
    if root == name:
        return _sorted([(name, *member) for member in _of_name(name)], ask)
    if root in IN_C:
        return [], []
    return _of_modules(root, _loaded(root, len(sys.modules), next(reversed(sys.modules))), ask)


@functools.lru_cache(maxsize=4)
def _loaded(root: str, count: int, last: str) -> tuple[str, ...]:
    """The modules of a library that an answer might rebuild; asked again when more are loaded."""
    modules = (m for m in sys.modules if m == root or m.startswith(f"{root}."))
    return tuple(sorted(m for m in modules if not m.startswith(NO_ANSWERS)))


@functools.lru_cache(maxsize=4)
def _of_modules(root: str, modules: tuple[str, ...], ask: Ask) -> tuple[Drawer, list[Member]]:
    """Kept until more are loaded: there are hundreds of modules, and a check asks every stage."""
    members = (member for name in modules for member in _members(sys.modules[name]))
    return _sorted([(f"{root}.{attribute}", o, attribute, f) for o, attribute, f in members], ask)


def _sorted(members: list[Member], ask: Ask) -> tuple[Drawer, list[Member]]:
    functions = [(found, name) for name, _, _, found in members if isinstance(found, Function)]
    return that_ask(functions, ask), [m for m in members if not isinstance(m[3], Function)]


def _of_name(name: str) -> Iterator[tuple[Any, str, Any]]:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        if cut == len(parts):
            yield from _members(owner)
            return
        for part in parts[cut:-1]:
            owner = getattr(owner, part)
        yield owner, parts[-1], getattr(owner, parts[-1])
        return
    raise ValueError(f"banned name {name!r} names nothing")


def _members(module: types.ModuleType) -> Iterator[tuple[Any, str, Any]]:
    for attribute, found in list(vars(module).items()):
        if isinstance(found, type) and found.__module__ == module.__name__:
            for method, function in vars(found).items():
                if (
                    isinstance(function, Function)
                    and method not in ("__init_subclass__", "__del__")  # `del` may come any time
                    and function.__module__ != "enum"  # all enums share it, also those of `re`
                ):
                    yield found, f"{attribute}.{method}", function
        elif callable(found) and getattr(found, "__module__", "") == module.__name__:
            yield module, attribute, inspect.unwrap(found)
