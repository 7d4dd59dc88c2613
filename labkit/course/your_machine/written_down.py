"""An answer written out as the text of one module, with every helper and constant it uses.

Its functions stand in cells of a notebook or in a file, and use names of that place. Plain data is
written as it is now; functions, classes and what holds some are copied as the statements that made
them; what comes from elsewhere is imported.
"""

import ast
import dis
import importlib
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

from labkit.course.written import is_refused

PLAIN = (bool, int, float, complex, str, bytes, types.NoneType)
CONTAINERS = (tuple, list, set, frozenset)
CELLS = ("<ipython-input-", "ipykernel_")
"""How the files of a notebook's cells are named, in part."""
READS_A_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME"}
LONGEST = 100_000
"""Characters; what is longer is data, and no answer."""


class CannotBeKept(Exception):
    """An answer uses what no text can say; the message says what."""


def written_down(answer: Any) -> str:
    """The text of a module that defines the answer again, as `answer`.

    answer  a function, a class, or a tuple of them and of plain data

    Raises   CannotBeKept   its source cannot be found, or it uses an object that is no plain data
    """
    pieces = answer if isinstance(answer, tuple) else (answer,)
    writer = _Writer()
    names = [repr(piece) if is_plain(piece) else writer.add(piece) for piece in pieces]
    made = f"({', '.join(names)},)" if isinstance(answer, tuple) else names[0]
    text = "\n\n".join([*writer.text(), f"answer = {made}"]) + "\n"
    if len(text) > LONGEST:
        raise CannotBeKept(f"it takes {len(text):,} characters to write down")
    return text


class _Writer:
    """Collects statements, each behind those it needs."""

    def __init__(self) -> None:
        self.imports: list[str] = []
        self.constants: dict[str, str] = {}
        self.statements: list[str] = []
        self.done: set[str] = set()

    def text(self) -> list[str]:
        """Imports, then constants, then everything else."""
        constants = [f"{name} = {value}" for name, value in self.constants.items()]
        groups = ["\n".join(sorted(set(self.imports))), "\n".join(constants)]
        return [group for group in groups if group] + self.statements

    def add(self, function: Any) -> str:
        """The name under which the text now has this function or class."""
        function = _written_by_reader(function)
        name = getattr(function, "__name__", "")
        space = _space_of(function)
        if not name.isidentifier() or space is None:
            raise CannotBeKept(f"{name or function!r} has no source of its own")
        if getattr(function, "__closure__", None):
            raise CannotBeKept(f"{name} uses names of the function around it")
        self._statements_for(name, function, space)
        return name

    def _name(self, name: str, space: dict[str, Any]) -> None:
        """The text has what this name means there, unless it means nothing or a builtin."""
        if name in self.done or name not in space:
            return
        value = space[name]
        if is_plain(value):
            self.done.add(name)
            self.constants[name] = repr(value)
        elif isinstance(value, types.ModuleType):
            self.done.add(name)
            self.imports.append(
                f"import {value.__name__}" + (f" as {name}" if value.__name__ != name else "")
            )
        elif (home := _importable(value, space)) is not None:
            self.done.add(name)
            module, attribute = home
            self.imports.append(
                f"from {module} import {attribute}" + (f" as {name}" if attribute != name else "")
            )
        else:
            value = _written_by_reader(value)
            own = getattr(value, "__name__", name)
            if own != name and isinstance(value, types.FunctionType | type):
                self.add(value)
                self.done.add(name)
                self.statements.append(f"{name} = {own}")
            else:
                self._statements_for(name, value, space)

    def _statements_for(self, name: str, value: Any, space: dict[str, Any]) -> None:
        if name in self.done:
            return
        self.done.add(name)
        found = _statements(name, value, str(space.get("__file__", "")))
        if not found:
            raise CannotBeKept(f"the source of {name!r} cannot be found")
        for used in sorted({used for statement in found for used in _names(statement)}):
            self._name(used, space)
        self.statements += [ast.unparse(one) if text is None else text for one, text in found]


Statement = tuple[ast.stmt, str | None]


def _names(statement: Statement) -> set[str]:
    """The names outside of it that a statement uses."""
    module = ast.Module(body=[statement[0]], type_ignores=[])
    return global_names(compile(module, "<statement>", "exec"))


def global_names(code: types.CodeType) -> set[str]:
    """The global names that code reads, and the code inside of it."""
    found = {step.argval for step in dis.get_instructions(code) if step.opname in READS_A_GLOBAL}
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found |= global_names(const)
    return found


def _statements(name: str, value: Any, file: str) -> list[Statement]:
    """The newest statements that gave the name its value; one, and what changed it since.

    file  of the module it is used in, "" in a notebook
    """
    for text in _texts(value, file):
        try:
            body = ast.parse(text).body
        except SyntaxError:
            continue
        found: list[Statement] = []
        for statement in body:
            if _binds(statement, name):
                again = isinstance(statement, ast.AugAssign)
                found = [*(found if again else []), (statement, _segment(text, statement))]
        if found and not isinstance(found[0][0], ast.AugAssign):
            return found
    return []


def _segment(text: str, statement: ast.stmt) -> str | None:
    """The statement as it was written; decorators that the answer's place added are left out."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        statement.decorator_list = [one for one in statement.decorator_list if _stays(one)]
        if statement.decorator_list:
            return None
    return ast.get_source_segment(text, statement)


def _stays(decorator: ast.expr) -> bool:
    """Whether a decorator is part of the answer: those of the standard library are."""
    named = ast.unparse(decorator).partition("(")[0]
    return named in STANDARD_DECORATORS


STANDARD_DECORATORS = {
    "cache", "functools.cache", "lru_cache", "functools.lru_cache", "wraps", "functools.wraps",
    "contextmanager", "contextlib.contextmanager", "dataclass", "dataclasses.dataclass",
    "total_ordering", "functools.total_ordering",
}  # fmt: skip


def _binds(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return statement.name == name
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    flat = [node for target in targets for node in ast.walk(target)]
    return any(isinstance(node, ast.Name) and node.id == name for node in flat)


def _texts(value: Any, file: str) -> Iterator[str]:
    """Where its statements may stand, the likeliest first: its own file, then the cells."""
    code = getattr(value, "__code__", None)
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    own = getattr(module, "__file__", None) if code is None else code.co_filename
    cells = [name for name in linecache.cache if any(part in name for part in CELLS)]
    for name in (own, file, *reversed(cells)):
        if name and (lines := linecache.getlines(name)):
            yield textwrap.dedent("".join(lines))


def _space_of(function: Any) -> dict[str, Any] | None:
    function = inspect.unwrap(function)
    if isinstance(function, types.FunctionType):
        return function.__globals__
    module = sys.modules.get(getattr(function, "__module__", ""))
    return vars(module) if isinstance(function, type) and module is not None else None


def _written_by_reader(value: Any) -> Any:
    """Behind `course.yours`: the reader's own function, or the finished one where that runs."""
    if getattr(value, "__wrapped__", None) is None or not isinstance(value, types.FunctionType):
        return value
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    held = dict(zip(value.__code__.co_freevars, cells, strict=True))
    if held.keys() != {"answer", "finished"}:
        return value
    is_stub = "NotImplementedError" in getattr(held["answer"], "__code__", value.__code__).co_names
    return held["finished"] if is_stub or is_refused(held["answer"]) else held["answer"]


def _importable(value: Any, space: dict[str, Any]) -> tuple[str, str] | None:
    """(module, name) under which anybody can import it; None for what is the answer's own."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "." in name:
        return None
    if module in (space.get("__name__"), "__main__") or _is_yours(value):
        return None
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        return None
    return (module, name) if found is value else None


def _is_yours(value: Any) -> bool:
    return _written_by_reader(value) is not value


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether `repr` writes the value so that Python reads the same again."""
    kind = type(value)
    if kind in (float, complex):
        return "n" not in repr(value)  # neither inf nor nan
    if kind in PLAIN:
        return True
    if depth > 6:
        return False
    if kind in CONTAINERS:
        return all(is_plain(item, depth + 1) for item in value)
    if kind is dict:
        return all(is_plain(k, depth + 1) and is_plain(v, depth + 1) for k, v in value.items())
    return False
