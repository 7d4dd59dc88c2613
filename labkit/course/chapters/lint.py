"""What is not as it should be in one notebook; the hygiene tests ask the same."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from labkit.course import exercises
from labkit.course.chapters.editions import leaks, student, tasks
from labkit.course.chapters.front_matter import front_matter_problems, front_matter_text
from labkit.course.chapters.lint_form import chapter_problems
from labkit.course.claims import known_claims
from labkit.course.notebook_form import (
    ROOT,
    Notebook,
    canonical,
    claim_tags,
    notebook_name,
    read_notebook,
    tags,
    text_of,
)
from labkit.course.plan import planned
from labkit.course.sources import anchor_problem

UNWANTED = re.compile(
    r"^\s*[!%](?!load_ext labkit$|%cuda\b)|\bpip install\b|/home/|/Users/|[A-Z]:\\\\", re.MULTILINE
)
KNOWN_TAGS = {
    "exercise", "check", "predict", "backstage", "note", "keep_output", "raises-exception",
    "nbval-skip",
}  # fmt: skip


def problems(path: Path) -> list[str]:
    """Everything wrong with a notebook, as sentences."""
    try:
        notebook = read_notebook(path)
    except ValueError as error:
        return [str(error)]
    inside = path.resolve().is_relative_to(ROOT / "notebooks")
    name = notebook_name(path) if inside else path.stem
    found = list(_form_problems(notebook, path))
    found += _front_matter_problems(notebook, name)
    found += _claim_problems(notebook)
    found += _exercise_problems(notebook, name)
    if not front_matter_problems(notebook["metadata"].get("labkit")):
        found += chapter_problems(notebook, [i for task in tasks(notebook) for i in task.ids])
    found += [f"an edition without solutions shows {x!r}" for x in _leaks(notebook)]
    return found


def _form_problems(notebook: Notebook, path: Path) -> Iterator[str]:
    if path.read_text(encoding="utf-8") != text_of(canonical(notebook)):
        yield "not in canonical form (labkit notebooks clean)"
    for cell in notebook["cells"]:
        for tag in tags(cell):
            if tag not in KNOWN_TAGS and not tag.startswith("claim:"):
                yield f"cell {cell['id']} has the unknown tag {tag!r}"
        if "keep_output" in tags(cell) and not cell.get("outputs"):
            yield f"cell {cell['id']} keeps no output yet (labkit notebooks refresh)"
        if cell["cell_type"] == "code" and (unwanted := UNWANTED.search(cell["source"])):
            yield f"cell {cell['id']} holds {unwanted[0]!r}: no magics, installs or paths"
    if not any(re.search(r"^#+ In PyTorch", c["source"], re.MULTILINE) for c in notebook["cells"]):
        yield "no heading 'In PyTorch'"


def _front_matter_problems(notebook: Notebook, name: str) -> Iterator[str]:
    about = notebook["metadata"].get("labkit")
    found = front_matter_problems(about)
    if found:
        yield from found
        return
    assert about is not None
    if not notebook["cells"] or notebook["cells"][0]["source"] != front_matter_text(about):
        yield "the first cell does not say what metadata.labkit says"
    plan = planned().get(name)
    if plan is None:
        yield f"{name} is not in the plan (labkit/course/plan.yaml)"
    else:
        if "title" in plan:
            yield "the plan has a title for it: that of the notebook is enough"
        for key in ("needs", "claims"):
            if sorted(about[key]) != sorted(plan[key]):
                yield f"{key} differ from the plan: {sorted({*about[key]} ^ {*plan[key]})}"
    yield from (problem for anchor in about["anchors"] if (problem := anchor_problem(anchor)))


def _claim_problems(notebook: Notebook) -> Iterator[str]:
    tagged = {claim_id for cell in notebook["cells"] for claim_id in claim_tags(cell)}
    owned = set(notebook["metadata"].get("labkit", {}).get("claims", []))
    yield from (f"claim {claim_id} has no cell" for claim_id in sorted(owned - tagged))
    known = known_claims()
    yield from (f"there is no claim {claim_id}" for claim_id in sorted((owned | tagged) - known))


def _exercise_problems(notebook: Notebook, name: str) -> Iterator[str]:
    asked: list[str] = []
    for task in tasks(notebook):
        where = f"the exercise in cell {task.stub['id']}"
        if "raise NotImplementedError" not in task.stub["source"]:
            yield f"{where} is no stub: it does not raise NotImplementedError"
        if len(task.checks) != 1 or len(task.ids) != 1:
            yield f"{where} needs one check cell naming one exercise, has {task.ids}"
        if not task.solution_code:
            yield f"{where} needs a solution with a ```python block"
        try:
            ast.parse(task.solution_code)
        except SyntaxError as error:
            yield f"{where}: its solution does not parse: {error}"
        asked += task.ids
    known: set[str] = set()
    for exercise_id in asked:
        try:
            exercises.find(exercise_id)
            known.add(exercise_id.partition(".")[0])
        except exercises.UnknownExercise as error:
            yield str(error)
    for module in sorted(known):
        if exercises.notebook_of(module) != name:
            yield f"exercises/{module}.py belongs to {exercises.notebook_of(module)}, not to {name}"
        missing = [e.id for e in exercises.in_module(module) if e.id not in asked]
        if missing:
            yield f"exercises not asked in the notebook: {missing}"
    wanted = planned().get(name, {}).get("exercises", [])
    if left := [w for w in wanted if w not in {a.partition(".")[2] for a in asked}]:
        yield f"planned exercises are missing: {left}"


def _leaks(notebook: Notebook) -> list[str]:
    return leaks(notebook, text_of(student(notebook)))
