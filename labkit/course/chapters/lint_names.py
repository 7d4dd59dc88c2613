"""What is wrong with the names of a chapter: none may come from nowhere."""

import ast
import re
from collections.abc import Iterator

from labkit.course.chapters.chapter import FENCED, Part, called

KNOWN = {"course", "lab", "labkit", "show", "MIB"}
"""labkit's own, in every chapter, and a unit."""
SAID = re.compile(r"`([^`]+)`")
WORD = re.compile(r"[^\W\d]\w*")
SCOPES = (
    ast.FunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def name_problems(parts: list[Part]) -> Iterator[str]:
    """Names that visible code uses, only hidden code makes, and no text has said by then.

    Said means: in backticks, in a text above the cell or right below it. A name imported from
    elsewhere than labkit is known by its own documentation, one that begins with `finished` says
    itself what it is, and what is handed to `reveal` fills the reasons of a prediction.
    """
    hidden: set[str] = set()
    known = set(KNOWN)
    for at, part in enumerate(parts):
        if not part.is_code:
            known |= _said(part)
        elif not part.is_visible_code:
            hidden |= _made(part.tree) - _from_elsewhere(part.tree) - _asked(part)
        else:
            known |= _made(part.tree, inside=True)
            below = parts[at + 1 : at + 2]
            said = known.union(*(_said(one) for one in below if not one.is_code))
            for name in sorted(hidden & _used(part.tree) - said):
                if not name.lower().startswith("finished"):
                    yield f"cell {part.id} uses {name}, which a hidden cell makes and no text says"
                    known.add(name)


def _said(part: Part) -> set[str]:
    return {
        word for code in SAID.findall(FENCED.sub("", part.source)) for word in WORD.findall(code)
    }


def _asked(part: Part) -> set[str]:
    """The variables of the predictions that a cell asks."""
    assigned = [node for node in part.tree.body if isinstance(node, ast.Assign)]
    asked = [n for n in assigned if isinstance(n.value, ast.Call) and "predict" in called(n.value)]
    return set().union(*map(_made, asked))


def _made(tree: ast.AST, inside: bool = False) -> set[str]:
    """Every name that is bound.

    inside  also within functions, classes and comprehensions, arguments too
    """
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= _imported(node)
        if inside or not isinstance(node, SCOPES):
            found |= _made(node, inside)
    return found


def _from_elsewhere(tree: ast.AST) -> set[str]:
    """What is imported, and not from labkit."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("labkit"):
            found |= _imported(node)
        elif isinstance(node, ast.Import):
            found |= {n for n in _imported(node) if n != "labkit"}
    return found


def _imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {(one.asname or one.name).partition(".")[0] for one in node.names}


def _used(tree: ast.AST) -> set[str]:
    """Names that are read, but for those handed to `reveal`."""
    if isinstance(tree, ast.Call) and called(tree).endswith(".reveal"):
        return set()
    own = {tree.id} if isinstance(tree, ast.Name) and isinstance(tree.ctx, ast.Load) else set()
    return own.union(*(_used(child) for child in ast.iter_child_nodes(tree)))
