"""Tells whether an answer has changed: what its code does counts, not its layout or comments."""

import hashlib
import types
from typing import Any

DEEPEST = 6


def digest(answer: Any) -> str:
    """Twelve digits that change when the answer's code, a helper or a table it names, changes."""
    return hashlib.sha256("\n".join(_parts(answer, set(), 0)).encode()).hexdigest()[:12]


def _parts(value: Any, seen: set[int], depth: int) -> list[str]:
    if depth > DEEPEST or id(value) in seen:
        return ["..."]
    if isinstance(value, types.CodeType):
        consts = value.co_consts[1:] if _has_docstring(value) else value.co_consts
        inner = [part for const in consts for part in _parts(const, seen, depth + 1)]
        return [value.co_code.hex(), repr(value.co_names), repr(value.co_varnames), *inner]
    if isinstance(value, types.FunctionType):
        seen.add(id(value))
        parts = _parts(value.__code__, seen, depth)
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_full(cell)]
        helpers = [
            value.__globals__[name]
            for name in sorted(_names(value.__code__))
            if _belongs(value.__globals__.get(name), value)
        ]
        for other in (*cells, *helpers, *(value.__defaults__ or ())):
            parts += _parts(other, seen, depth + 1)
        return parts
    if isinstance(value, type):
        seen.add(id(value))
        members = sorted((k, v) for k, v in vars(value).items() if not k.startswith("__dict"))
        return [p for k, v in members for p in (k, *_parts(v, seen, depth + 1))]
    if isinstance(value, list | dict):
        seen.add(id(value))  # a table may hold itself
    if isinstance(value, list | tuple):
        return [part for item in value for part in _parts(item, seen, depth + 1)]
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in (repr(k), *_parts(v, seen, depth + 1))]
    if isinstance(value, str | int | float | complex | bytes | bool | type(None)):
        return [repr(value)]
    return [type(value).__qualname__]


def _names(code: types.CodeType) -> set[str]:
    """What the code names, in its comprehensions and inner functions, too."""
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _belongs(named: Any, function: types.FunctionType) -> bool:
    """Whether a global is a part of the answer: a function written beside it, or data."""
    if isinstance(named, types.FunctionType):
        return named.__module__ == function.__module__
    return isinstance(named, list | tuple | dict | str | int | float)


def _has_docstring(code: types.CodeType) -> bool:
    return bool(code.co_consts) and isinstance(code.co_consts[0], str)


def _is_full(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
