"""What of a library an answer can get at: nothing, where its exercise bans the library.

Two ways lead to a library. Its modules, wherever one is found: they refuse every attribute to an
answer (`sealed`). And what was saved of it earlier, a type or a function in C that no mode sees:
the walk over everything an answer holds finds it (`held`).

    Differs   an answer that digs in the interpreter's memory by ctypes finds what it likes.
"""

import collections
import contextlib
import dis
import functools
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from typing import Any

HARMLESS = {"__class__", "__doc__", "__file__", "__loader__", "__name__", "__path__", "__spec__"}
"""Attributes that `import` and inspection ask every module for."""
DIGS = {"__closure__", "__globals__", "__subclasses__", "cell_contents", "f_globals", "f_locals"}
"""Names by which code finds what was given to nobody."""
_HANDED_OUT = {"labkit", *sys.stdlib_module_names}
"""Roots of modules whose functions are not the answer's own: what they hold, they hold for us."""
_NAMED_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME"}


@contextlib.contextmanager
def sealed(
    libraries: Collection[str], running: Sized, ask: Callable[[str], None]
) -> Iterator[None]:
    """While `running` is not empty, loaded modules tell `ask` which attribute of them is wanted.

    What a library asks of itself, and labkit of it, goes unasked: a destructor or a driver may
    run in the middle of an answer. What is sealed already stays so.
    """
    kinds: dict[type, type] = {}
    changed: list[tuple[types.ModuleType, type]] = []
    names = _loaded(frozenset(libraries), len(sys.modules), next(reversed(sys.modules)))
    for module in map(sys.modules.get, names):
        if isinstance(module, types.ModuleType):
            kind = type(module)
            if hasattr(kind, "asks_answers"):  # an outer check has sealed it
                continue
            if kind not in kinds:
                kinds[kind] = _asking(kind, {"labkit", *libraries}, running, ask)
            changed.append((module, kind))
            object.__setattr__(module, "__class__", kinds[kind])  # some guard their attributes
    try:
        yield
    finally:
        for module, kind in changed:
            object.__setattr__(module, "__class__", kind)


@functools.lru_cache(maxsize=8)
def _loaded(libraries: frozenset[str], count: int, last: str) -> tuple[str, ...]:
    """The names of these libraries' modules; looked for again only when more are loaded."""
    inside = tuple(f"{library}." for library in libraries)
    return tuple(n for n in [*sys.modules] if n.startswith(inside) or n in libraries)


def _asking(
    kind: type, trusted: Collection[str], running: Sized, ask: Callable[[str], None]
) -> type:
    def attribute(module: types.ModuleType, name: str) -> Any:
        if running and name not in HARMLESS:
            asks = sys._getframe(1).f_globals.get("__name__")
            if _root(asks) not in trusted:
                ask(f"{types.ModuleType.__getattribute__(module, '__name__')}.{name}")
        return kind.__getattribute__(module, name)  # type: ignore[call-arg, arg-type]

    return type(kind.__name__, (kind,), {"__getattribute__": attribute, "asks_answers": True})


def held(answer: Any, libraries: Collection[str]) -> str:
    """What of these libraries the answer holds, in words; "" when nothing.

    Followed are the globals that its code names, closures, defaults, the classes and objects it
    uses and what is in them. Modules are no find: they are sealed.
    """
    seen: dict[int, Any] = {}
    todo: list[tuple[str, Any]] = [("the answer", answer)]
    while todo:
        name, found = todo.pop()
        if id(found) in seen or isinstance(found, (str, bytes, int, float, types.NoneType)):
            continue
        seen[id(found)] = found
        if isinstance(found, types.ModuleType) and sys.modules.get(found.__name__) is found:
            continue
        if not _of(found).isdisjoint(libraries):
            return f"{name}, which is {_in_words(found)}"
        if digs := _digs(found):
            return f"{digs[0]}, which finds everything"
        todo += _parts(name, found)
    return ""


def _digs(found: Any) -> list[str]:
    if not isinstance(found, types.CodeType):
        return []
    return sorted(DIGS & {*found.co_names, *(c for c in found.co_consts if isinstance(c, str))})


def _root(name: Any) -> str:
    return name.partition(".")[0] if isinstance(name, str) else ""


def _of(found: Any) -> set[str]:
    """The roots of all modules that this object, its type or its owner comes from."""
    kind = found if isinstance(found, type) else type(found)
    roots = {_root(base.__dict__.get("__module__", base.__module__)) for base in kind.__mro__}
    if isinstance(found, _FUNCTIONS):
        owner = getattr(found, "__objclass__", None)
        roots |= {_root(getattr(found, "__module__", "")), _root(getattr(owner, "__module__", ""))}
    elif isinstance(found, types.ModuleType):
        roots.add(_root(found.__name__))
    return roots


_FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
)  # fmt: skip


def _in_words(found: Any) -> str:
    kind = found if isinstance(found, type) else type(found)
    name = getattr(found, "__qualname__", None) or f"a {kind.__qualname__}"
    module = getattr(found, "__module__", None) or kind.__module__
    return f"{module}.{name}" if isinstance(found, (type, *_FUNCTIONS)) else f"{name} of {module}"


def _parts(name: str, found: Any) -> Iterable[tuple[str, Any]]:
    """What an object gives access to, each with the name to tell the reader."""
    if isinstance(found, types.FunctionType):
        return [] if _root(found.__module__) in _HANDED_OUT else _of_function(name, found)
    if isinstance(found, types.CodeType):
        return [(name, constant) for constant in found.co_consts]
    if isinstance(found, types.GeneratorType):
        frame = found.gi_frame
        inside = [] if frame is None else [*frame.f_locals.items()]
        return [*inside, *([] if frame is None else _named(found.gi_code, frame.f_globals))]
    if isinstance(found, (list, tuple, set, frozenset, collections.deque)):
        return [(name, part) for part in found]
    if isinstance(found, dict):
        return [(name, part) for pair in found.items() for part in pair]
    if isinstance(found, type):
        if _root(found.__module__) in _HANDED_OUT:
            return []
        return [(f"{name}.{n}", part) for n, part in [*vars(found).items()]]
    return _of_object(name, found)


def _of_function(name: str, found: types.FunctionType) -> list[tuple[str, Any]]:
    parts: list[tuple[str, Any]] = [(name, found.__code__), (name, vars(found))]
    parts += [*_named(found.__code__, found.__globals__)]
    for variable, cell in zip(found.__code__.co_freevars, found.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell
            parts.append((variable, cell.cell_contents))
    return [*parts, (name, found.__defaults__), (name, found.__kwdefaults__)]


def _named(code: types.CodeType, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The globals that code names; all of them where it asks for `globals`."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _NAMED_GLOBALS and instruction.argval in names:
            yield instruction.argval, names[instruction.argval]
        elif instruction.opname in _NAMED_GLOBALS and instruction.argval == "globals":
            yield from names.items()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _named(constant, names)


def _of_object(name: str, found: Any) -> list[tuple[str, Any]]:
    """The parts of an object that is no container."""
    if isinstance(found, property):
        return [(name, part) for part in (found.fget, found.fset, found.fdel)]
    if isinstance(found, functools.partial):
        return [(name, part) for part in (found.func, found.args, found.keywords)]
    parts = [
        (name, getattr(found, attribute, None))
        for attribute in ("__func__", "__self__")
        if isinstance(found, (*_FUNCTIONS, staticmethod, classmethod))
    ]
    if _root(type(found).__module__) not in _HANDED_OUT:
        parts.append((name, type(found)))
    try:
        inside = object.__getattribute__(found, "__dict__")
    except (AttributeError, TypeError):
        inside = {}
    slots = [s for kind in type(found).__mro__ for s in kind.__dict__.values()]
    for slot in slots:
        if isinstance(slot, types.MemberDescriptorType):
            with contextlib.suppress(AttributeError):
                parts.append((f"{name}.{slot.__name__}", slot.__get__(found)))
    return [*parts, *((f"{name}.{key}", part) for key, part in [*inside.items()])]
