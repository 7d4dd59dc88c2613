"""Whether the code that a chapter hands over at its end stands on its own."""

import ast
import builtins
import re
from collections.abc import Iterator

from labkit.course.chapters.chapter import Part, called

KEPT = re.compile(r"\bto keep\b")
NAMED = re.compile(r"`(\w+)")


def kept_problems(parts: list[Part]) -> Iterator[str]:
    """Names that the kept code needs and its reader is not told of.

    Whoever copies it out of the notebook has what it defines, what the chapter imports, and
    the names in backquotes above it.
    """
    shown = _last_shown(parts)
    if shown is None:
        return
    above, part = shown
    written = {name: node for one in parts for name, node in _definitions(one.tree)}
    kept = _named(part.calls("code")[-1]) & written.keys()
    told = {*NAMED.findall(above.source), *_imported(parts), *dir(builtins), *kept}
    for name in sorted(kept):
        if missing := sorted(_needed(written[name]) - told):
            said = ", ".join(missing)
            yield f"{name}, kept in cell {part.id}, needs {said}: name it in the text above"


def _last_shown(parts: list[Part]) -> tuple[Part, Part] | None:
    """The last cell that shows code under a text that says "to keep", and this text."""
    above = found = None
    for part in parts:
        if not part.is_code:
            above = part
        elif above and KEPT.search(above.source) and _shows_code(part):
            found = above, part
    return found


def _shows_code(part: Part) -> bool:
    return any(called(call) == "show.code" for call in part.calls("code"))


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node


def _imported(parts: list[Part]) -> set[str]:
    imports = [
        node
        for part in parts
        for node in part.tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return {(one.asname or one.name).split(".")[0] for node in imports for one in node.names}


def _named(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _needed(definition: ast.stmt) -> set[str]:
    """Names it reads and nothing in it binds."""
    nodes = list(ast.walk(definition))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    inner = (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler)
    bound |= {node.name for node in nodes if isinstance(node, inner) and node.name}
    return read - bound
