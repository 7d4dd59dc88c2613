"""An exercise not begun shows its card: it is no attempt, costs no hint, and stops no notebook."""

import ast
import functools
import itertools

import pytest

from labkit.course.checks import NotAttempted
from labkit.course.notebook_form import notebook_name, notebook_paths, read_notebook, tags
from labkit.widgets.lesson.exercise_card import ExerciseCard


def given(cells, stub):
    """What a stub finds ready before it comes to its gap: functions, hidden classes, and the
    imports and constants that it names.
    """
    named = {node.id for node in ast.walk(ast.parse(stub)) if isinstance(node, ast.Name)}
    before = [cell for cell in cells if "exercise" not in tags(cell)]
    nodes = [
        (node, "backstage" in tags(cell)) for cell in before for node in statements(cell["source"])
    ]
    found = [node for node, hidden in nodes if stands_alone(node, hidden) or named & bound(node)]
    return "\n".join(map(ast.unparse, found))


@functools.cache
def statements(source):
    """What a cell is made of: every later stub of its notebook asks."""
    return ast.parse(source).body


def bound(node):
    """The names that an import, or a constant, gives a meaning."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return set()


def stands_alone(node, hidden):
    """A definition that needs nothing of the cells before it, until it is called."""
    if isinstance(node, ast.ClassDef):
        return hidden and not node.bases
    if not isinstance(node, ast.FunctionDef) or node.decorator_list:
        return False
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    return all(isinstance(default, ast.Constant) for default in defaults)


def stubs():
    """Every exercise of every notebook: imports and what is given, the stub, and its check."""
    for path in notebook_paths():
        cells = [cell for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code"]
        imports = next(cell["source"] for cell in cells if "import" in cell["source"])
        for stub, check in itertools.pairwise(cells):
            if "exercise" in tags(stub):
                identity = f"{notebook_name(path)} {check['source'].splitlines()[-1][:40]}"
                before = f"{imports}\n{given(cells[: cells.index(stub)], stub['source'])}"
                yield pytest.param(before, stub["source"], check["source"], id=identity)


STUBS = list(stubs())


def asked(before, stub, check):
    """What the check of a stub says, when all that stands above it has run."""
    namespace = {}
    exec(compile(f"from __future__ import annotations\n{before}", "before", "exec"), namespace)
    exec(compile(ast.parse(stub), "stub", "exec"), namespace)
    *_, call = ast.parse(check).body
    assert isinstance(call, ast.Expr), "the check is the last thing its cell does"
    return eval(compile(ast.Expression(call.value), "check", "eval"), namespace)


@pytest.mark.parametrize(("before", "stub", "check"), STUBS)
def test_an_untouched_stub_is_no_attempt(before, stub, check, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", "off")
    card = asked(before, stub, check)
    assert isinstance(card, ExerciseCard) and "your turn" in repr(card)
    assert card.statement and card.solution == ""


@pytest.mark.parametrize(("before", "stub", "check"), STUBS[:3])
def test_where_answers_should_be_an_untouched_stub_is_an_error(before, stub, check, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", "off")
    monkeypatch.setenv("LABKIT_UNFINISHED", "fails")
    with pytest.raises(NotAttempted, match="your turn"):
        asked(before, stub, check)
