"""What is wrong with the predictions of a chapter: nothing may tell before its time."""

import ast
import re
from collections.abc import Iterator

from labkit.course.chapters.chapter import FENCED, Part, called, text_constants

REVEAL_LINES = 3
OPENS = re.compile(r"\w+ = course\.predict\(")
"""The first line of a prediction's cell: JupyterLab shows that of a hidden source."""
TELLING = 4
"""So many words of an explanation in a row give it away."""


def prediction_problems(parts: list[Part]) -> Iterator[str]:
    """Predictions that are not hidden, not revealed, revealed by a literal, or told beforehand."""
    waiting: dict[str, tuple[Part, list[str]]] = {}
    told: list[tuple[Part, list[str]]] = []
    for part in parts:
        for name, explanations in _asked(part):
            if name in waiting:
                yield f"the prediction in cell {waiting[name][0].id} is never revealed"
            waiting[name] = part, explanations
            told.append((part, explanations))
        if part.calls("predict"):
            yield from _form(part)
        for call in part.calls("reveal"):
            name = called(call).rpartition(".")[0]
            if waiting.pop(name, None) is None:
                yield f"cell {part.id} reveals {name}, which nothing above asks"
            yield from _reveal(part, call)
    yield from (
        f"the prediction in cell {part.id} is never revealed" for part, _ in waiting.values()
    )
    for at, part in enumerate(parts):
        if part.calls("reveal"):
            yield from _conclusion(part, parts[at + 1 :])
    for part, explanations in told:
        yield from _spoilt(part, explanations, parts)
        yield from _kept(part, parts)


def _asked(part: Part) -> Iterator[tuple[str, list[str]]]:
    """(variable, its explanations) of every prediction a cell asks."""
    for node in part.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call = node.value
            if called(call) == "course.predict" and isinstance(node.targets[0], ast.Name):
                choices = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "choices")]
                values = [v for c in choices if isinstance(c, ast.Dict) for v in c.values]
                yield node.targets[0].id, [" ".join(text_constants(value)) for value in values]


def _form(part: Part) -> Iterator[str]:
    asked = dict(_asked(part))
    last = part.tree.body[-1]
    shown = last.value.id if isinstance(last, ast.Expr) and isinstance(last.value, ast.Name) else ""
    if not OPENS.fullmatch(part.source.partition("\n")[0]):
        yield f"cell {part.id} begins with more than `guess = course.predict(`, and that shows"
    if "predict" not in part.tags:
        yield f"cell {part.id} asks a prediction and does not hide its source"
    if len(asked) != 1 or shown not in asked:
        yield f"cell {part.id} should read `guess = course.predict(...)`, then `guess`"
    for explanations in asked.values():
        if not 2 <= len(explanations) <= 4:
            yield f"cell {part.id} offers {len(explanations)} answers with reasons, not 2 to 4"


def _reveal(part: Part, call: ast.Call) -> Iterator[str]:
    lines = (call.end_lineno or call.lineno) - call.lineno + 1
    if lines > REVEAL_LINES:
        yield f"the reveal in cell {part.id} takes {lines} lines, {REVEAL_LINES} at most"
    if not part.is_visible_code:
        yield f"the reveal in cell {part.id} is hidden"
    last = part.tree.body[-1]
    if not isinstance(last, ast.Expr) or last.value is not call:
        yield f"cell {part.id} goes on behind its reveal, so no answer is waited for"
    if not call.args or not any(isinstance(n, ast.Name) for n in ast.walk(call.args[0])):
        yield f"cell {part.id} reveals a literal, not what the run found"
    if any(len(text.split()) > TELLING for text in text_constants(call)):
        yield f"the reveal in cell {part.id} holds an explanation: it belongs to its choice"


def _conclusion(part: Part, below: list[Part]) -> Iterator[str]:
    """What follows a reveal waits for the answer, up to a heading, a question or an exercise."""
    for other in below:
        if other.is_exercise or other.calls("predict") or other.calls("check"):
            return
        if other.is_code:
            continue
        heading = re.search(r"^#{1,3} ", FENCED.sub("", other.source), re.MULTILINE)
        if heading and heading.start():
            yield (
                f"cell {other.id}, below the reveal in cell {part.id}, has a heading amid its "
                "text: the section wants a cell of its own, so that the text before it waits for "
                "the answer"
            )
        if heading:
            return


def _spoilt(part: Part, explanations: list[str], parts: list[Part]) -> Iterator[str]:
    """What a reader may see before the answer: every visible text up to its reveal."""
    at = parts.index(part)
    later = [p for p in parts[at:] if p.calls("reveal")]
    end = parts.index(later[0]) if later else len(parts)
    visible = [p for p in parts[: end + 1] if not p.is_code or p.is_visible_code]
    for explanation in explanations:
        runs = _runs(explanation)
        for other in visible:
            if runs & _runs(other.source):
                yield f"cell {other.id} tells what cell {part.id} asks: {explanation[:50]!r}"
                break


def _kept(part: Part, parts: list[Part]) -> Iterator[str]:
    """Outputs that are in the file, so they stand under the question before anybody ran a cell."""
    for other in parts[parts.index(part) + 1 :]:
        if not other.is_code and re.search(r"^#+ ", other.source, re.MULTILINE):
            return
        if "keep_output" in other.tags:
            yield f"the output kept in cell {other.id} is read before cell {part.id} is answered"


def _runs(text: str) -> set[tuple[str, ...]]:
    """Every run of words long enough to be the same thought."""
    words = re.findall(r"\w+", text.lower())
    length = TELLING + 2
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}
