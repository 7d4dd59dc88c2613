"""What is wrong with the claims of a chapter: one table, decided by what was measured."""

import ast
import re
from collections.abc import Iterator

from labkit.course.benches.measured import measured_names
from labkit.course.chapters.chapter import Part

CLAIM_ID = re.compile(r"\bD\d-[\w.]+-[a-z]+\b")
ITS_WORDS = re.compile(r"\b(?:claims?|verdicts?|evidence|the document)\b", re.IGNORECASE)


def claim_table_problems(parts: list[Part], owned: list[str]) -> Iterator[str]:
    """Claims that show outside the table, are not in it, or are decided by no measurement."""
    for part in parts[1:]:
        shown = part.source if not part.is_code or part.is_visible_code else ""
        if found := CLAIM_ID.search(shown) or ITS_WORDS.search(shown):
            yield f"cell {part.id} says {found[0]!r} outside the table at the end"
    tables = [(part, call) for part in parts for call in part.calls("checked")]
    if len(tables) != bool(owned):
        yield f"{len(tables)} calls of course.checked, {int(bool(owned))} wanted"
    for part, call in tables:
        yield from _table(parts, part, call, owned)


def _table(parts: list[Part], part: Part, call: ast.Call, owned: list[str]) -> Iterator[str]:
    if part is not [p for p in parts if p.is_code][-1]:
        yield f"the table in cell {part.id} is not the last thing of the chapter"
    holds = call.args[0] if call.args else ast.Dict(keys=[], values=[])
    settles = next((k.value for k in call.keywords if k.arg == "settles"), None)
    entries = [*_entries(holds), *(_entries(settles) if settles else [])]
    listed = [claim_id for claim_id, _ in entries]
    if sorted(listed) != sorted(owned):
        yield f"the table and the claims it owns differ: {sorted({*listed} ^ {*owned})}"
    measured = measured_names([p.tree for p in parts])
    for claim_id, value in _entries(holds):
        decided = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
        if not _names(decided) & measured:
            yield f"{claim_id} is decided by nothing that a cell measured: {ast.unparse(decided)}"
        elif _decides_nothing(decided):
            yield f"{claim_id} comes out the same whatever was measured: {ast.unparse(decided)}"


def _entries(node: ast.expr) -> list[tuple[str, ast.expr]]:
    if not isinstance(node, ast.Dict):
        return []
    pairs = zip(node.keys, node.values, strict=True)
    return [(str(k.value), v) for k, v in pairs if isinstance(k, ast.Constant)]


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _decides_nothing(node: ast.AST) -> bool:
    """Whether a part of this is a thing compared with itself, or a literal in `and` or `or`."""
    if isinstance(node, ast.Compare) and ast.dump(node.left) == ast.dump(node.comparators[0]):
        return True
    if isinstance(node, ast.BoolOp) and any(isinstance(v, ast.Constant) for v in node.values):
        return True
    return any(map(_decides_nothing, ast.iter_child_nodes(node)))
