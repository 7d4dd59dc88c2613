"""Which names of a notebook hold what its run found out, as far as its text tells."""

import ast
from collections.abc import Iterator

PURE = {
    "abs", "all", "any", "bool", "dict", "float", "frozenset", "int", "isinstance", "len", "list",
    "max", "min", "range", "repr", "round", "set", "sorted", "str", "sum", "tuple", "zip",
}  # fmt: skip
"""Builtins that find out nothing: what they return is as measured as what they are given."""
PURE_MODULES = {"inspect", "math", "operator", "re", "textwrap"}

Binding = tuple[set[str], list[ast.expr], bool]
"""Names, the expressions they depend on, and whether an exception may have decided."""


def measured_names(trees: list[ast.Module]) -> set[str]:
    """Names assigned from something that was run or looked up, or from another such name.

    Literals, and what is worked out from literals alone, are not measured; a literal assigned in
    a branch, a loop or a `try` is as measured as what decided that it was reached.
    """
    bindings = [binding for tree in trees for binding in _bindings(tree.body, [], False)]
    own = set().union(*(names for names, _, _ in bindings))
    found: set[str] = set()
    grew = True
    while grew:
        before = len(found)
        for names, values, tried in bindings:
            if tried or any(_measures(value, found, own) for value in values):
                found |= names
        grew = len(found) > before
    return found


def _measures(value: ast.expr, measured: set[str], own: set[str]) -> bool:
    """Whether this names a measured name, or one that no cell assigned: a module, a function."""
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    return bool(names & measured or names - own - PURE - PURE_MODULES)


def _bindings(body: list[ast.stmt], controls: list[ast.expr], tried: bool) -> Iterator[Binding]:
    """What every statement binds; the insides of functions and classes are nobody else's names."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            continue
        for names, value in _bound(statement):
            yield names, [value, *controls], tried
        inner = [*controls, *_controls(statement)]
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                names = {handler.name} if handler.name else set()
                yield names, [], True
                yield from _bindings(handler.body, inner, True)
        for block in ("body", "orelse", "finalbody"):
            inside = tried or isinstance(statement, ast.Try)
            yield from _bindings(getattr(statement, block, []), inner, inside)


def _controls(statement: ast.stmt) -> list[ast.expr]:
    """What decides whether, and how often, the blocks of a statement run."""
    if isinstance(statement, ast.If | ast.While):
        return [statement.test]
    return [statement.iter] if isinstance(statement, ast.For) else []


def _bound(statement: ast.stmt) -> Iterator[tuple[set[str], ast.expr]]:
    """(names, value) of one statement, without its blocks."""
    if isinstance(statement, ast.Assign):
        yield set().union(*map(_names, statement.targets)), statement.value
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign) and statement.value:
        yield _names(statement.target), statement.value
    elif isinstance(statement, ast.For):
        yield _names(statement.target), statement.iter
    elif isinstance(statement, ast.With):
        for item in statement.items:
            if item.optional_vars:
                yield _names(item.optional_vars), item.context_expr
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield from _put_into(statement.value)
    for expression in ast.iter_child_nodes(statement):
        if isinstance(expression, ast.expr):
            for node in ast.walk(expression):
                if isinstance(node, ast.comprehension):
                    yield _names(node.target), node.iter
                elif isinstance(node, ast.NamedExpr):
                    yield _names(node.target), node.value


def _put_into(call: ast.Call) -> Iterator[tuple[set[str], ast.expr]]:
    """`kept.append(found)`: what is put into a list is in it."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        for argument in call.args:
            yield {call.func.value.id}, argument


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
