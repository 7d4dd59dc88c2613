"""What is not as it should be in a chapter: first screen, cells, prose, minutes, end."""

import ast
import itertools
import re
from collections.abc import Iterator
from typing import Any

from labkit.course import exercises
from labkit.course.chapters.chapter import Part, parts_of, reading_minutes, statements
from labkit.course.chapters.lint_claims import claim_table_problems
from labkit.course.chapters.lint_kept import kept_problems
from labkit.course.chapters.lint_names import name_problems
from labkit.course.chapters.lint_predictions import prediction_problems
from labkit.course.exercise import Exercise
from labkit.course.notebook_form import Notebook

COLUMNS, LINES, CUDA_LINES, STUB_LINES = 80, 12, 20, 20
FIRST_LINES, FIRST_WORDS, FIRST_SENTENCES, IMPORT_LINES = 6, 90, 4, 6
WORDS_BETWEEN, STATEMENT_WORDS = 90, 150
NOTES, NOTE_WORDS = 3, 40
RUNG_MINUTES = {"warm-up": 4, "core": 15, "boss": 40}
LONGEST, LONGEST_EXERCISES = 60, 40
ONLY_HANDED_ON = ("course.yours", "course.with_helpers", "show.code")
"""Calls that take a function and do not call it."""
TOLERANCE = 0.2
HEADING = re.compile(r"^(#+) +(.+?)\s*$", re.MULTILINE)
ENDING = ("Recap", "In PyTorch", "Next")
SENTENCE = re.compile(r"[.?!](?=\s|$)")


def chapter_problems(notebook: Notebook, asked: list[str]) -> Iterator[str]:
    """Everything that a chapter promises and this one does not keep.

    asked  the ids of the exercises it asks
    """
    about, parts = notebook["metadata"]["labkit"], parts_of(notebook)
    yield from _first_screen(parts)
    yield from _cells(parts)
    yield from _prose(parts)
    yield from _ending(parts)
    yield from _minutes(about, parts, _known(asked))
    yield from _stubs(parts)
    yield from prediction_problems(parts)
    yield from claim_table_problems(parts, about["claims"])
    yield from kept_problems(parts)
    yield from name_problems(parts)


def _known(asked: list[str]) -> list[Exercise]:
    found = []
    for exercise_id in asked:
        try:
            found.append(exercises.find(exercise_id))
        except exercises.UnknownExercise:
            continue  # said elsewhere
    return found


def _first_screen(parts: list[Part]) -> Iterator[str]:
    shown = next(
        (at for at, part in enumerate(parts) if part.is_visible_code and not part.is_import), None
    )
    if shown is None:
        yield "no visible code"
        return
    prose = [part for part in parts[1:shown] if not part.is_code]
    words = sum(part.words for part in prose)
    sentences = sum(len(SENTENCE.findall(part.source)) for part in prose)
    if not prose or words > FIRST_WORDS or sentences > FIRST_SENTENCES:
        yield (
            f"the first screen holds {sentences} sentences, {words} words before its first cell: "
            f"the puzzle takes one to {FIRST_SENTENCES}, {FIRST_WORDS} at most"
        )
    if any(HEADING.search(part.source) for part in prose):
        yield "the first screen has a heading besides the title"
    if any("predict" in part.tags for part in parts[:shown]):
        yield "the first thing on the page is a prediction: show the puzzle first"
    body = [node for node in parts[shown].tree.body if not _is_import(node)]
    lines = sum(_lines(node) for node in body)
    if lines > FIRST_LINES:
        yield f"the first visible cell has {lines} lines besides imports, {FIRST_LINES} at most"


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _cells(parts: list[Part]) -> Iterator[str]:
    imports = 0
    for part in parts:
        if not part.is_visible_code:
            continue
        imports += sum(_lines(node) for node in part.tree.body if _is_import(node))
        code, kernels = part.code_lines()
        most = STUB_LINES if "exercise" in part.tags else LINES
        if len(code) > most:
            yield f"cell {part.id} shows {len(code)} lines of code, {most} at most"
        for kernel in kernels:
            if len(kernel) > CUDA_LINES:
                yield f"cell {part.id} shows {len(kernel)} lines of CUDA, {CUDA_LINES} at most"
        if "check" in part.tags:
            continue
        if wide := [line for line in part.source.splitlines() if len(line) > COLUMNS]:
            yield f"cell {part.id} is {max(map(len, wide))} columns wide, {COLUMNS} at most"
    if imports > IMPORT_LINES:
        yield f"{imports} visible lines of imports, {IMPORT_LINES} at most: hide the others"


def _prose(parts: list[Part]) -> Iterator[str]:
    notes = [part for part in parts if "note" in part.tags]
    if len(notes) > NOTES:
        yield f"{len(notes)} margin notes, {NOTES} at most"
    for part in notes:
        if part.words > NOTE_WORDS:
            yield f"the note in cell {part.id} has {part.words} words, {NOTE_WORDS} at most"
        if not part.source.startswith(">"):
            yield f"the note in cell {part.id} does not stand apart: begin its lines with '> '"
    yield from _stretches(parts)
    level = 1
    for part in parts[1:]:
        for marks, title in HEADING.findall("" if part.is_code else part.source):
            if len(marks) > level + 1 or len(marks) == 1:
                yield f"the heading {title!r} is of level {len(marks)}, below one of level {level}"
            level = len(marks)


def _stretches(parts: list[Part]) -> Iterator[str]:
    """Prose that goes on too long, up to the recap; the task of an exercise counts by itself."""
    tasks = statements(parts)
    words = 0
    for part in parts[1:]:
        if _begins(part, ENDING[0]):
            return
        if part.id in tasks and part.plain_words > STATEMENT_WORDS:
            yield f"the task in cell {part.id} has {part.plain_words} words, too many"
        if part.is_visible_code or "predict" in part.tags or part.id in tasks:
            words = 0
            continue
        words += part.plain_words
        if words > WORDS_BETWEEN:
            yield f"{words} words up to cell {part.id} with nothing to do or see between them"
            words = 0


def _begins(part: Part, title: str) -> bool:
    """Whether a line of this prose is the heading, or begins with the word in bold."""
    marked = re.compile(rf"^(?:#+ +|\*\*){title}\b", re.MULTILINE)
    return not part.is_code and bool(marked.search(part.source))


def _ending(parts: list[Part]) -> Iterator[str]:
    places = [
        next((at for at, part in enumerate(parts) if _begins(part, title)), None)
        for title in ENDING
    ]
    missing = [title for title, at in zip(ENDING, places, strict=True) if at is None]
    if missing:
        yield f"the chapter has no {', '.join(map(repr, missing))} at its end"
        return
    found = [at for at in places if at is not None]
    if found != sorted(found):
        yield f"the chapter ends in {', '.join(ENDING)}, in this order"
    if any(part.is_visible_code for part in parts[found[-1] :]):
        yield "visible code after the heading 'Next'"


def _minutes(about: dict[str, Any], parts: list[Part], asked: list[Exercise]) -> Iterator[str]:
    stated, counted = about["minutes"], reading_minutes(parts)
    if not (1 - TOLERANCE) * counted <= stated <= (1 + TOLERANCE) * counted:
        yield f"minutes says {stated}; words, cells and predictions make {counted:.0f}"
    needed = sum(exercise.minutes for exercise in asked if exercise.rung != "boss")
    if about["exercise_minutes"] != needed:
        yield f"exercise_minutes says {about['exercise_minutes']}; its exercises make {needed}"
    if stated > LONGEST or about["exercise_minutes"] > LONGEST_EXERCISES:
        yield f"longer than {LONGEST} + {LONGEST_EXERCISES} minutes: split it"
    for exercise in asked:
        if exercise.minutes > RUNG_MINUTES[exercise.rung]:
            most = RUNG_MINUTES[exercise.rung]
            yield f"{exercise.id}, a {exercise.rung}, takes {exercise.minutes} minutes of {most}"
    bosses = [exercise.id for exercise in asked if exercise.rung == "boss"]
    if len(bosses) > 1:
        yield f"more than one boss: {bosses}"


def _stubs(parts: list[Part]) -> Iterator[str]:
    """Visible cells that would stop a reader who left an exercise for later."""
    tasks = statements(parts)
    for before, part in itertools.pairwise(parts):
        if "exercise" in part.tags and before.id not in tasks:
            yield f"no prose above the stub in cell {part.id} says what to do"
    open_names: set[str] = set()
    for part in parts:
        if "exercise" in part.tags:
            open_names |= _defined(part)
            continue
        open_names -= _defined(part)
        if "check" in part.tags:
            continue
        for name in sorted(open_names & _used(part.tree)):
            yield f"cell {part.id} calls {name}, which is not written yet when all cells are run"


def _defined(part: Part) -> set[str]:
    return {n.name for n in part.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}


def _used(tree: ast.AST) -> set[str]:
    """Names read by a tree, but for where an unwritten answer does no harm.

    That is in a `try` that takes it, and where it is only handed on.
    """
    if isinstance(tree, ast.Call) and ast.unparse(tree.func) in ONLY_HANDED_ON:
        return set().union(*(_used(one) for one in tree.args if not isinstance(one, ast.Name)))
    if isinstance(tree, ast.Try) and any(
        handler.type is None
        or {"RuntimeError", "NotImplementedError", "Exception"} & _used(handler.type)
        for handler in tree.handlers
    ):
        return set()
    own = {tree.id} if isinstance(tree, ast.Name) and isinstance(tree.ctx, ast.Load) else set()
    return own.union(*(_used(child) for child in ast.iter_child_nodes(tree)))
