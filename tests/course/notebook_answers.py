"""The solutions that stand in the notebooks, as a learner's functions, each in its own file."""

import ast
import sys
import types

from labkit.course import exercises
from labkit.course.chapters.editions import solved, tasks
from labkit.course.notebook_form import ROOT, read_notebook, tags
from labkit.course.your_machine.written_down import global_names


def answer_from_notebook(exercise_id, folder):
    """What the notebook's check cell hands to `course.check`, with the solution in the stub.

    folder  where the file is written that holds what the answer needs of the notebook's cells
    """
    chapter = exercises.notebook_of(exercise_id.partition(".")[0])
    notebook = read_notebook(ROOT / "notebooks" / f"{chapter}.ipynb")
    task = next(task for task in tasks(notebook) if exercise_id in task.ids)
    asked = next(found for cell in task.checks if (found := _checked(cell, exercise_id)))
    before = []
    for cell in solved(notebook)["cells"]:
        if cell["cell_type"] == "code" and "check" not in tags(cell):
            before += ast.parse(cell["source"]).body
        if cell["id"] == task.checks[0]["id"]:
            break
    text = "\n\n\n".join(map(ast.unparse, _needed(asked, before))) + "\n"
    file = folder / f"{exercise_id}.py"
    file.write_text(text, encoding="utf-8")
    module = types.ModuleType(f"answers_{exercise_id.replace('.', '_')}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    exec(compile(text, str(file), "exec"), vars(module))
    return eval(compile(ast.Expression(asked), str(file), "eval"), vars(module))


def _checked(cell, exercise_id):
    """The second argument of the cell's `course.check(exercise_id, ...)`."""
    for node in ast.walk(ast.parse(cell["source"])):
        is_check = isinstance(node, ast.Call) and ast.unparse(node.func) == "course.check"
        if is_check and ast.literal_eval(node.args[0]) == exercise_id:
            return node.args[1]
    return None


def _needed(expression, statements):
    """The statements that the expression needs, in their order."""
    names, kept = _loaded(expression), set()
    grew = True
    while grew:
        grew = False
        for at, statement in enumerate(statements):
            if at not in kept and _bound(statement) & names and _is_last(at, statements, names):
                kept.add(at)
                names |= _loaded(statement)
                grew = True
    return [statements[at] for at in sorted(kept)]


def _is_last(at, statements, names):
    """No later statement gives all these names another meaning."""
    wanted = _bound(statements[at]) & names
    later = [one for one in statements[at + 1 :] if not isinstance(one, ast.AugAssign)]
    return not any(wanted <= _bound(one) for one in later)


def _loaded(node):
    if isinstance(node, ast.expr):
        return global_names(compile(ast.Expression(node), "<expression>", "eval"))
    return global_names(compile(ast.Module([node], []), "<statement>", "exec"))


def _bound(statement):
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        stored = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
        return {n.id for n in stored if isinstance(n.ctx, ast.Store)}
    return set()
